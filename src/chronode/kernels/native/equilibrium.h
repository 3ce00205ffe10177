// iRNN and ERNN over a whole sequence: what forward and backward share.
//
// The K steps of a time step are
//
//   g <- g + eta_k (phi(U q + c) - gamma q) with q = g + s h,   from g = h or 0,   then   h' = g,   c = W x + b
//
// (g is kept beside q: with the recursion on q alone and h' = q - s h a small g would drown in the rounding of a large h.)
// where U q is `up q` ("full") or q + up (down^T q) ("low-rank"; up and down are H x r). An outer factor P = U needs no
// products of its own: U(U q + W x + b) = U^2 q + (U W) x + U b, and U^2 is low-rank or full again; the caller multiplies
// these small matrices once per call.
//
// A block of samples runs through all of time with q, c and the packed weights in cache. The forward keeps h of every
// step (its output). The backward recomputes the K steps of a time step from there into slots, goes back through them,
// and leaves the factors of the weight gradients in the same slots; they are multiplied when enough rows have gathered.
#pragma once

#include "gemm.h"
#include "sequence.h"
#include "vmath.h"

namespace chronode {
namespace equilibrium {

template <class T>
struct Problem {
  const T *x, *h0, *count;                // (steps, batch, inputs), (batch, hidden), (batch) or null
  const T *weight, *bias;                 // hidden x inputs, hidden
  const T *up, *down;                     // hidden x rank each; full: hidden x hidden and null
  const T* eta;                           // K x eta_steps
  T gamma, sign;
  const int64_t* lengths;
  int64_t steps, batch, inputs, hidden, rank, K, eta_steps;
  bool from_previous;

  bool low_rank() const { return down != nullptr; }
  // Which eta a sequence uses at step n; `count` is how many steps it had before this call.
  int64_t eta_index(int64_t sample, int64_t n) const {
    if (eta_steps == 1) return 0;
    const int64_t last = eta_steps - 1;
    const T before = count[sample];
    if (!(before >= T(0))) return std::min(n, last);
    return before >= static_cast<T>(last) ? last : std::min(static_cast<int64_t>(before) + n, last);
  }
};

// Samples in a block: two full register tiles while that leaves work for several threads.
inline int64_t block_rows(int64_t batch) { return std::clamp<int64_t>((batch + 3) / 4, 4, 16); }

struct Relu {
  template <class V> static CHRONODE_INLINE V value(V a) { return at_least(a, V(0)); }
  // As torch's: a NaN output passes the gradient on.
  template <class V> static CHRONODE_INLINE V slope(V f) { return select(f <= V(0), V(0), V(1)); }
};
struct Tanh {
  template <class V> static CHRONODE_INLINE V value(V a) { return tanh(a); }
  template <class V> static CHRONODE_INLINE V slope(V f) { return fnma(f, f, V(1)); }
};
struct Sigmoid {
  template <class V> static CHRONODE_INLINE V value(V a) { return sigmoid(a); }
  template <class V> static CHRONODE_INLINE V slope(V f) { return f - f * f; }
};

template <class T>
struct Weights {
  PackedMatrix<T> input, down, up;
  explicit Weights(const Problem<T>& p)
      : input(PackedMatrix<T>::pack_transposed(p.weight, p.inputs, p.inputs, p.hidden, p.bias)),
        up(PackedMatrix<T>::pack_transposed(p.up, p.rank, p.rank, p.hidden)) {
    if (p.low_rank()) down = PackedMatrix<T>::pack(p.down, p.rank, p.hidden, p.rank);
  }
};

// etas[k * rows + row] of a block's rows at step n.
template <class T>
void read_etas(const Problem<T>& p, const SampleBlock& block, int64_t n, int64_t active, T* etas) {
  for (int64_t k = 0; k < p.K; ++k)
    for (int64_t row = 0; row < active; ++row)
      etas[k * block.rows + row] = p.eta[k * p.eta_steps + p.eta_index(block.samples[row], n)];
}

// What the K steps of a time step work on, `rows` x hidden each.
template <class T>
struct Recursion {
  Buffer<T> g, shift, c, product;
  explicit Recursion(int64_t size) : g(size), shift(size), c(size), product(size) {}

  // From the state h: g, shift = s h, and the first q. h may be q.
  void begin(const Problem<T>& p, int64_t active, const T* h, T* q) {
    const Vec<T> sign = p.sign;
    for_vectors<T>(active * p.hidden, [&](int64_t i, int lanes) {
      const Vec<T> before = Vec<T>::load(h + i, lanes), shifted = sign * before;
      const Vec<T> from = p.from_previous ? before : Vec<T>::zero();
      from.store(g.data() + i, lanes);
      shifted.store(shift.data() + i, lanes);
      (from + shifted).store(q + i, lanes);
    });
  }
};

// One of the K steps for `active` rows, from q to g and the q of the next one. z (active x rank) keeps down^T q. f, or
// next in the last step, is not wanted: null.
template <class Phi, class T>
void advance(const Problem<T>& p, const Weights<T>& w, int64_t active, const T* etas, const T* q, Recursion<T>& now,
             T* z, T* f, T* next) {
  const int64_t H = p.hidden;
  const bool low_rank = p.low_rank();
  const Vec<T> gamma = p.gamma;
  const T *c = now.c.data(), *shift = now.shift.data();
  T* g = now.g.data();
  if (low_rank) gemm(q, H, active, w.down, z, p.rank);
  gemm_then(low_rank ? z : q, p.rank, active, w.up, now.product.data(),
            [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
              const int64_t i = row * H + column;
              const Vec<T> at = Vec<T>::load(q + i, lanes);
              Vec<T> a = v + Vec<T>::load(c + i, lanes);
              if (low_rank) a += at;
              const Vec<T> value = Phi::value(a);
              if (f != nullptr) value.store(f + i, lanes);
              const Vec<T> moved = fma(Vec<T>(etas[row]), fnma(gamma, at, value), Vec<T>::load(g + i, lanes));
              moved.store(g + i, lanes);
              if (next != nullptr) (moved + Vec<T>::load(shift + i, lanes)).store(next + i, lanes);
            });
}

}  // namespace equilibrium
}  // namespace chronode
