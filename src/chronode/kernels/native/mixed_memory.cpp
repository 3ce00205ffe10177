// mmRNN: the forward and the C functions. See mixed_memory.h for the algorithm.
#include "entry.h"
#include "mixed_memory_backward.h"
#include "mixed_memory_ctrnn.h"
#include "mixed_memory_mlp.h"

namespace chronode {
namespace mixed_memory {
namespace {

// What the forward writes: c and h after every step (each may be null) and after each sequence's last one.
template <class T>
struct Results {
  T *c, *y, *c_end, *h_end;
};

template <class T, class Flow>
void forward_block(const Problem<T>& p, const CellWeights<T>& w, const typename Flow::Weights& flow_weights,
                   const SampleBlock& block, const Results<T>& results) {
  const int64_t H = p.hidden, D = p.inputs, columns = p.columns(), size = block.rows * H;
  const bool driven = p.variant == kDriven;
  Buffer<T> xh(block.rows * columns), c(size), h(size), memory(driven ? size : 0), drive(driven ? size : 0);
  Buffer<T> steps(block.rows);
  Gates<T> gates(size);
  Flow flow(p, flow_weights, block.rows, 0);
  block.gather(p.c0, H, block.rows, c.data(), H);
  block.gather(p.h0, H, block.rows, h.data(), H);
  for (int64_t n = 0; n < block.steps(); ++n) {
    const int64_t active = block.active(n);
    flow.begin(active);
    block.gather(p.x + n * p.batch * D, D, active, xh.data(), columns);
    for (int64_t row = 0; row < active; ++row) std::copy_n(h.data() + row * H, H, xh.data() + row * columns + D);
    read_steps(p, block, n, active, steps.data());
    update_memory(p, w, active, xh.data(), c.data(), c.data(), driven ? memory.data() : flow.start(), gates);
    if (driven) {
      gemm(memory.data(), H, active, w.drive, drive.data(), H);
      std::copy_n(h.data(), active * H, flow.start());
    }
    flow.solve(steps.data(), driven ? drive.data() : nullptr, h.data());
    if (results.y != nullptr) block.scatter(h.data(), H, H, active, results.y + n * p.batch * H);
    if (results.c != nullptr) block.scatter(c.data(), H, H, active, results.c + n * p.batch * H);
  }
  if (results.y != nullptr) block.clear_padding(results.y, p.steps, H);
  if (results.c != nullptr) block.clear_padding(results.c, p.steps, H);
  block.scatter(c.data(), H, H, block.rows, results.c_end);
  block.scatter(h.data(), H, H, block.rows, results.h_end);
}

template <class T, class Flow>
struct ForwardWeights {
  CellWeights<T> cell;
  typename Flow::Weights flow;
  explicit ForwardWeights(const Problem<T>& p) : cell(p), flow(p, false) {}
};

template <class T, class Flow>
void forward(const Problem<T>& p, const Results<T>& results, int threads, WeightCache* cache) {
  const auto weights = packed_once<ForwardWeights<T, Flow>>(p, cache);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  parallel_blocks(blocks.count(), threads, [&](int64_t block, int) {
    forward_block<T, Flow>(p, weights->cell, weights->flow, blocks[block], results);
  });
}

// Arrays that stand for the parameters, each of its size.
template <class T, class U>
void require_parameters(const Problem<T>& p, const Parameters<Array<U>>& arrays) {
  static const char* const names[kNames] = {"weight",     "bias",  "inner",      "inner_bias", "product",
                                            "product_bias", "outer", "outer_bias", "scale",      "drive"};
  require_sizes("weight", {p.gates(), p.hidden, p.columns()});
  const Parameters<int64_t> size = sizes(p);
  for (int i = 0; i < kNames; ++i)
    if (size[i] > 0) require_room(names[i], arrays[i], size[i]);
}

// The inputs of both functions, as in Problem and Name.
template <class T>
struct Arguments {
  Array<const T> x, dt, c0, h0;
  Parameters<Array<const T>> weights;
  Array<const int64_t> lengths;
  int64_t steps, batch, inputs, hidden, variant, method, substeps;

