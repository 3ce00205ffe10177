// LTC, synaptic form: the network, and a group of samples that runs through a step; ltc_synaptic.cpp has the algorithm.
#pragma once

#include "sequence.h"
#include "synapses.h"

namespace chronode {
namespace synaptic {

// Parameters of the neurons, (3, size): leak conductance, leak current, 1 / capacity; zeros beyond size.
template <class T>
struct Neurons {
  int64_t size, stride;
  Buffer<T> data;
  Neurons(const T* parameters, int64_t count) : size(count), stride(padded<T>(count)), data(3 * stride) {
    data.clear();
    for (int row = 0; row < 3; ++row) std::copy_n(parameters + row * size, size, data.data() + row * stride);
  }
  const T* leak_conductance() const { return data.data(); }
  const T* leak_current() const { return data.data() + stride; }
  const T* inverse_capacity() const { return data.data() + 2 * stride; }
};

template <class T>
struct Network {
  Synapses<T> sensory, recurrent;
  Neurons<T> neurons;
  int64_t unfolds;
  template <class Arguments>
  explicit Network(const Arguments& a)
      : sensory(a.sensory, a.inputs, a.size), recurrent(a.recurrent, a.size, a.size), neurons(a.neurons, a.size),
        unfolds(a.unfolds) {}
};

// Whole tensors, time-major; null where not wanted.
template <class T>
struct Inputs {
  const T *x, *initial, *dt;  // (T, B, D), (B, H), (T, B)
  int64_t steps, batch;
};

// One sub-step's record in the backward: the state before it and what its gradients need, rows x stride each.
template <class T>
struct Record {
  Rows<T> v, inverse, slope;  // 1 / (1 + r G) and J - G v_new, computed as (J - G v) / (1 + r G)
  T* kept;                    // the synapses' p, or null
};

// What a group of samples works on; rows are padded to whole vectors with zeros.
template <class T>
class Group {
 public:
  Group(const Network<T>& network, const SampleBlock& block)
      : network_(network),
        block_(block),
        stride_(network.neurons.stride),
        inputs_(network.sensory.pre()),
        x_(block.rows * inputs_),
        delta_(block.rows),
        v_(plane()),
        held_conductance_(plane()),
        held_current_(plane()),
        conductance_(plane()),
        current_(plane()) {
    v_.clear();
  }

  const SampleBlock& block() const { return block_; }
  Rows<T> rows(Buffer<T>& buffer) { return {buffer.data(), stride_}; }
  Rows<T> v() { return rows(v_); }
  Rows<T> x() { return {x_.data(), inputs_}; }
  int64_t plane() const { return block_.rows * stride_; }
  T delta(int64_t row) const { return delta_[row]; }

  // What is constant within the step: δ, and the conductance and current of leak and inputs.
  void hold(const Inputs<T>& in, int64_t step, int64_t count, T* kept) {
    block_.gather(in.x + step * in.batch * inputs_, inputs_, count, x_.data(), inputs_);
    block_.gather(in.dt + step * in.batch, 1, count, delta_.data(), 1);
    for (int64_t row = 0; row < count; ++row) {
      delta_[row] /= static_cast<T>(network_.unfolds);
      std::copy_n(network_.neurons.leak_conductance(), stride_, held_conductance_.data() + row * stride_);
      std::copy_n(network_.neurons.leak_current(), stride_, held_current_.data() + row * stride_);
    }
    synapse_sums(network_.sensory, count, x().read(), rows(held_conductance_), rows(held_current_), kept);
  }

  // One sub-step from v to `next` (may be v itself); `record` (or null) keeps what its gradients need.
  void unfold(int64_t count, Rows<T> v, Rows<T> next, const Record<T>* record) {
    std::copy_n(held_conductance_.data(), count * stride_, conductance_.data());
    std::copy_n(held_current_.data(), count * stride_, current_.data());
    synapse_sums(network_.recurrent, count, v.read(), rows(conductance_), rows(current_),
                 record == nullptr ? nullptr : record->kept);
    const T* inverse_capacity = network_.neurons.inverse_capacity();
    for_rows<T>(count, stride_, [&](int64_t row, int64_t at, int) CHRONODE_LAMBDA_INLINE {
      const Vec<T> g = Vec<T>::load(conductance_.data() + at), j = Vec<T>::load(current_.data() + at);
      const Vec<T> r = Vec<T>(delta_[row]) * Vec<T>::load(inverse_capacity + (at - row * stride_));
      const Vec<T> inverse = Vec<T>(T(1)) / fma(r, g, Vec<T>(T(1)));
      const Vec<T> before = Vec<T>::load(v.data + at);
      (fma(r, j, before) * inverse).store(next.data + at);
      if (record != nullptr) {
        inverse.store(record->inverse.data + at);
        // G v_new is near J where r G is large: their difference would be rounding, and 1 / capacity multiplies it
        fnma(g * inverse, before, j * inverse).store(record->slope.data + at);
      }
    });
  }

 private:
  const Network<T>& network_;
  const SampleBlock block_;
  int64_t stride_, inputs_;
  Buffer<T> x_, delta_, v_, held_conductance_, held_current_, conductance_, current_;
};

}  // namespace synaptic
}  // namespace chronode
