// LTC, dense form, fused solver, over whole sequences; `drive` = W x + b is made by the caller for all steps at once:
//
//   `unfolds` times    f = act(W_r v + drive),   v <- (v + δ f A) / (1 + δ (1/τ + f)),  δ = dt / unfolds
//
// Blocking. A group of at most kGroupRows samples runs through all of time; the packed W_r is shared, the rest of a
// sub-step is fused into the product's epilogue. The forward keeps v after each step alone; the backward runs a step's
// sub-steps again and keeps their v and f, the latter turning into dz = df act'(z). These rows are collected over steps
// until there are kGradientRows of them, so that dW_r += dz^T v runs at the speed of a large product.
#include "entry.h"
#include "gemm.h"
#include "pool.h"
#include "sequence.h"
#include "vmath.h"

namespace chronode {
namespace dense {

constexpr int64_t kGroupRows = 16;
constexpr int64_t kMostParts = 64;  // bounds the memory of the parts' gradients

// f = value(z), and slope(f, df) = df act'(z). Comparisons are so that NaN behaves as in torch.
struct Sigmoid {
  template <class T> static CHRONODE_INLINE Vec<T> value(Vec<T> z) { return sigmoid(z); }
  template <class T> static CHRONODE_INLINE Vec<T> slope(Vec<T> f, Vec<T> df) { return df * fnma(f, f, f); }
};
struct Tanh {
  template <class T> static CHRONODE_INLINE Vec<T> value(Vec<T> z) { return tanh(z); }
  template <class T> static CHRONODE_INLINE Vec<T> slope(Vec<T> f, Vec<T> df) { return df * fnma(f, f, Vec<T>(T(1))); }
};
struct Relu {
  template <class T> static CHRONODE_INLINE Vec<T> value(Vec<T> z) { return at_least(z, Vec<T>::zero()); }
  template <class T> static CHRONODE_INLINE Vec<T> slope(Vec<T> f, Vec<T> df) {
    return select<T>(f <= Vec<T>::zero(), Vec<T>::zero(), df);
  }
};
struct Hardtanh {
  template <class T> static CHRONODE_INLINE Vec<T> value(Vec<T> z) {
    return at_most(at_least(z, Vec<T>(T(-1))), Vec<T>(T(1)));
  }
  template <class T> static CHRONODE_INLINE Vec<T> slope(Vec<T> f, Vec<T> df) {
    return select<T>((f <= Vec<T>(T(-1))) | (f >= Vec<T>(T(1))), Vec<T>::zero(), df);
  }
};

// Whole tensors, time-major; parameters of the neurons are 1/τ and A.
template <class T>
struct Problem {
  const T *drive, *initial, *dt;  // (T, B, H), (B, H), (T, B)
  const T *weight, *rate, *target;
  int64_t steps, batch, size, unfolds;
};

// Gradients of the outputs (null: zero) and, to be filled, of the inputs.
template <class T>
struct Gradients {
  const T *states, *d_states, *d_final;
  T *d_drive, *d_initial, *d_dt;
};

template <class T>
void load_delta(const Problem<T>& problem, const SampleBlock& block, int64_t step, int64_t count, T* delta) {
  block.gather(problem.dt + step * problem.batch, 1, count, delta, 1);
  for (int64_t row = 0; row < count; ++row) delta[row] /= static_cast<T>(problem.unfolds);
}

// One sub-step from v to `next`, which must not overlap; `f` (or null) receives the activation. Rows are contiguous.
// Not inlined: forward and backward share the one copy of its many tiles.
template <class T, class Activation>
__attribute__((noinline)) void unfold(const Problem<T>& problem, const PackedMatrix<T>& weight, int64_t count,
                                      const T* drive, const T* delta, const T* v, T* next, T* f) {
  const int64_t size = problem.size;
  const T *rate = problem.rate, *target = problem.target;
  gemm_emit(v, size, count, weight, [=](int64_t row, int64_t i, Vec<T> z, int lanes) CHRONODE_LAMBDA_INLINE {
    const int64_t at = row * size + i;
    const Vec<T> value = Activation::value(z + Vec<T>::load(drive + at, lanes));
    const Vec<T> step = delta[row], before = Vec<T>::load(v + at, lanes);
    const Vec<T> numerator = fma(step * value, Vec<T>::load(target + i, lanes), before);
    const Vec<T> denominator = fma(step, Vec<T>::load(rate + i, lanes) + value, Vec<T>(T(1)));
    (numerator / denominator).store(next + at, lanes);
    if (f != nullptr) value.store(f + at, lanes);
  });
}

// states: (T, B, H), 0 at padding, or null.
template <class T, class Activation>
void forward_group(const Problem<T>& problem, const PackedMatrix<T>& weight, const SampleBlock& block, T* states,
                   T* final) {
  const int64_t size = problem.size, plane = block.rows * size;
  Buffer<T> now(plane), next(plane), drive(plane), delta(block.rows);
  block.gather(problem.initial, size, block.rows, now.data(), size);
  block.scatter(now.data(), size, size, block.rows, final);
  for (int64_t step = 0; step < block.steps(); ++step) {
    const int64_t count = block.active(step), first = step * problem.batch * size;
    block.gather(problem.drive + first, size, count, drive.data(), size);
    load_delta(problem, block, step, count, delta.data());
    for (int64_t n = 0; n < problem.unfolds; ++n) {
      unfold<T, Activation>(problem, weight, count, drive.data(), delta.data(), now.data(), next.data(), nullptr);
      std::swap(now, next);
    }
    if (states != nullptr) block.scatter(now.data(), size, size, count, states + first);
    if (count > block.active(step + 1)) block.scatter(now.data(), size, size, count, final);
  }
  if (states != nullptr) block.clear_padding(states, problem.steps, size);
}

// Rows of v and f, later dz, of several steps' sub-steps, for the gradient of the weights.
template <class T>
class Collected {
 public:
  Collected(int64_t size, int64_t step_rows)
      : size_(size), v_((kGradientRows + step_rows) * size), f_(v_.size()), scratch_(size) {}
  T* v(int64_t row) { return v_.data() + (filled_ + row) * size_; }
  T* f(int64_t row) { return f_.data() + (filled_ + row) * size_; }
  void add(int64_t rows, T* d_weight) {
    filled_ += rows;
    if (filled_ >= kGradientRows) flush(d_weight);
  }
  void flush(T* d_weight) {
    gemm_gradient(f_.data(), size_, v_.data(), size_, filled_, size_, size_, d_weight, size_, scratch_);
    filled_ = 0;
  }

