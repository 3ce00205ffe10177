// UnICORNN's recurrence, element by element over a chunk of time: forward, its inverse, and its adjoint.
//
// Each loop takes two vectors of units (a cache line) through all steps and samples of the chunk: parameters and their
// gradients stay in registers, and the samples of a step are independent, which hides the latency of tanh.
#pragma once

#include <type_traits>

#include "gemm.h"
#include "unicornn_chunk.h"
#include "vmath.h"

namespace chronode {
namespace unicornn {

// One layer of the block, as the loops see it: parameters padded to whole vectors, rows `stride` apart.
template <class T>
struct Oscillators {
  int64_t hidden, stride;
  const T *w, *e;
  T alpha;
  const T* mask;  // [sample] rows, or null
};

// f(integral_constant vectors, column): two vectors at a time, one for what is left.
template <class T, class F>
CHRONODE_INLINE void for_columns(int64_t hidden, F f) {
  constexpr int kLanes = Vec<T>::kLanes;
  int64_t column = 0;
  for (; column + kLanes < hidden; column += 2 * kLanes) f(std::integral_constant<int, 2>(), column);
  if (column < hidden) f(std::integral_constant<int, 1>(), column);
}

// N vectors of a row.
template <class T, int N>
struct Row {
  Vec<T> v[N];
  static CHRONODE_INLINE Row load(const T* p) {
    Row row;
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) row.v[n] = Vec<T>::load(p + n * Vec<T>::kLanes);
    return row;
  }
  CHRONODE_INLINE void store(T* p) const {
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) v[n].store(p + n * Vec<T>::kLanes);
  }
  static CHRONODE_INLINE Row zero() {
    Row row;
#pragma GCC unroll 2
    for (int n = 0; n < N; ++n) row.v[n] = Vec<T>::zero();
    return row;
  }
};

// y and z step forward. u becomes tanh(w y + u) if it is to be kept; out receives y (masked; 0 at padding).
template <class T, int N, bool kKeep, bool kMasked>
void advance_columns(Chunk<T> chunk, Oscillators<T> layer, T* y, T* z, T* u, int64_t u_stride, T* out,
                     int64_t column) {
  const auto w = Row<T, N>::load(layer.w + column), e = Row<T, N>::load(layer.e + column);
  const Vec<T> alpha = layer.alpha;
  for (int64_t t = 0; t < chunk.steps; ++t)
    for (int64_t i = 0; i < chunk.samples; ++i) {
      const int64_t row = t * chunk.samples + i, state = i * layer.stride + column;
      T* const out_row = out + row * layer.stride + column;
      if (t >= chunk.valid[i]) {
        Row<T, N>::zero().store(out_row);
        continue;
      }
      const Vec<T> dt = chunk.dt[row];
      T* const u_row = u + row * u_stride + column;
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const int at = n * Vec<T>::kLanes;
        const Vec<T> step = e.v[n] * dt, y_before = Vec<T>::load(y + state + at);
        const Vec<T> force = tanh(fma(w.v[n], y_before, Vec<T>::load(u_row + at)));
        const Vec<T> z_after = fnma(step, fma(alpha, y_before, force), Vec<T>::load(z + state + at));
        const Vec<T> y_after = fma(step, z_after, y_before);
        if constexpr (kKeep) force.store(u_row + at);
        z_after.store(z + state + at);
        y_after.store(y + state + at);
        if constexpr (kMasked) (y_after * Vec<T>::load(layer.mask + state + at)).store(out_row + at);
        else y_after.store(out_row + at);
      }
    }
}

// The way back: y and z before the chunk from those after it; u becomes tanh(w y + u), out receives y as in advance.
template <class T, int N, bool kMasked>
void restore_columns(Chunk<T> chunk, Oscillators<T> layer, T* y, T* z, T* u, T* out, int64_t column) {
  const auto w = Row<T, N>::load(layer.w + column), e = Row<T, N>::load(layer.e + column);
  const Vec<T> alpha = layer.alpha;
  for (int64_t t = chunk.steps - 1; t >= 0; --t)
    for (int64_t i = 0; i < chunk.samples; ++i) {
      const int64_t row = t * chunk.samples + i, state = i * layer.stride + column;
      T* const out_row = out + row * layer.stride + column;
      if (t >= chunk.valid[i]) {
        Row<T, N>::zero().store(out_row);
        continue;
      }
      const Vec<T> dt = chunk.dt[row];
      T* const u_row = u + row * layer.stride + column;
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const int at = n * Vec<T>::kLanes;
        const Vec<T> step = e.v[n] * dt;
        const Vec<T> y_after = Vec<T>::load(y + state + at), z_after = Vec<T>::load(z + state + at);
        const Vec<T> y_before = fnma(step, z_after, y_after);
        const Vec<T> force = tanh(fma(w.v[n], y_before, Vec<T>::load(u_row + at)));
        fma(step, fma(alpha, y_before, force), z_after).store(z + state + at);
        y_before.store(y + state + at);
        force.store(u_row + at);
        if constexpr (kMasked) (y_after * Vec<T>::load(layer.mask + state + at)).store(out_row + at);
        else y_after.store(out_row + at);
      }
    }
}

