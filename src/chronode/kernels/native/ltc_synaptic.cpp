// LTC, synaptic form, fused solver, over whole sequences:
//
//   once per step      G_in, J_in = leak + sensory synapses of x
//   `unfolds` times    G, J = G_in, J_in + recurrent synapses of v;   v <- (v + r J) / (1 + r G),  r = dt / (unfolds c)
//
// Blocking. A group of at most kGroupRows samples runs through all of time: synapses (shared) and the group's state
// stay in L1/L2. The forward keeps v after each step alone. The backward goes back step by step: it runs the step's
// sub-steps again, with the synapses' p kept in cache if they fit there, and then their gradients in reverse. Gradients
// of the parameters are summed per part (a few groups), parts in order.
#include "entry.h"
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

// The inputs of both functions; synapses (4, from, to): w, m, s, e; neurons (3, size) as in Neurons.
template <class T>
struct Arguments {
  Array<const T> x, initial, dt;
  Array<const int64_t> lengths;
  Array<const T> recurrent, sensory, neurons;
  int64_t steps, batch, inputs, size, unfolds;

  void check() const {
    require_array("x", x, {steps, batch, inputs});
    require_array("v", initial, {batch, size});
    require_array("dt", dt, {steps, batch});
    require_array("recurrent", recurrent, {4, size, size});
    require_array("sensory", sensory, {4, inputs, size});
    require_array("neurons", neurons, {3, size});
    require_between("unfolds", unfolds, 1, kMostSubsteps);
    allow_lengths(lengths, steps, batch);
  }
  SampleBlocks groups() const { return {steps, batch, lengths, kGroupRows}; }
};

template <class T>
void forward(const Arguments<T>& a, Array<T> states, Array<T> final, int64_t threads, WeightCache* cache) {
  a.check();
  allow_array("states", states, {a.steps, a.batch, a.size});
  require_array("the final state", final, {a.batch, a.size});
  const auto network = packed_once<Network<T>>(a, cache);
  const Inputs<T> in{a.x, a.initial, a.dt, a.steps, a.batch};
  const SampleBlocks groups = a.groups();
  parallel_blocks(groups.count(), require_threads(threads),
                  [&](int64_t group, int) { forward_group<T>(*network, in, groups[group], states, final); });
}

template <class T>
void backward(const Arguments<T>& a, Array<const T> states, Array<const T> d_states, Array<const T> d_final,
              Array<T> dx, Array<T> d_initial, Array<T> d_dt, Array<T> d_recurrent, Array<T> d_sensory,
              Array<T> d_neurons, int64_t threads) {
  a.check();
  require_array("states", states, {a.steps, a.batch, a.size});
  allow_array("the gradient of the states", d_states, {a.steps, a.batch, a.size});
  allow_array("the gradient of the final state", d_final, {a.batch, a.size});
  require_array("dx", dx, {a.steps, a.batch, a.inputs});
  require_array("d_v", d_initial, {a.batch, a.size});
  require_array("d_dt", d_dt, {a.steps, a.batch});
  require_array("d_recurrent", d_recurrent, {4, a.size, a.size});
  require_array("d_sensory", d_sensory, {4, a.inputs, a.size});
  require_array("d_neurons", d_neurons, {3, a.size});
  const int most_threads = require_threads(threads);
  const Network<T> network(a);
  const Inputs<T> in{a.x, a.initial, a.dt, a.steps, a.batch};
  const InputGradients<T> gradients{states, d_states, d_final, dx, d_initial, d_dt};
  const SampleBlocks groups = a.groups();
  const Blocks parts(groups.count(), (groups.count() + kMostParts - 1) / kMostParts);
  const ParameterSums<T> offsets(network);
  BlockSums<T> sums(parts.count, offsets.size);
  parallel_blocks(parts.count, most_threads, [&](int64_t part, int) {
    T* own = sums.zeroed(part);
    for (int64_t group = parts.begin(part); group < parts.begin(part + 1); ++group)
      BackwardGroup<T>(network, in, gradients, groups[group], own).run();
  });
  Buffer<T> total(offsets.size);
  sums.sum_into(total.data(), most_threads);
  finish_gradient<T>(a.recurrent, total.data() + offsets.recurrent, a.size, a.size, d_recurrent);
  finish_gradient<T>(a.sensory, total.data() + offsets.sensory, a.inputs, a.size, d_sensory);
  for (int row = 0; row < 3; ++row)
    std::copy_n(total.data() + offsets.neurons + row * network.neurons.stride, a.size, d_neurons + row * a.size);
}

}  // namespace synaptic
}  // namespace chronode

using chronode::Array;

#define CHRONODE_LTC_SYNAPTIC_INPUTS(T)                                                                         \
  Array<const T> x, Array<const T> initial, Array<const T> dt, Array<const int64_t> lengths,                    \
      Array<const T> recurrent, Array<const T> sensory, Array<const T> neurons, int64_t steps, int64_t batch,   \
      int64_t inputs, int64_t size, int64_t unfolds

#define CHRONODE_LTC_SYNAPTIC(T, suffix)                                                                        \
  CHRONODE_EXPORT int chronode_ltc_synaptic_forward_##suffix(CHRONODE_LTC_SYNAPTIC_INPUTS(T), Array<T> states,  \
                                                             Array<T> final, CHRONODE_CALL) {                   \
    return chronode::guarded(failure, [&] {                                                                     \
      chronode::synaptic::forward<T>(                                                                           \
          {x, initial, dt, lengths, recurrent, sensory, neurons, steps, batch, inputs, size, unfolds}, states,  \
          final, threads, cache);                                                                               \
    });                                                                                                         \
  }                                                                                                             \
  CHRONODE_EXPORT int chronode_ltc_synaptic_backward_##suffix(                                                  \
      CHRONODE_LTC_SYNAPTIC_INPUTS(T), Array<const T> states, Array<const T> d_states, Array<const T> d_final,  \
      Array<T> dx, Array<T> d_initial, Array<T> d_dt, Array<T> d_recurrent, Array<T> d_sensory,                 \
      Array<T> d_neurons, CHRONODE_CALL) {                                                                      \
    return chronode::guarded(failure, [&] {                                                                     \
      chronode::synaptic::backward<T>(                                                                          \
          {x, initial, dt, lengths, recurrent, sensory, neurons, steps, batch, inputs, size, unfolds}, states,  \
          d_states, d_final, dx, d_initial, d_dt, d_recurrent, d_sensory, d_neurons, threads);                  \
    });                                                                                                         \
  }

CHRONODE_LTC_SYNAPTIC(float, f32)
CHRONODE_LTC_SYNAPTIC(double, f64)