 private:
  int64_t size_, filled_ = 0;
  Buffer<T> v_, f_;
  GradientScratch<T> scratch_;
};

template <class T, class Activation>
class BackwardGroup {
 public:
  // weight, back: W_r packed for W_r v and for dz W_r. sums: dW_r, d(1/τ), dA.
  BackwardGroup(const Problem<T>& problem, const Gradients<T>& gradients, const PackedMatrix<T>& weight,
                const PackedMatrix<T>& back, const SampleBlock& block, T* sums)
      : problem_(problem), gradients_(gradients), weight_(weight), back_(back), block_(block), size_(problem.size),
        d_weight_(sums), d_rate_(sums + size_ * size_), d_target_(d_rate_ + size_), plane_(block.rows * size_),
        dv_(plane_), drive_(plane_), d_drive_(plane_), last_(plane_), delta_(block.rows), d_delta_(block.rows),
        collected_(size_, block.rows * problem.unfolds) {
    dv_.clear();
    if (gradients.d_final != nullptr) block.gather(gradients.d_final, size_, block.rows, dv_.data(), size_);
  }

  void run() {
    for (int64_t step = block_.steps() - 1; step >= 0; --step) {
      const int64_t count = block_.active(step), first = step * problem_.batch * size_;
      take_output_gradients(step, count);
      repeat_step(step, count);
      d_drive_.clear();
      for (int64_t n = problem_.unfolds - 1; n >= 0; --n) fold_back(n, count);
      collected_.add(problem_.unfolds * count, d_weight_);
      block_.scatter(d_drive_.data(), size_, size_, count, gradients_.d_drive + first);
      for (int64_t row = 0; row < count; ++row)
        gradients_.d_dt[step * problem_.batch + block_.samples[row]] =
            d_delta_.take(row) / static_cast<T>(problem_.unfolds);
    }
    collected_.flush(d_weight_);
    block_.scatter(dv_.data(), size_, size_, block_.rows, gradients_.d_initial);
    block_.clear_padding(gradients_.d_drive, problem_.steps, size_);
    block_.clear_padding(gradients_.d_dt, problem_.steps, 1);
  }

 private:
  void take_output_gradients(int64_t step, int64_t count) {
    if (gradients_.d_states == nullptr) return;
    for (int64_t row = 0; row < count; ++row) {
      const T* from = gradients_.d_states + (step * problem_.batch + block_.samples[row]) * size_;
      for (int64_t i = 0; i < size_; ++i) dv_[row * size_ + i] += from[i];
    }
  }

  T* v(int64_t n, int64_t count) { return n < problem_.unfolds ? collected_.v(n * count) : last_.data(); }

