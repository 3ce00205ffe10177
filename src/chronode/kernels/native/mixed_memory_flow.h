// What the flows of mmRNN share: dh/dt = f(h), integrated by a Runge-Kutta method, forward and backward.
//
// A flow object belongs to one block. Rows that become factors of weight gradients gather over `capacity` samples, those
// of evaluation e in slot e of their time step; the forward and the backward's recomputation are the same function.
#pragma once

#include "mixed_memory.h"

namespace chronode {
namespace mixed_memory {

// Back through the solver. `end` is the gradient of the present sub-step's result, `sum` that of its start so far.
template <class T>
struct Adjoint {
  const Method<T>& method;
  T *end, *sum;

  // Takes the gradient of the state at which `stage` was evaluated; gives that of the k before it, over its step: k of
  // the stage before, or of the last stage of the sub-step before.
  CHRONODE_INLINE Vec<T> operator()(int64_t stage, int64_t i, Vec<T> gradient, int lanes) const {
    const Vec<T> total = Vec<T>::load(sum + i, lanes) + gradient;
    total.store(sum + i, lanes);
    if (stage > 0)
      return fma(Vec<T>(method.w[stage - 1]), Vec<T>::load(end + i, lanes), Vec<T>(method.a[stage]) * gradient);
    total.store(end + i, lanes);
    return Vec<T>(method.w[method.stages - 1]) * total;
  }
};

template <class T>
class Flow {
 public:
  Flow(const Problem<T>& p, int64_t rows)
      : p_(p), H_(p.hidden), N_(p.evaluations()), end_(rows * H_), sum_(rows * H_),
        product_(rows * H_) {}
  // Begins a time step with this many rows, and ends it: its rows stay until the weight gradients are computed.
  void begin(int64_t active) { active_ = active; }
  void finish() { filled_ += active_; }

 protected:
  int64_t stage(int64_t e) const { return e % p_.method.stages; }
  T* at(Buffer<T>& buffer) { return buffer.data() + filled_ * H_; }
  T* slot(Buffer<T>& buffer, int64_t e, int64_t slots) { return buffer.data() + (filled_ * slots + e * active_) * H_; }
  Adjoint<T> adjoint() { return {p_.method, end_.data(), sum_.data()}; }
  // dW (hidden x hidden) += left^T right.
  void multiply(Buffer<T>& left, Buffer<T>& right, int64_t rows, T* dw, GradientScratch<T>& scratch) {
    gemm_gradient(left.data(), H_, right.data(), H_, rows, H_, H_, dw, H_, scratch);
  }

  const Problem<T>& p_;
  const int64_t H_, N_;
  int64_t active_ = 0, filled_ = 0;
  Buffer<T> end_, sum_, product_;  // of the present time step
};

}  // namespace mixed_memory
}  // namespace chronode
