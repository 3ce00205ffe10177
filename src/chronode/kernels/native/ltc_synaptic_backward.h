// LTC, synaptic form: a group of samples backwards through time; ltc_synaptic.cpp has the algorithm.
#pragma once

#include "ltc_synaptic.h"

namespace chronode {
namespace synaptic {

constexpr int64_t kKeptBytes = int64_t(1) << 23;  // of p per group: beyond, computing it again is cheaper

// Gradients of the outputs (null: zero) and, to be filled, of the inputs.
template <class T>
struct InputGradients {
  const T *states, *d_states, *d_final;
  T *dx, *d_initial, *d_dt;
};

// The sums over samples and time of which the gradients of the parameters are made.
template <class T>
struct ParameterSums {
  int64_t recurrent, sensory, neurons;  // offsets in one buffer
  int64_t size;
  explicit ParameterSums(const Network<T>& network)
      : recurrent(0),
        sensory(network.recurrent.gradient_size()),
        neurons(sensory + network.sensory.gradient_size()),
        size(neurons + 3 * network.neurons.stride) {}
};

template <class T>
class BackwardGroup {
 public:
  BackwardGroup(const Network<T>& network, const Inputs<T>& in, const InputGradients<T>& gradients,
                const SampleBlock& block, T* sums)
      : network_(network), in_(in), gradients_(gradients), block_(block), group_(network, block), sums_(sums),
        offsets_(network), size_(network.neurons.size), stride_(network.neurons.stride), dv_(group_.plane()),
        d_conductance_(group_.plane()), d_current_(group_.plane()), d_held_conductance_(group_.plane()),
        d_held_current_(group_.plane()), dx_(block.rows * network.sensory.pre()), d_delta_(block.rows),
        records_(3 * network.unfolds * group_.plane()), kept_(kept_elements()) {
    dv_.clear();
    if (gradients.d_final != nullptr) block.gather(gradients.d_final, size_, block.rows, dv_.data(), stride_);
    records_.clear();
  }

  void run() {
    const int64_t inputs = network_.sensory.pre();
    for (int64_t step = block_.steps() - 1; step >= 0; --step) {
      const int64_t count = block_.active(step);
      take_output_gradients(step, count);
      repeat_step(step, count);
      for (int64_t n = network_.unfolds - 1; n >= 0; --n) fold_back(n, count);
      finish_step(step, count);
      block_.scatter(dx_.data(), inputs, inputs, count, gradients_.dx + step * in_.batch * inputs);
    }
    block_.scatter(dv_.data(), stride_, size_, block_.rows, gradients_.d_initial);
    block_.clear_padding(gradients_.dx, in_.steps, inputs);
    block_.clear_padding(gradients_.d_dt, in_.steps, 1);
  }

 private:
  // p of all sub-steps and of the inputs, if it stays in cache.
  int64_t kept_elements() const {
    const int64_t size =
        block_.rows * (network_.unfolds * network_.recurrent.kept_size() + network_.sensory.kept_size());
    return size * static_cast<int64_t>(sizeof(T)) <= kKeptBytes ? size : 0;
  }

  Record<T> record(int64_t n) {
    T* first = records_.data() + 3 * n * group_.plane();
    const int64_t plane = group_.plane();
    T* kept = kept_.size() == 0 ? nullptr : kept_.data() + n * block_.rows * network_.recurrent.kept_size();
    return {{first, stride_}, {first + plane, stride_}, {first + 2 * plane, stride_}, kept};
  }
  T* sensory_kept() { return kept_.size() == 0 ? nullptr : record(network_.unfolds).kept; }

  void take_output_gradients(int64_t step, int64_t count) {
    if (gradients_.d_states == nullptr) return;
    for (int64_t row = 0; row < count; ++row) {
      const T* from = gradients_.d_states + (step * in_.batch + block_.samples[row]) * size_;
      for (int64_t i = 0; i < size_; ++i) dv_[row * stride_ + i] += from[i];
    }
  }