  void repeat_step(int64_t step, int64_t count) {
    const int64_t first = step * problem_.batch * size_;
    const T* before = step == 0 ? problem_.initial : gradients_.states + first - problem_.batch * size_;
    block_.gather(before, size_, count, v(0, count), size_);
    block_.gather(problem_.drive + first, size_, count, drive_.data(), size_);
    load_delta(problem_, block_, step, count, delta_.data());
    for (int64_t n = 0; n < problem_.unfolds; ++n)
      unfold<T, Activation>(problem_, weight_, count, drive_.data(), delta_.data(), v(n, count), v(n + 1, count),
                            collected_.f(n * count));
  }

  // With N = v + δ f A and M = 1 + δ (1/τ + f): dN = dv_new / M, dM = -v_new dN; then dv = dN + dz W_r.
  void fold_back(int64_t n, int64_t count) {
    T* f_rows = collected_.f(n * count);
    const T* after_rows = v(n + 1, count);
    for_rows<T>(count, size_, [&](int64_t row, int64_t at, int lanes) CHRONODE_LAMBDA_INLINE {
      const int64_t i = at - row * size_;
      const Vec<T> f = Vec<T>::load(f_rows + at, lanes), after = Vec<T>::load(after_rows + at, lanes);
      const Vec<T> rate = Vec<T>::load(problem_.rate + i, lanes), target = Vec<T>::load(problem_.target + i, lanes);
      const Vec<T> delta = delta_[row];
      const Vec<T> dn = Vec<T>::load(dv_.data() + at, lanes) / fma(delta, rate + f, Vec<T>(T(1)));
      const Vec<T> scaled = delta * dn;
      const Vec<T> dz = Activation::slope(f, scaled * (target - after));
      dn.store(dv_.data() + at, lanes);
      dz.store(f_rows + at, lanes);
      (Vec<T>::load(d_drive_.data() + at, lanes) + dz).store(d_drive_.data() + at, lanes);
      fnma(scaled, after, Vec<T>::load(d_rate_ + i, lanes)).store(d_rate_ + i, lanes);
      fma(scaled, f, Vec<T>::load(d_target_ + i, lanes)).store(d_target_ + i, lanes);
      // Not dn (f A - v_new (1/τ + f)): with a large v, of which dn has the inverse, the bracket would overflow.
      d_delta_.add(row, fnma(dn * after, rate + f, dn * f * target));
    });
    gemm_add(f_rows, size_, count, back_, dv_.data(), size_);
  }

  const Problem<T>& problem_;
  const Gradients<T>& gradients_;
  const PackedMatrix<T>&weight_, &back_;
  const SampleBlock block_;
  const int64_t size_;
  T *const d_weight_, *const d_rate_, *const d_target_;
  const int64_t plane_;
  Buffer<T> dv_, drive_, d_drive_, last_, delta_;
  RowSums<T> d_delta_;
  Collected<T> collected_;
};

template <class F>
void with_activation(int64_t number, F f) {
  switch (number) {  // the order of kernels/_ltc.py
    case 0: return f(Sigmoid());
    case 1: return f(Tanh());
    case 2: return f(Relu());
    case 3: return f(Hardtanh());
    default: throw InvalidArgument("activation is %lld; it must be from 0 to 3", static_cast<long long>(number));
  }
}

template <class T>
void forward(const Problem<T>& problem, const int64_t* lengths, T* states, T* final, int64_t activation, int threads) {
  const auto weight = PackedMatrix<T>::pack_transposed(problem.weight, problem.size, problem.size, problem.size);
  const SampleBlocks groups(problem.steps, problem.batch, lengths, kGroupRows);
  with_activation(activation, [&](auto act) {
    parallel_blocks(groups.count(), threads, [&](int64_t group, int) {
      forward_group<T, decltype(act)>(problem, weight, groups[group], states, final);
    });
  });
}

template <class T>
void backward(const Problem<T>& problem, const int64_t* lengths, const Gradients<T>& gradients, T* d_weight,
              T* d_neurons, int64_t activation, int threads) {
  const int64_t size = problem.size;
  const auto weight = PackedMatrix<T>::pack_transposed(problem.weight, size, size, size);
  const auto back = PackedMatrix<T>::pack(problem.weight, size, size, size);
  const SampleBlocks groups(problem.steps, problem.batch, lengths, kGroupRows);
  const Blocks parts(groups.count(), (groups.count() + kMostParts - 1) / kMostParts);
  BlockSums<T> sums(parts.count, size * size + 2 * size);
  with_activation(activation, [&](auto act) {
    parallel_blocks(parts.count, threads, [&](int64_t part, int) {
      T* own = sums.zeroed(part);
      for (int64_t group = parts.begin(part); group < parts.begin(part + 1); ++group)
        BackwardGroup<T, decltype(act)>(problem, gradients, weight, back, groups[group], own).run();
    });
  });
  sums.sum_into(d_weight, 0, size * size, threads);
  sums.sum_into(d_neurons, size * size, 2 * size, threads);
}

// The inputs of both functions, as in Problem; neurons (2, size): 1/τ and A.
template <class T>
struct Arguments {
  Array<const T> drive, initial, dt;
  Array<const int64_t> lengths;
  Array<const T> weight, neurons;
  int64_t steps, batch, size, activation, unfolds;

