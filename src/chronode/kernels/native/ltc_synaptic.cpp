// LTC, synaptic form, fused solver, over whole sequences:
//
//   once per step      G_in, J_in = leak + sensory synapses of x
//   `unfolds` times    G, J = G_in, J_in + recurrent synapses of v;   v <- (v + r J) / (1 + r G),  r = dt / (unfolds c)
//
// Blocking. A group of at most kGroupRows samples runs through all of time: synapses (shared) and the group's state
// stay in L1/L2. The forward keeps v after each step alone. The backward goes back step by step: it runs the step's
// sub-steps again, with the synapses' p kept in cache if they fit there, and then their gradients in reverse. Gradients
// of the parameters are summed per part (a few groups), parts in order.
#include "ltc_synaptic.h"
#include "ltc_synaptic_backward.h"
#include "pool.h"

namespace chronode {
namespace synaptic {

constexpr int64_t kGroupRows = 8;
constexpr int64_t kMostParts = 64;  // bounds the memory of the parts' gradients

// states: (T, B, H), 0 at padding, or null.
template <class T>
void forward_group(const Network<T>& network, const Inputs<T>& in, const SampleBlock& block, T* states, T* final) {
  Group<T> group(network, block);
  const int64_t size = network.neurons.size, stride = network.neurons.stride;
  block.gather(in.initial, size, block.rows, group.v().data, stride);
  for (int64_t step = 0; step < block.steps(); ++step) {
    const int64_t count = block.active(step);
    group.hold(in, step, count, nullptr);
    for (int64_t n = 0; n < network.unfolds; ++n) group.unfold(count, group.v(), group.v(), nullptr);
    if (states != nullptr) block.scatter(group.v().data, stride, size, count, states + step * in.batch * size);
  }
  if (states != nullptr) block.clear_padding(states, in.steps, size);
  block.scatter(group.v().data, stride, size, block.rows, final);
}

template <class T>
void forward(const T* x, const T* initial, const T* dt, const int64_t* lengths, const T* recurrent, const T* sensory,
             const T* neurons, T* states, T* final, int64_t steps, int64_t batch, int64_t inputs, int64_t size,
             int64_t unfolds, int64_t threads) {
  const Network<T> network{{sensory, inputs, size}, {recurrent, size, size}, {neurons, size}, unfolds};
  const Inputs<T> in{x, initial, dt, steps, batch};
  const SampleBlocks groups(steps, batch, lengths, kGroupRows);
  parallel_blocks(groups.count(), static_cast<int>(threads),
                  [&](int64_t group, int) { forward_group(network, in, groups[group], states, final); });
}

template <class T>
void backward(const T* x, const T* initial, const T* dt, const int64_t* lengths, const T* recurrent, const T* sensory,
              const T* neurons, const T* states, const T* d_states, const T* d_final, T* dx, T* d_initial, T* d_dt,
              T* d_recurrent, T* d_sensory, T* d_neurons, int64_t steps, int64_t batch, int64_t inputs, int64_t size,
              int64_t unfolds, int64_t threads) {
  const Network<T> network{{sensory, inputs, size}, {recurrent, size, size}, {neurons, size}, unfolds};
  const Inputs<T> in{x, initial, dt, steps, batch};
  const InputGradients<T> gradients{states, d_states, d_final, dx, d_initial, d_dt};
  const SampleBlocks groups(steps, batch, lengths, kGroupRows);
  const Blocks parts(groups.count(), (groups.count() + kMostParts - 1) / kMostParts);
  const ParameterSums<T> offsets(network);
  BlockSums<T> sums(parts.count, offsets.size);
  parallel_blocks(parts.count, static_cast<int>(threads), [&](int64_t part, int) {
    T* own = sums.zeroed(part);
    for (int64_t group = parts.begin(part); group < parts.begin(part + 1); ++group)
      BackwardGroup<T>(network, in, gradients, groups[group], own).run();
  });
  Buffer<T> total(offsets.size);
  sums.sum_into(total.data(), static_cast<int>(threads));
  finish_gradient(recurrent, total.data() + offsets.recurrent, size, size, d_recurrent);
  finish_gradient(sensory, total.data() + offsets.sensory, inputs, size, d_sensory);
  for (int row = 0; row < 3; ++row)
    std::copy_n(total.data() + offsets.neurons + row * network.neurons.stride, size, d_neurons + row * size);
}

}  // namespace synaptic
}  // namespace chronode

#define CHRONODE_LTC_SYNAPTIC(T, suffix)                                                                        \
  CHRONODE_EXPORT void chronode_ltc_synaptic_forward_##suffix(                                                  \
      const T* x, const T* initial, const T* dt, const int64_t* lengths, const T* recurrent, const T* sensory,  \
      const T* neurons, T* states, T* final, int64_t steps, int64_t batch, int64_t inputs, int64_t size,        \
      int64_t unfolds, int64_t threads) {                                                                       \
    chronode::synaptic::forward(x, initial, dt, lengths, recurrent, sensory, neurons, states, final, steps,     \
                                batch, inputs, size, unfolds, threads);                                         \
  }                                                                                                             \
  CHRONODE_EXPORT void chronode_ltc_synaptic_backward_##suffix(                                                 \
      const T* x, const T* initial, const T* dt, const int64_t* lengths, const T* recurrent, const T* sensory,  \
      const T* neurons, const T* states, const T* d_states, const T* d_final, T* dx, T* d_initial, T* d_dt,     \
      T* d_recurrent, T* d_sensory, T* d_neurons, int64_t steps, int64_t batch, int64_t inputs, int64_t size,   \
      int64_t unfolds, int64_t threads) {                                                                       \
    chronode::synaptic::backward(x, initial, dt, lengths, recurrent, sensory, neurons, states, d_states,        \
                                 d_final, dx, d_initial, d_dt, d_recurrent, d_sensory, d_neurons, steps, batch, \
                                 inputs, size, unfolds, threads);                                               \
  }

CHRONODE_LTC_SYNAPTIC(float, f32)
CHRONODE_LTC_SYNAPTIC(double, f64)