  void repeat_step(int64_t step, int64_t count) {
    const T* before = step == 0 ? in_.initial : gradients_.states + (step - 1) * in_.batch * size_;
    block_.gather(before, size_, count, record(0).v.data, stride_);
    group_.hold(in_, step, count, sensory_kept());
    for (int64_t n = 0; n < network_.unfolds; ++n) {
      const Record<T> now = record(n);
      group_.unfold(count, now.v, n + 1 < network_.unfolds ? record(n + 1).v : group_.v(), &now);
    }
    d_held_conductance_.clear();
    d_held_current_.clear();
    d_delta_.clear();
  }

  // With N = v + r J and M = 1 + r G: dN = dv_new / M, dJ = r dN, dG = -v_new dJ, dr = dN (J - v_new G), dv = dN + ...
  void fold_back(int64_t n, int64_t count) {
    const Record<T> now = record(n);
    const T* after = n + 1 < network_.unfolds ? record(n + 1).v.data : group_.v().data;
    const T* inverse_capacity = network_.neurons.inverse_capacity();
    T* d_inverse_capacity = sums_ + offsets_.neurons + 2 * stride_;
    for (int64_t row = 0; row < count; ++row) {
      const Vec<T> delta = group_.delta(row);
      Vec<T> d_delta = Vec<T>::zero();
      for (int64_t i = 0; i < stride_; i += Vec<T>::kLanes) {
        const int64_t at = row * stride_ + i;
        const Vec<T> capacity = Vec<T>::load(inverse_capacity + i);
        const Vec<T> dn = Vec<T>::load(dv_.data() + at) * Vec<T>::load(now.inverse.data + at);
        const Vec<T> dr = dn * Vec<T>::load(now.slope.data + at);
        const Vec<T> dj = delta * capacity * dn, dg = -dj * Vec<T>::load(after + at);
        dn.store(dv_.data() + at);
        dg.store(d_conductance_.data() + at);
        dj.store(d_current_.data() + at);
        (Vec<T>::load(d_held_conductance_.data() + at) + dg).store(d_held_conductance_.data() + at);
        (Vec<T>::load(d_held_current_.data() + at) + dj).store(d_held_current_.data() + at);
        fma(delta, dr, Vec<T>::load(d_inverse_capacity + i)).store(d_inverse_capacity + i);
        d_delta = fma(dr, capacity, d_delta);
      }
      d_delta_[row] += sum(d_delta);
    }
    synapse_gradients(network_.recurrent, count, now.v.read(), group_.rows(d_conductance_).read(),
                      group_.rows(d_current_).read(), now.kept, sums_ + offsets_.recurrent, group_.rows(dv_));
  }

  // The gradients of what was constant within the step.
  void finish_step(int64_t step, int64_t count) {
    dx_.clear();
    synapse_gradients(network_.sensory, count, group_.x().read(), group_.rows(d_held_conductance_).read(),
                      group_.rows(d_held_current_).read(), sensory_kept(), sums_ + offsets_.sensory,
                      Rows<T>{dx_.data(), network_.sensory.pre()});
    add_column_sums(d_held_conductance_.data(), stride_, count, stride_, sums_ + offsets_.neurons);
    add_column_sums(d_held_current_.data(), stride_, count, stride_, sums_ + offsets_.neurons + stride_);
    for (int64_t row = 0; row < count; ++row)
      gradients_.d_dt[step * in_.batch + block_.samples[row]] = d_delta_[row] / static_cast<T>(network_.unfolds);
  }

  const Network<T>& network_;
  const Inputs<T>& in_;
  const InputGradients<T>& gradients_;
  const SampleBlock block_;
  Group<T> group_;
  T* const sums_;
  const ParameterSums<T> offsets_;
  const int64_t size_, stride_;
  Buffer<T> dv_, d_conductance_, d_current_, d_held_conductance_, d_held_current_, dx_, d_delta_, records_, kept_;
};

}  // namespace synaptic
}  // namespace chronode
