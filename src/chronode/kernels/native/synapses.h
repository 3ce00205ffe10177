// Conductance-based synapses of a group of samples: g = w p, p = sigmoid(s (v - m)), for every pair (pre j, post i).
//
//   sums       G_i = G0_i + sum_j w_ji p_ji,   J_i = J0_i + sum_j w_ji e_ji p_ji
//   gradients  of w, m, s, e and v, given those of G and J
//
// Lanes are postsynaptic neurons: parameters and their gradients are vectors, v_j a broadcast; a synapse's parameters
// are loaded once for a few samples. No (samples, pre, post) tensor leaves the caches: `sums` may keep the p of a group
// for the `gradients` that follow (measured: less than half the cost of computing them again).
//
// With da = dp p (1 - p) four sums per synapse over samples and time give all of its gradients at the very end:
//   A = sum dG p, B = sum dJ p, C = sum da, D = sum da (v - m):   dw = A + e B, de = w B, dm = -s C, ds = D.
#pragma once

#include <cmath>
#include <limits>

#include "buffer.h"
#include "gemm.h"
#include "vmath.h"

namespace chronode {

constexpr int kSumRows = 2;       // samples at a time: as many as the registers hold
constexpr int kGradientSamples = 4;

// `size` rounded up to whole vectors: the stride of every row of neurons, so that no loop has a remainder.
template <class T>
constexpr int64_t padded(int64_t size) {
  return (size + Vec<T>::kLanes - 1) / Vec<T>::kLanes * Vec<T>::kLanes;
}

// Parameters of pre x post synapses, vector by vector: m, k = -s log2(e), w, w e. Lanes beyond post have w = 0.
template <class T>
class Synapses {
 public:
  // parameters: (4, pre, post), w, m, s, e.
  Synapses(const T* parameters, int64_t pre, int64_t post)
      : pre_(pre), stride_(padded<T>(post)), data_(4 * pre * stride_), calm_(2 * pre) {
    data_.clear();
    const T *w = parameters, *m = w + pre * post, *s = m + pre * post, *e = s + pre * post;
    for (int64_t j = 0; j < pre; ++j) {
      T low = -std::numeric_limits<T>::infinity(), high = std::numeric_limits<T>::infinity();
      for (int64_t i = 0; i < post; ++i) {
        const int64_t from = j * post + i;
        T* to = data_.data() + 4 * (j * stride_ + i / kLanes * kLanes) + i % kLanes;
        to[0] = m[from];
        to[kLanes] = -MathConstants<T>::kLog2e * s[from];
        to[2 * kLanes] = w[from];
        to[3 * kLanes] = w[from] * e[from];
        const T reach = kCalmPower<T> / std::abs(to[kLanes]);
        low = std::max(low, m[from] - reach);
        high = std::min(high, m[from] + reach);
      }
      calm_[j] = low;
      calm_[pre + j] = high;
    }
  }

  // Whether every potential is so near to m that no sigmoid's power overflows (nearly always, and half the work less).
  bool calm(const T* v) const {
    const T *low = calm_.data(), *high = low + pre_;
    typename Vec<T>::Int outside = 0;  // as wide as T and counted, not asked for: so that the loop becomes vectors
    for (int64_t j = 0; j < pre_; ++j) outside += !(v[j] >= low[j]) | !(v[j] <= high[j]);
    return outside == 0;
  }

  int64_t pre() const { return pre_; }
  int64_t stride() const { return stride_; }
  const T* at(int64_t j, int64_t i) const { return data_.data() + 4 * (j * stride_ + i); }
  // Elements of p that `sums` keeps for each row, and of the sums A, B, C, D.
  int64_t kept_size() const { return pre_ * stride_ + kCacheLine / sizeof(T); }
  int64_t gradient_size() const { return 4 * pre_ * stride_; }

