// Recurrences whose units do not see each other's past: IndRNN and SRU over whole sequences.
//
// Everything that mixes units depends on the input alone and is done before, as one matrix product: what
// comes here are the shares a (steps, batch, kShares * hidden) of that product in each unit. A step then is a few
// operations on each unit, and the loops below are the same for every model; a model is a struct such as IndRNN:
//   Model(p, i, lanes)          loads the weights of the units i .. i + lanes
//   next(a, h, lanes)           the state after the step
//   output(a, h, after, lanes)  y, where that is not the state itself (kHasOutput)
//   back(...)                   from the gradients of y and of the state after the step to those of everything before it
//
// Blocks of samples run through all of time with their state in L1; the tensors are read and written once, in order.
// The backward keeps nothing but the states and recomputes the gates from them.
#pragma once

#include "sequence.h"
#include "vmath.h"

namespace chronode {
namespace elementwise {

template <class T>
struct Problem {
  const T *a, *h0;           // (steps, batch, kShares * hidden), (batch, hidden)
  const T *weights, *scale;  // (kWeights, hidden); of SRU's highway, one element
  const int64_t* lengths;    // (batch), or null
  int64_t steps, batch, hidden;
};

// h' = relu(a + w h) = y.
template <class T>
struct IndRNN {
  using V = Vec<T>;
  static constexpr int64_t kShares = 1, kWeights = 1;
  static constexpr bool kHasOutput = false;
  V w;

  CHRONODE_INLINE IndRNN(const Problem<T>& p, int64_t i, int lanes) : w(V::load(p.weights + i, lanes)) {}

  CHRONODE_INLINE V next(const T* a, V h, int lanes) const { return at_least(fma(w, h, V::load(a, lanes)), V(T(0))); }

  CHRONODE_INLINE V output(const T*, V, V after, int) const { return after; }

  // grad_after becomes the gradient of h; da and the sums dweights are those of a and w. grad_y: null if there is none.
  CHRONODE_INLINE void back(const T*, V h, V after, const T* grad_y, V& grad_after, T* da, T* dweights,
                            int lanes) const {
    const V grad = grad_y == nullptr ? grad_after : grad_after + V::load(grad_y, lanes);
    const V inner = select(after <= V(T(0)), V(T(0)), grad);  // as torch's: a NaN passes the gradient on
    inner.store(da, lanes);
    fma(inner, h, V::load(dweights, lanes)).store(dweights, lanes);
    grad_after = inner * w;
  }
};

// f, r = sigmoid(a_f + v_f c), sigmoid(a_r + v_r c);  c' = f c + (1 - f) a_c;  y = r c' + (1 - r) scale a_y.
// The shares are in the order f, r, c, y, the weights v_f, v_r.
template <class T>
struct SRU {
  using V = Vec<T>;
  static constexpr int64_t kShares = 4, kWeights = 2;
  static constexpr bool kHasOutput = true;
  const int64_t hidden;
  V v_f, v_r, scale;

  CHRONODE_INLINE SRU(const Problem<T>& p, int64_t i, int lanes)
      : hidden(p.hidden), v_f(V::load(p.weights + i, lanes)), v_r(V::load(p.weights + p.hidden + i, lanes)),
        scale(*p.scale) {}

  CHRONODE_INLINE V forget(const T* a, V c, int lanes) const { return sigmoid(fma(v_f, c, V::load(a, lanes))); }
  CHRONODE_INLINE V reset(const T* a, V c, int lanes) const {
    return sigmoid(fma(v_r, c, V::load(a + hidden, lanes)));
  }
  CHRONODE_INLINE V content(const T* a, int lanes) const { return V::load(a + 2 * hidden, lanes); }
  CHRONODE_INLINE V highway(const T* a, int lanes) const { return scale * V::load(a + 3 * hidden, lanes); }

  CHRONODE_INLINE V next(const T* a, V c, int lanes) const {
    const V fresh = content(a, lanes);
    return fma(forget(a, c, lanes), c - fresh, fresh);
  }

  CHRONODE_INLINE V output(const T* a, V c, V after, int lanes) const {
    const V around = highway(a, lanes);
    return fma(reset(a, c, lanes), after - around, around);
  }

  CHRONODE_INLINE void back(const T* a, V c, V after, const T* grad_y, V& grad_after, T* da, T* dweights,
                            int lanes) const {
    V grad = grad_after, inner_r = V(T(0)), around = V(T(0));
    if (grad_y != nullptr) {
      const V r = reset(a, c, lanes), gy = V::load(grad_y, lanes), through = gy * r;
      inner_r = (through - through * r) * (after - highway(a, lanes));
      around = scale * (gy - through);
      grad += through;
    }
    const V f = forget(a, c, lanes), kept = grad * f, fresh = grad - kept;
    const V inner_f = (kept - kept * f) * (c - content(a, lanes));
    inner_f.store(da, lanes);
    inner_r.store(da + hidden, lanes);
    fresh.store(da + 2 * hidden, lanes);
    around.store(da + 3 * hidden, lanes);
    fma(inner_f, c, V::load(dweights, lanes)).store(dweights, lanes);
    fma(inner_r, c, V::load(dweights + hidden, lanes)).store(dweights + hidden, lanes);
    grad_after = fma(inner_f, v_f, fma(inner_r, v_r, kept));
  }
};

// Samples in a block: eight blocks while that leaves each of them one sample, and states that fit into L1.
inline int64_t block_rows(int64_t batch) { return std::clamp<int64_t>((batch + 7) / 8, 1, 16); }

// Where y of a sample's step n is: in (steps, batch, hidden), or with `last` in (batch, hidden), which has the last
// steps only. Null where there is none.
template <class T>
struct Outputs {
  T* y;
  bool last;

  T* row(const SampleBlock& block, int64_t n, int64_t row, int64_t hidden) const {
    if (y == nullptr || (last && n + 1 < block.lengths[row])) return nullptr;
    return y + ((last ? 0 : n * block.batch) + block.samples[row]) * hidden;
  }
};

}  // namespace elementwise
}  // namespace chronode