// What the adjoint loop reads and writes besides the layer. Rows are [step][sample] or, the states, [sample].
template <class T>
struct Adjoint {
  const T *y, *z;                  // states before the chunk
  T *dy, *dz;                      // gradients of the states: from after the chunk to before it
  const T* force;                  // tanh(w y + u); may be du
  int64_t force_stride;
  int64_t force_ahead;             // elements from there to the next call's, which is fetched into cache meanwhile
  const T* grad;                   // gradient of the layer's output
  T *du, *out;                     // gradient of u; the layer's output
  T *sum_b, *sum_w, *sum_e;        // (hidden) added to
  T* sum_dt;                       // a vector for each row, added to; null: not wanted
  T* trace;                        // memory for the states of two vectors of units, `trace_size` elements
  static int64_t trace_size(int64_t rows, int64_t samples) { return 4 * Vec<T>::kLanes * (rows + samples); }
};

// y and z of a few units before the chunk and after each of its steps, in L1: row r has them before step row r, row
// r + samples after it. The layer's output is written on the way.
template <class T, int N>
struct Trace {
  T* data;
  CHRONODE_INLINE T* y(int64_t row) const { return data + row * 2 * N * Vec<T>::kLanes; }
  CHRONODE_INLINE T* z(int64_t row) const { return y(row) + N * Vec<T>::kLanes; }
};

// The states follow from those before the chunk and the forces in the order of time, with the bits of the forward pass.
template <class T, int N, bool kMasked>
CHRONODE_INLINE void trace_columns(const Chunk<T>& chunk, const Oscillators<T>& layer, const Adjoint<T>& a,
                                   Trace<T, N> trace, int64_t column) {
  const auto e = Row<T, N>::load(layer.e + column);
  const Vec<T> alpha = layer.alpha;
  for (int64_t i = 0; i < chunk.samples; ++i) {
    Row<T, N>::load(a.y + i * layer.stride + column).store(trace.y(i));
    Row<T, N>::load(a.z + i * layer.stride + column).store(trace.z(i));
  }
  for (int64_t t = 0; t < chunk.steps; ++t)
    for (int64_t i = 0; i < chunk.samples; ++i) {
      const int64_t row = t * chunk.samples + i, after = row + chunk.samples;
      T* const out_row = a.out + row * layer.stride + column;
      if (t >= chunk.valid[i]) {
        Row<T, N>::load(trace.y(row)).store(trace.y(after));
        Row<T, N>::load(trace.z(row)).store(trace.z(after));
        Row<T, N>::zero().store(out_row);
        continue;
      }
      const Vec<T> dt = chunk.dt[row];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const int at = n * Vec<T>::kLanes;
        const T* const force = a.force + row * a.force_stride + column + at;
        if (at * sizeof(T) % 64 == 0) __builtin_prefetch(force + a.force_ahead, 0, 2);
        const Vec<T> step = e.v[n] * dt, y_before = Vec<T>::load(trace.y(row) + at);
        const Vec<T> pull = fma(alpha, y_before, Vec<T>::load(force));
        const Vec<T> z_after = fnma(step, pull, Vec<T>::load(trace.z(row) + at));
        const Vec<T> y_after = fma(step, z_after, y_before);
        z_after.store(trace.z(after) + at);
        y_after.store(trace.y(after) + at);
        if constexpr (kMasked) (y_after * Vec<T>::load(layer.mask + i * layer.stride + column + at)).store(out_row + at);
        else y_after.store(out_row + at);
      }
    }
}

