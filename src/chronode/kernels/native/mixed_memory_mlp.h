// The mlp flow of mmRNN: dh/dt = W2 tanh(p) + b2 with p = W1 h + b1 + drive.
//
// The solver runs on p instead of h: dp/dt = M tanh(p) + W1 b2 with M = W1 W2 (multiplied by the caller), so that each
// evaluation of the field is one product instead of two. h is needed at the end alone: h' = h + step (W2 S + n b2), S the
// weighted sum of tanh(p) over all evaluations, n the number of sub-steps (kOuterBias holds n b2).
#pragma once

#include "mixed_memory_flow.h"

namespace chronode {
namespace mixed_memory {

template <class T>
struct MlpWeights {
  PackedMatrix<T> inner, product, outer, inner_back, product_back, outer_back;
  MlpWeights(const Problem<T>& p, bool backward) {
    const int64_t H = p.hidden;
    const auto& w = p.weights;
    inner = PackedMatrix<T>::pack_transposed(w[kInner], H, H, H, w[kInnerBias]);
    product = PackedMatrix<T>::pack_transposed(w[kProduct], H, H, H, w[kProductBias]);
    outer = PackedMatrix<T>::pack_transposed(w[kOuter], H, H, H, w[kOuterBias]);
    if (!backward) return;
    inner_back = PackedMatrix<T>::pack(w[kInner], H, H, H);
    product_back = PackedMatrix<T>::pack(w[kProduct], H, H, H);
    outer_back = PackedMatrix<T>::pack(w[kOuter], H, H, H);
  }
};

template <class T>
class MlpFlow : public Flow<T> {
  using Flow<T>::p_, Flow<T>::H_, Flow<T>::N_, Flow<T>::active_, Flow<T>::filled_, Flow<T>::end_, Flow<T>::sum_;
  using Flow<T>::product_, Flow<T>::slot, Flow<T>::at, Flow<T>::stage, Flow<T>::multiply;

 public:
  using Weights = MlpWeights<T>;
  // capacity 0: forward only.
  MlpFlow(const Problem<T>& p, const Weights& w, int64_t rows, int64_t capacity)
      : Flow<T>(p, rows), w_(w), start_(std::max(rows, capacity) * H_), S_(std::max(rows, capacity) * H_),
        t_(std::max(rows, capacity) * (N_ - 1) * H_), t_last_(rows * H_), k_(capacity > 0 ? rows * (N_ - 1) * H_ : 0),
        dk_(capacity * (N_ - 1) * H_), dp_(capacity * H_), scaled_(capacity * H_), dS_(capacity > 0 ? rows * H_ : 0) {}

  T* start() { return at(start_); }
  T* drive_gradient() { return at(dp_); }
  const T* drive_gradients() const { return dp_.data(); }

  // From start(), driven by `drive` (or null). end null: the backward wants the evaluations only.
  void solve(const T* steps, const T* drive, T* end) {
    const int64_t H = H_;
    T *p_start = end_.data(), *p = sum_.data(), *S = at(S_), *t = tanh_at(0);
    const Vec<T> first_weight = p_.method.w[0];
    gemm_then(start(), H, active_, w_.inner, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                if (drive != nullptr) v += Vec<T>::load(drive + i, lanes);
                v.store(p_start + i, lanes);
                v.store(p + i, lanes);
                const Vec<T> value = tanh(v);
                value.store(t + i, lanes);
                (first_weight * value).store(S + i, lanes);
              });
    for (int64_t e = 0; e + 1 < N_; ++e) evaluate(e, steps);
    if (end == nullptr) return;
    const T* h = start();
    gemm_then(S, H, active_, w_.outer, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                fma(Vec<T>(steps[row]), v, Vec<T>::load(h + i, lanes)).store(end + i, lanes);
              });
  }

