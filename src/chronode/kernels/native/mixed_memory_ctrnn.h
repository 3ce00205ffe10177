// The ctrnn flow of mmRNN: dh/dt = s tanh(R h + b + drive) - h.
//
// Back through evaluation e at the state z, with the gradient G of its k = s t - z, t = tanh(R z + b + drive):
//   da = G s (1 - t^2),   ds += G t,   ddrive += da,   dR += da^T z,   dz = R^T da - G
#pragma once

#include "mixed_memory_flow.h"

namespace chronode {
namespace mixed_memory {

template <class T>
struct CtrnnWeights {
  PackedMatrix<T> inner, inner_back;
  CtrnnWeights(const Problem<T>& p, bool backward)
      : inner(PackedMatrix<T>::pack_transposed(p.weights[kInner], p.hidden, p.hidden, p.hidden, p.weights[kInnerBias])) {
    if (backward) inner_back = PackedMatrix<T>::pack(p.weights[kInner], p.hidden, p.hidden, p.hidden);
  }
};

template <class T>
class CtrnnFlow : public Flow<T> {
  using Flow<T>::p_, Flow<T>::H_, Flow<T>::N_, Flow<T>::active_, Flow<T>::filled_, Flow<T>::end_, Flow<T>::sum_;
  using Flow<T>::product_, Flow<T>::slot, Flow<T>::at, Flow<T>::stage, Flow<T>::multiply;

 public:
  using Weights = CtrnnWeights<T>;
  // capacity 0: forward only.
  CtrnnFlow(const Problem<T>& p, const Weights& w, int64_t rows, int64_t capacity)
      : Flow<T>(p, rows), w_(w), z_(std::max(rows, capacity) * N_ * H_), da_(capacity * N_ * H_),
        ddrive_(capacity * H_), t_(capacity > 0 ? rows * N_ * H_ : 0), dk_(capacity > 0 ? rows * H_ : 0),
        dscale_(H_) {
    dscale_.clear();
  }

  T* start() { return slot(z_, 0, N_); }
  T* drive_gradient() { return at(ddrive_); }
  const T* drive_gradients() const { return ddrive_.data(); }

  // From start(), driven by `drive` (or null). end null: the backward wants the evaluations only.
  void solve(const T* steps, const T* drive, T* end) {
    for (int64_t e = 0; e < N_; ++e) evaluate(e, steps, drive, e + 1 < N_ ? slot(z_, e + 1, N_) : end);
  }

  // dh is the gradient of the end, becomes that of the start; step_sums gathers the gradient of the steps.
  void back(const T* steps, T* dh, RowSums<T>& step_sums) {
    const int64_t H = H_;
    const Adjoint<T> adjoint = this->adjoint();
    const Vec<T> weight = p_.method.w[p_.method.stages - 1];
    std::fill_n(at(ddrive_), active_ * H, T(0));
    const auto enter = entering(N_ - 1, steps, &step_sums);
    for_rows<T>(active_, H, [&](int64_t row, int64_t i, int lanes) {
      const Vec<T> gradient = Vec<T>::load(dh + i, lanes);
      gradient.store(adjoint.end + i, lanes);
      gradient.store(adjoint.sum + i, lanes);
      enter(row, i, weight * gradient, lanes);
    });
    for (int64_t e = N_ - 1; e >= 0; --e) back_through(e, steps, &step_sums);
    std::copy_n(adjoint.sum, active_ * H, dh);
  }

  void flush(const Parameters<T*>& sums, GradientScratch<T>& scratch) {
    multiply(da_, z_, filled_ * N_, sums[kInner], scratch);
    add_column_sums(da_.data(), H_, filled_ * N_, H_, sums[kInnerBias]);
    add_column_sums(dscale_.data(), H_, 1, H_, sums[kScale]);
    dscale_.clear();
    filled_ = 0;
  }

 private:
  T* tanh_at(int64_t e) { return t_.size() > 0 ? t_.data() + e * active_ * H_ : nullptr; }

  // k of evaluation e, and from it the state of the next one.
  void evaluate(int64_t e, const T* steps, const T* drive, T* to) {
    const int64_t H = H_, i_stage = stage(e);
    const bool last = i_stage + 1 == p_.method.stages;
    const Vec<T> weight = p_.method.w[i_stage], next_a = last ? T(0) : p_.method.a[i_stage + 1];
    const T *at = slot(z_, e, N_), *from = slot(z_, e - i_stage, N_), *scale = p_.weights[kScale];
    T *t = tanh_at(e), *result = sum_.data();
    const T* result_before = i_stage == 0 ? from : result;
    gemm_then(at, H, active_, w_.inner, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                if (drive != nullptr) v += Vec<T>::load(drive + i, lanes);
                const Vec<T> value = tanh(v), scaled = Vec<T>::load(scale + column, lanes) * value;
                if (t != nullptr) value.store(t + i, lanes);
                const Vec<T> change = Vec<T>(steps[row]) * (scaled - Vec<T>::load(at + i, lanes));
                Vec<T> next = fma(weight, change, Vec<T>::load(result_before + i, lanes));
                next.store(result + i, lanes);
                if (!last) next = fma(next_a, change, Vec<T>::load(from + i, lanes));
                if (to != nullptr) next.store(to + i, lanes);
              });
  }

  // Takes the gradient of evaluation e's k over its step, before any product.
  auto entering(int64_t e, const T* steps, RowSums<T>* sums) {
    const int64_t H = H_;
    const T *t = tanh_at(e), *z = slot(z_, e, N_), *scale = p_.weights[kScale];
    T *da = slot(da_, e, N_), *dk = dk_.data(), *ddrive = at(ddrive_), *dscale = dscale_.data();
    return [=](int64_t row, int64_t i, Vec<T> gradient, int lanes) CHRONODE_LAMBDA_INLINE {
      const int64_t column = i - row * H;
      const Vec<T> value = Vec<T>::load(t + i, lanes), s = Vec<T>::load(scale + column, lanes);
      sums->add(row, gradient * (s * value - Vec<T>::load(z + i, lanes)));
      const Vec<T> of_k = Vec<T>(steps[row]) * gradient;
      of_k.store(dk + i, lanes);
      fma(of_k, value, Vec<T>::load(dscale + column, lanes)).store(dscale + column, lanes);
      const Vec<T> inner = of_k * s * fnma(value, value, Vec<T>(T(1)));
      inner.store(da + i, lanes);
      (Vec<T>::load(ddrive + i, lanes) + inner).store(ddrive + i, lanes);
    };
  }

  void back_through(int64_t e, const T* steps, RowSums<T>* sums) {
    const int64_t H = H_, i_stage = stage(e);
    const Adjoint<T> adjoint = this->adjoint();
    const T* dk = dk_.data();
    const bool first = e == 0;
    const auto enter = entering(first ? 0 : e - 1, steps, sums);
    gemm_then(slot(da_, e, N_), H, active_, w_.inner_back, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                const Vec<T> of_k = adjoint(i_stage, i, v - Vec<T>::load(dk + i, lanes), lanes);
                if (!first) enter(row, i, of_k, lanes);
              });
  }

  const Weights& w_;
  Buffer<T> z_, da_, ddrive_, t_, dk_, dscale_;
};

}  // namespace mixed_memory
}  // namespace chronode