  Problem<T> checked() const {
    require_array("drive", drive, {steps, batch, size});
    require_array("v", initial, {batch, size});
    require_array("dt", dt, {steps, batch});
    require_array("weight", weight, {size, size});
    require_array("neurons", neurons, {2, size});
    require_between("unfolds", unfolds, 1, kMostSubsteps);
    allow_lengths(lengths, steps, batch);
    return {drive, initial, dt, weight, neurons, neurons + size, steps, batch, size, unfolds};
  }
};

template <class T>
void forward_entry(const Arguments<T>& in, Array<T> states, Array<T> final, int64_t threads) {
  const Problem<T> p = in.checked();
  allow_array("states", states, {p.steps, p.batch, p.size});
  require_array("the final state", final, {p.batch, p.size});
  forward<T>(p, in.lengths, states, final, in.activation, require_threads(threads));
}

template <class T>
void backward_entry(const Arguments<T>& in, Array<const T> states, Array<const T> d_states, Array<const T> d_final,
                    Array<T> d_drive, Array<T> d_initial, Array<T> d_dt, Array<T> d_weight, Array<T> d_neurons,
                    int64_t threads) {
  const Problem<T> p = in.checked();
  require_array("states", states, {p.steps, p.batch, p.size});
  allow_array("the gradient of the states", d_states, {p.steps, p.batch, p.size});
  allow_array("the gradient of the final state", d_final, {p.batch, p.size});
  require_array("d_drive", d_drive, {p.steps, p.batch, p.size});
  require_array("d_v", d_initial, {p.batch, p.size});
  require_array("d_dt", d_dt, {p.steps, p.batch});
  require_array("d_weight", d_weight, {p.size, p.size});
  require_array("d_neurons", d_neurons, {2, p.size});
  backward<T>(p, in.lengths, {states, d_states, d_final, d_drive, d_initial, d_dt}, d_weight, d_neurons,
              in.activation, require_threads(threads));
}

}  // namespace dense
}  // namespace chronode

using chronode::Array;

#define CHRONODE_LTC_DENSE_INPUTS(T)                                                                              \
  Array<const T> drive, Array<const T> initial, Array<const T> dt, Array<const int64_t> lengths,                  \
      Array<const T> weight, Array<const T> neurons, int64_t steps, int64_t batch, int64_t size,                  \
      int64_t activation, int64_t unfolds

#define CHRONODE_LTC_DENSE(T, suffix)                                                                             \
  CHRONODE_EXPORT int chronode_ltc_dense_forward_##suffix(CHRONODE_LTC_DENSE_INPUTS(T), Array<T> states,          \
                                                          Array<T> final, CHRONODE_CALL) {                        \
    return chronode::guarded(failure, [&] {                                                                       \
      chronode::dense::forward_entry<T>(                                                                          \
          {drive, initial, dt, lengths, weight, neurons, steps, batch, size, activation, unfolds}, states, final, \
          threads);                                                                                               \
    });                                                                                                           \
  }                                                                                                               \
  CHRONODE_EXPORT int chronode_ltc_dense_backward_##suffix(                                                       \
      CHRONODE_LTC_DENSE_INPUTS(T), Array<const T> states, Array<const T> d_states, Array<const T> d_final,       \
      Array<T> d_drive, Array<T> d_initial, Array<T> d_dt, Array<T> d_weight, Array<T> d_neurons,                 \
      CHRONODE_CALL) {                                                                                            \
    return chronode::guarded(failure, [&] {                                                                       \
      chronode::dense::backward_entry<T>(                                                                         \
          {drive, initial, dt, lengths, weight, neurons, steps, batch, size, activation, unfolds}, states,        \
          d_states, d_final, d_drive, d_initial, d_dt, d_weight, d_neurons, threads);                             \
    });                                                                                                           \
  }

CHRONODE_LTC_DENSE(float, f32)
CHRONODE_LTC_DENSE(double, f64)