 private:
  static constexpr int kLanes = Vec<T>::kLanes;
  int64_t pre_, stride_;
  Buffer<T> data_, calm_;
};

// Rows of samples: element i of row r is data[r * stride + i].
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  CHRONODE_INLINE T* row(int64_t r) const { return data + r * stride; }
  Rows from(int64_t r) const { return {row(r), stride}; }
  Rows<const T> read() const { return {data, stride}; }
};

// Count rows; p of row r goes to kept + r * kept_size(), one vector of post after the other: written in order.
template <class T, int Count, bool Keep, bool Clamp>
inline void synapse_sums(const Synapses<T>& synapses, Rows<const T> v, Rows<T> conductance, Rows<T> current, T* kept) {
  constexpr int kLanes = Vec<T>::kLanes;
  const int64_t pre = synapses.pre(), stride = synapses.stride(), kept_size = synapses.kept_size();
  for (int64_t i = 0; i < stride; i += kLanes) {
    Vec<T> g[Count], c[Count];
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) {
      g[r] = Vec<T>::load(conductance.row(r) + i);
      c[r] = Vec<T>::load(current.row(r) + i);
    }
    const T* synapse = synapses.at(0, i);
    for (int64_t j = 0; j < pre; ++j, synapse += 4 * stride) {
      Vec<T> p[Count];
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r)
        p[r] = (Vec<T>(v.row(r)[j]) - Vec<T>::load(synapse)) * Vec<T>::load(synapse + kLanes);
      sigmoids_of_powers<T, Count, Clamp>(p);
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r) {
        if constexpr (Keep) p[r].store(kept + r * kept_size + i * pre + j * kLanes);
        g[r] = fma(p[r], Vec<T>::load(synapse + 2 * kLanes), g[r]);
        c[r] = fma(p[r], Vec<T>::load(synapse + 3 * kLanes), c[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < Count; ++r) {
      g[r].store(conductance.row(r) + i);
      c[r].store(current.row(r) + i);
    }
  }
}

// Adds the synapses' conductance and current to those given. kept: null, or room for rows * kept_size() elements.
template <class T>
inline void synapse_sums(const Synapses<T>& synapses, int64_t rows, Rows<const T> v, Rows<T> conductance,
                         Rows<T> current, T* kept) {
  for (int64_t r = 0; r < rows; r += kSumRows) {
    const int64_t count = std::min<int64_t>(kSumRows, rows - r);
    bool calm = true;
    for (int64_t n = 0; n < count; ++n) calm &= synapses.calm(v.row(r + n));
    with_rows<kSumRows>(count, [&](auto size) {
      constexpr int kCount = decltype(size)::value;
      const auto run = kept == nullptr ? (calm ? synapse_sums<T, kCount, false, false>
                                               : synapse_sums<T, kCount, false, true>)
                       : calm          ? synapse_sums<T, kCount, true, false>
                                       : synapse_sums<T, kCount, true, true>;
      run(synapses, v.from(r), conductance.from(r), current.from(r),
          kept == nullptr ? nullptr : kept + r * synapses.kept_size());
    });
  }
}