  Problem<T> checked() const {
    require_array("x", x, {steps, batch, inputs});
    require_array("dt", dt, {steps, batch});
    require_array("c0", c0, {batch, hidden});
    require_array("h0", h0, {batch, hidden});
    require_between("variant", variant, kGated, kDriven);
    require_between("method", method, 0, 3);
    require_between("substeps", substeps, 1, kMostSubsteps);
    allow_lengths(lengths, steps, batch);
    Problem<T> p{x, dt, c0, h0, {}, lengths, steps, batch, inputs, hidden, variant, substeps,
                 mixed_memory::method<T>(method)};
    for (int i = 0; i < kNames; ++i) p.weights[i] = weights[i];
    require_parameters(p, weights);
    return p;
  }
};

// A flow with a scale is the ctrnn flow, else it is the mlp flow.
template <class T, class F>
void with_flow(const Problem<T>& p, F f) {
  if (p.ctrnn()) f(static_cast<CtrnnFlow<T>*>(nullptr));
  else f(static_cast<MlpFlow<T>*>(nullptr));
}

template <class T>
void forward_entry(const Arguments<T>& in, Array<T> c, Array<T> y, Array<T> c_end, Array<T> h_end, int64_t threads,
                   WeightCache* cache) {
  const Problem<T> p = in.checked();
  allow_array("c", c, {p.steps, p.batch, p.hidden});
  allow_array("y", y, {p.steps, p.batch, p.hidden});
  require_array("c_end", c_end, {p.batch, p.hidden});
  require_array("h_end", h_end, {p.batch, p.hidden});
  with_flow(p, [&](auto* flow) {
    forward<T, std::remove_pointer_t<decltype(flow)>>(p, {c, y, c_end, h_end}, require_threads(threads), cache);
  });
}

// c and y, the gradients of y, c_end and h_end, and those to be written.
template <class T>
struct GradientArguments {
  Array<const T> c, y, grad_y, grad_c, grad_h;
  Array<T> dx, ddt, dc0, dh0;
  Parameters<Array<T>> weights;
};

template <class T>
void backward_entry(const Arguments<T>& in, const GradientArguments<T>& out, int64_t threads) {
  const Problem<T> p = in.checked();
  require_array("c", out.c, {p.steps, p.batch, p.hidden});
  require_array("y", out.y, {p.steps, p.batch, p.hidden});
  allow_array("the gradient of y", out.grad_y, {p.steps, p.batch, p.hidden});
  allow_array("the gradient of c_end", out.grad_c, {p.batch, p.hidden});
  allow_array("the gradient of h_end", out.grad_h, {p.batch, p.hidden});
  allow_array("dx", out.dx, {p.steps, p.batch, p.inputs});
  require_array("ddt", out.ddt, {p.steps, p.batch});
  require_array("dc0", out.dc0, {p.batch, p.hidden});
  require_array("dh0", out.dh0, {p.batch, p.hidden});
  require_parameters(p, out.weights);
  Gradients<T> gradients{out.c, out.y, out.grad_y, out.grad_c, out.grad_h, out.dx, out.ddt, out.dc0, out.dh0, {}};
  for (int i = 0; i < kNames; ++i) gradients.weights[i] = out.weights[i];
  with_flow(p, [&](auto* flow) {
    backward<T, std::remove_pointer_t<decltype(flow)>>(p, gradients, require_threads(threads));
  });
}

}  // namespace
}  // namespace mixed_memory
}  // namespace chronode

using chronode::Array;

#define CHRONODE_MIXED_MEMORY_INPUTS(T)                                                                            \
  Array<const T> x, Array<const T> dt, Array<const T> c0, Array<const T> h0, Array<const T> weight,                \
      Array<const T> bias, Array<const T> inner, Array<const T> inner_bias, Array<const T> product,                \
      Array<const T> product_bias, Array<const T> outer, Array<const T> outer_bias, Array<const T> scale,          \
      Array<const T> drive, Array<const int64_t> lengths, int64_t steps, int64_t batch, int64_t inputs,            \
      int64_t hidden, int64_t variant, int64_t method, int64_t substeps

#define CHRONODE_MIXED_MEMORY_ARGUMENTS                                                                            \
  {                                                                                                                \
    x, dt, c0, h0, {{weight, bias, inner, inner_bias, product, product_bias, outer, outer_bias, scale, drive}},    \
        lengths, steps, batch, inputs, hidden, variant, method, substeps                                           \
  }

#define CHRONODE_MIXED_MEMORY(T, suffix)                                                                           \
  CHRONODE_EXPORT int chronode_mixed_memory_forward_##suffix(CHRONODE_MIXED_MEMORY_INPUTS(T), Array<T> c,          \
                                                             Array<T> y, Array<T> c_end, Array<T> h_end,           \
                                                             CHRONODE_CALL) {                                      \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::mixed_memory::forward_entry<T>(CHRONODE_MIXED_MEMORY_ARGUMENTS, c, y, c_end, h_end, threads,       \
                                                  cache);                                                          \
    });                                                                                                            \
  }                                                                                                                \
  CHRONODE_EXPORT int chronode_mixed_memory_backward_##suffix(                                                     \
      CHRONODE_MIXED_MEMORY_INPUTS(T), Array<const T> c, Array<const T> y, Array<const T> grad_y,                  \
      Array<const T> grad_c, Array<const T> grad_h, Array<T> dx, Array<T> ddt, Array<T> dc0, Array<T> dh0,         \
      Array<T> dweight, Array<T> dbias, Array<T> dinner, Array<T> dinner_bias, Array<T> dproduct,                  \
      Array<T> dproduct_bias, Array<T> douter, Array<T> douter_bias, Array<T> dscale, Array<T> ddrive,             \
      CHRONODE_CALL) {                                                                                             \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::mixed_memory::backward_entry<T>(                                                                   \
          CHRONODE_MIXED_MEMORY_ARGUMENTS,                                                                         \
          {c, y, grad_y, grad_c, grad_h, dx, ddt, dc0, dh0,                                                        \
           {{dweight, dbias, dinner, dinner_bias, dproduct, dproduct_bias, douter, douter_bias, dscale,            \
             ddrive}}},                                                                                            \
          threads);                                                                                                \
    });                                                                                                            \
  }

CHRONODE_MIXED_MEMORY(float, f32)
CHRONODE_MIXED_MEMORY(double, f64)