template <class T, int N, bool kMasked, bool kTime>
void adjoint_columns(Chunk<T> chunk, Oscillators<T> layer, Adjoint<T> a, int64_t column) {
  const Trace<T, N> trace{a.trace};
  trace_columns<T, N, kMasked>(chunk, layer, a, trace, column);
  const auto w = Row<T, N>::load(layer.w + column), e = Row<T, N>::load(layer.e + column);
  const Vec<T> alpha = layer.alpha, one = T(1);
  auto sum_b = Row<T, N>::zero(), sum_w = sum_b, sum_e = sum_b;
  for (int64_t t = chunk.steps - 1; t >= 0; --t)
    for (int64_t i = 0; i < chunk.samples; ++i) {
      const int64_t row = t * chunk.samples + i, state = i * layer.stride + column;
      const int64_t place = row * layer.stride + column;
      if (t >= chunk.valid[i]) {
        Row<T, N>::zero().store(a.du + place);
        continue;
      }
      const Vec<T> dt = chunk.dt[row];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const int at = n * Vec<T>::kLanes;
        const Vec<T> step = e.v[n] * dt, force = Vec<T>::load(a.force + row * a.force_stride + column + at);
        const Vec<T> y_before = Vec<T>::load(trace.y(row) + at);
        const Vec<T> z_after = Vec<T>::load(trace.z(row + chunk.samples) + at);
        Vec<T> grad = Vec<T>::load(a.grad + place + at);
        if constexpr (kMasked) grad *= Vec<T>::load(layer.mask + state + at);
        const Vec<T> dy = Vec<T>::load(a.dy + state + at) + grad;
        const Vec<T> dz = fma(step, dy, Vec<T>::load(a.dz + state + at));
        const Vec<T> d_step = fnma(dz, fma(alpha, y_before, force), dy * z_after);
        const Vec<T> d_pull = -(dz * step), du = d_pull * fnma(force, force, one);
        dz.store(a.dz + state + at);
        fma(alpha, d_pull, fma(w.v[n], du, dy)).store(a.dy + state + at);
        du.store(a.du + place + at);
        sum_b.v[n] += du;
        sum_w.v[n] = fma(du, y_before, sum_w.v[n]);
        sum_e.v[n] = fma(d_step, dt, sum_e.v[n]);
        if constexpr (kTime) {
          T* const sum = a.sum_dt + row * Vec<T>::kLanes;
          fma(d_step, e.v[n], Vec<T>::load(sum)).store(sum);
        }
      }
    }
#pragma GCC unroll 2
  for (int n = 0; n < N; ++n) {
    const int64_t first = column + n * Vec<T>::kLanes;
    const int lanes = lanes_within<T>(layer.hidden - first);
    const auto add = [=](T* total, Vec<T> sum) {
      (Vec<T>::load(total + first, lanes) + sum).store(total + first, lanes);
    };
    add(a.sum_b, sum_b.v[n]);
    add(a.sum_w, sum_w.v[n]);
    add(a.sum_e, sum_e.v[n]);
  }
}

// f(true_type) or f(false_type): a setting of the call as a template argument.
template <class F>
CHRONODE_INLINE void decide(bool yes, F f) {
  if (yes) f(std::true_type());
  else f(std::false_type());
}

template <class T>
void advance(const Chunk<T>& chunk, const Oscillators<T>& layer, T* y, T* z, T* u, int64_t u_stride, bool keep,
             T* out) {
  for_columns<T>(layer.hidden, [&](auto n, int64_t column) {
    decide(keep, [&](auto kept) {
      decide(layer.mask != nullptr, [&](auto masked) {
        advance_columns<T, n(), kept(), masked()>(chunk, layer, y, z, u, u_stride, out, column);
      });
    });
  });
}

template <class T>
void restore(const Chunk<T>& chunk, const Oscillators<T>& layer, T* y, T* z, T* u, T* out) {
  for_columns<T>(layer.hidden, [&](auto n, int64_t column) {
    decide(layer.mask != nullptr,
           [&](auto masked) { restore_columns<T, n(), masked()>(chunk, layer, y, z, u, out, column); });
  });
}

template <class T>
void adjoint(const Chunk<T>& chunk, const Oscillators<T>& layer, const Adjoint<T>& a) {
  for_columns<T>(layer.hidden, [&](auto n, int64_t column) {
    decide(layer.mask != nullptr, [&](auto masked) {
      decide(a.sum_dt != nullptr,
             [&](auto time) { adjoint_columns<T, n(), masked(), time()>(chunk, layer, a, column); });
    });
  });
}

}  // namespace unicornn
}  // namespace chronode