  // dh is the gradient of the end, becomes that of the start; step_sums gathers the gradient of the steps.
  void back(const T* steps, T* dh, RowSums<T>& step_sums) {
    const int64_t H = H_;
    T *scaled = at(scaled_), *dS = dS_.data(), *S = at(S_);
    const T *bias = p_.weights[kOuterBias], *last = tanh_at(N_ - 1);
    const Vec<T> weight = p_.method.w[p_.method.stages - 1];
    end_.clear();
    sum_.clear();
    for_rows<T>(active_, H, [&](int64_t row, int64_t i, int lanes) {
      const Vec<T> gradient = Vec<T>::load(dh + i, lanes);
      (Vec<T>(steps[row]) * gradient).store(scaled + i, lanes);
      step_sums.add(row, gradient * Vec<T>::load(bias + i - row * H, lanes));
    });
    RowSums<T>* sums = &step_sums;
    const auto pass = passing(N_ - 1, steps, sums);
    gemm_then(dh, H, active_, w_.outer_back, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                sums->add(row, v * Vec<T>::load(S + i, lanes));
                const Vec<T> gradient = Vec<T>(steps[row]) * v, t = Vec<T>::load(last + i, lanes);
                gradient.store(dS + i, lanes);
                pass(row, i, weight * gradient * fnma(t, t, Vec<T>(T(1))), lanes);
              });
    for (int64_t e = N_ - 2; e >= 0; --e) back_through(e, steps, sums);
    gemm_then(at(dp_), H, active_, w_.inner_back, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                T* out = dh + row * H + column;
                (Vec<T>::load(out, lanes) + v).store(out, lanes);
              });
  }

  void flush(const Parameters<T*>& sums, GradientScratch<T>& scratch) {
    const int64_t rows = filled_ * (N_ - 1);
    multiply(dp_, start_, filled_, sums[kInner], scratch);
    multiply(dk_, t_, rows, sums[kProduct], scratch);
    multiply(scaled_, S_, filled_, sums[kOuter], scratch);
    add_column_sums(dp_.data(), H_, filled_, H_, sums[kInnerBias]);
    add_column_sums(dk_.data(), H_, rows, H_, sums[kProductBias]);
    add_column_sums(scaled_.data(), H_, filled_, H_, sums[kOuterBias]);
    filled_ = 0;
  }

 private:
  // tanh(p) of evaluation e. That of the last is no factor of a weight gradient: its k is never needed.
  T* tanh_at(int64_t e) { return e + 1 < N_ ? slot(t_, e, N_ - 1) : t_last_.data(); }
  T* k_at(int64_t e) { return k_.size() > 0 ? k_.data() + e * active_ * H_ : nullptr; }

  // k of evaluation e, and from it p and tanh(p) of the next one.
  void evaluate(int64_t e, const T* steps) {
    const int64_t H = H_, i_stage = stage(e);
    const bool last = i_stage + 1 == p_.method.stages;
    const Vec<T> weight = p_.method.w[i_stage], next_weight = p_.method.w[last ? 0 : i_stage + 1];
    const Vec<T> next_a = last ? T(0) : p_.method.a[i_stage + 1];
    T *p_start = end_.data(), *p = sum_.data(), *S = at(S_), *t = tanh_at(e + 1), *k = k_at(e);
    gemm_then(tanh_at(e), H, active_, w_.product, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                if (k != nullptr) v.store(k + i, lanes);
                const Vec<T> change = Vec<T>(steps[row]) * v;
                Vec<T> next = fma(weight, change, Vec<T>::load(p + i, lanes));
                next.store(p + i, lanes);
                if (last) next.store(p_start + i, lanes);
                else next = fma(next_a, change, Vec<T>::load(p_start + i, lanes));
                const Vec<T> value = tanh(next);
                value.store(t + i, lanes);
                fma(next_weight, value, Vec<T>::load(S + i, lanes)).store(S + i, lanes);
              });
  }

  void back_through(int64_t e, const T* steps, RowSums<T>* sums) {
    const int64_t H = H_;
    const Vec<T> weight = p_.method.w[stage(e)];
    const T *t = tanh_at(e), *dS = dS_.data();
    const auto pass = passing(e, steps, sums);
    gemm_then(slot(dk_, e, N_ - 1), H, active_, w_.product_back, product_.data(),
              [=](int64_t row, int64_t column, Vec<T> v, int lanes) CHRONODE_LAMBDA_INLINE {
                const int64_t i = row * H + column;
                const Vec<T> value = Vec<T>::load(t + i, lanes);
                const Vec<T> gradient = fma(weight, Vec<T>::load(dS + i, lanes), v);
                pass(row, i, gradient * fnma(value, value, Vec<T>(T(1))), lanes);
              });
  }

  // Takes the gradient of p at evaluation e, and makes that of the k before it or, at the first, of p at the start.
  auto passing(int64_t e, const T* steps, RowSums<T>* sums) {
    const Adjoint<T> adjoint = this->adjoint();
    const int64_t i_stage = stage(e);
    const bool first = e == 0;
    const T* k = first ? nullptr : k_at(e - 1);
    T* out = first ? at(dp_) : slot(dk_, e - 1, N_ - 1);
    return [=](int64_t row, int64_t i, Vec<T> gradient, int lanes) CHRONODE_LAMBDA_INLINE {
      const Vec<T> of_k = adjoint(i_stage, i, gradient, lanes);
      if (first) return Vec<T>::load(adjoint.sum + i, lanes).store(out + i, lanes);
      sums->add(row, of_k * Vec<T>::load(k + i, lanes));
      (Vec<T>(steps[row]) * of_k).store(out + i, lanes);
    };
  }

  const Weights& w_;
  Buffer<T> start_, S_, t_, t_last_, k_, dk_, dp_, scaled_, dS_;
};

}  // namespace mixed_memory
}  // namespace chronode