// dv_j = sum_i s_ji da_ji, made of k da with k = -s log2(e): a vector per j, their lanes summed kLanes at a time.
template <class T, int Count, bool Kept>
inline void synapse_gradients(const Synapses<T>& synapses, Rows<const T> v, Rows<const T> d_conductance,
                              Rows<const T> d_current, const T* kept, T* sums, Rows<T> dv) {
  constexpr int kLanes = Vec<T>::kLanes;
  constexpr T kScale = T(-1) / MathConstants<T>::kLog2e;
  const int64_t pre = synapses.pre(), stride = synapses.stride(), kept_size = synapses.kept_size();
  Vec<T> partial[Count][kLanes];
  for (int64_t first = 0; first < pre; first += kLanes) {
    const int lanes = lanes_within<T>(pre - first);
    for (int n = 0; n < lanes; ++n) {
      const int64_t j = first + n;
      Vec<T> total[Count];
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r) total[r] = Vec<T>::zero();
      const T* synapse = synapses.at(j, 0);
      T* sum = sums + 4 * j * stride;
      for (int64_t i = 0; i < stride; i += kLanes, synapse += 4 * kLanes, sum += 4 * kLanes) {
        const Vec<T> k = Vec<T>::load(synapse + kLanes), w = Vec<T>::load(synapse + 2 * kLanes);
        const Vec<T> we = Vec<T>::load(synapse + 3 * kLanes);
        Vec<T> a = Vec<T>::load(sum), b = Vec<T>::load(sum + kLanes);
        Vec<T> c = Vec<T>::load(sum + 2 * kLanes), d = Vec<T>::load(sum + 3 * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < Count; ++r) {
          const Vec<T> distance = Vec<T>(v.row(r)[j]) - Vec<T>::load(synapse);
          Vec<T> p[1];
          if constexpr (Kept) {
            p[0] = Vec<T>::load(kept + r * kept_size + i * pre + j * kLanes);
          } else {
            p[0] = distance * k;
            sigmoids_of_powers<T, 1, true>(p);
          }
          const Vec<T> dg_p = Vec<T>::load(d_conductance.row(r) + i) * p[0];
          const Vec<T> dj_p = Vec<T>::load(d_current.row(r) + i) * p[0];
          const Vec<T> da = fma(dg_p, w, dj_p * we) * (Vec<T>(T(1)) - p[0]);
          a += dg_p;
          b += dj_p;
          c += da;
          d = fma(da, distance, d);
          total[r] = fma(da, k, total[r]);
        }
        a.store(sum);
        b.store(sum + kLanes);
        c.store(sum + 2 * kLanes);
        d.store(sum + 3 * kLanes);
      }
#pragma GCC unroll 4
      for (int r = 0; r < Count; ++r) partial[r][n] = total[r];
    }
    for (int n = lanes; n < kLanes; ++n)
      for (int r = 0; r < Count; ++r) partial[r][n] = Vec<T>::zero();
    for (int r = 0; r < Count; ++r) {
      T* out = dv.row(r) + first;
      fma(sum_each(partial[r]), Vec<T>(kScale), Vec<T>::load(out, lanes)).store(out, lanes);
    }
  }
}

// Adds to the sums A, B, C, D of each synapse and to dv. kept: what `synapse_sums` kept for the same rows, or null.
template <class T>
inline void synapse_gradients(const Synapses<T>& synapses, int64_t rows, Rows<const T> v, Rows<const T> d_conductance,
                              Rows<const T> d_current, const T* kept, T* sums, Rows<T> dv) {
  for (int64_t r = 0; r < rows; r += kGradientSamples) {
    const T* keep = kept == nullptr ? nullptr : kept + r * synapses.kept_size();
    with_rows<kGradientSamples>(std::min<int64_t>(kGradientSamples, rows - r), [&](auto size) {
      constexpr int kCount = decltype(size)::value;
      const auto run = keep != nullptr ? synapse_gradients<T, kCount, true> : synapse_gradients<T, kCount, false>;
      run(synapses, v.from(r), d_conductance.from(r), d_current.from(r), keep, sums, dv.from(r));
    });
  }
}

// The gradient (4, pre, post) of w, m, s, e from the sums A, B, C, D and the parameters themselves.
template <class T>
inline void finish_gradient(const T* parameters, const T* sums, int64_t pre, int64_t post, T* gradient) {
  constexpr int kLanes = Vec<T>::kLanes;
  const int64_t size = pre * post;
  for (int64_t j = 0; j < pre; ++j)
    for (int64_t i = 0; i < post; ++i) {
      const int64_t at = j * post + i;
      const T w = parameters[at], s = parameters[2 * size + at], e = parameters[3 * size + at];
      const T* sum = sums + 4 * (j * padded<T>(post) + i / kLanes * kLanes) + i % kLanes;
      gradient[at] = sum[0] + e * sum[kLanes];
      gradient[size + at] = -s * sum[2 * kLanes];
      gradient[2 * size + at] = sum[3 * kLanes];
      gradient[3 * size + at] = w * sum[kLanes];
    }
}

}  // namespace chronode
