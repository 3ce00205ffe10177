// mmRNN: the forward and the C functions. See mixed_memory.h for the algorithm.
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
void forward(const Problem<T>& p, const Results<T>& results, int threads) {
  const CellWeights<T> weights(p);
  const typename Flow::Weights flow(p);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  parallel_blocks(blocks.count(), threads, [&](int64_t block, int) {
    forward_block<T, Flow>(p, weights, flow, blocks[block], results);
  });
}

}  // namespace
}  // namespace mixed_memory
}  // namespace chronode

// Tensors of both functions as in Problem and Name. A flow with a scale is the ctrnn flow, else it is the mlp flow.
#define CHRONODE_MIXED_MEMORY_INPUTS(T)                                                                            \
  const T *x, const T *dt, const T *c0, const T *h0, const T *weight, const T *bias, const T *inner,               \
      const T *inner_bias, const T *product, const T *product_bias, const T *outer, const T *outer_bias,           \
      const T *scale, const T *drive, const int64_t *lengths, int64_t steps, int64_t batch, int64_t inputs,        \
      int64_t hidden, int64_t variant, int64_t method, int64_t substeps

#define CHRONODE_MIXED_MEMORY_PROBLEM(T)                                                                           \
  const chronode::mixed_memory::Problem<T> problem {                                                               \
    x, dt, c0, h0,                                                                                                 \
        {{weight, bias, inner, inner_bias, product, product_bias, outer, outer_bias, scale, drive}}, lengths,      \
        steps, batch, inputs, hidden, variant, substeps, chronode::mixed_memory::method<T>(method)                 \
  }

#define CHRONODE_MIXED_MEMORY(T, suffix)                                                                           \
  CHRONODE_EXPORT void chronode_mixed_memory_forward_##suffix(CHRONODE_MIXED_MEMORY_INPUTS(T), T* c, T* y,         \
                                                              T* c_end, T* h_end, int64_t threads) {               \
    using namespace chronode::mixed_memory;                                                                        \
    CHRONODE_MIXED_MEMORY_PROBLEM(T);                                                                              \
    const Results<T> results{c, y, c_end, h_end};                                                                  \
    if (scale != nullptr) forward<T, CtrnnFlow<T>>(problem, results, static_cast<int>(threads));                   \
    else forward<T, MlpFlow<T>>(problem, results, static_cast<int>(threads));                                      \
  }                                                                                                                \
  CHRONODE_EXPORT void chronode_mixed_memory_backward_##suffix(                                                    \
      CHRONODE_MIXED_MEMORY_INPUTS(T), const T* c, const T* y, const T* grad_y, const T* grad_c, const T* grad_h,  \
      T* dx, T* ddt, T* dc0, T* dh0, T* dweight, T* dbias, T* dinner, T* dinner_bias, T* dproduct,                 \
      T* dproduct_bias, T* douter, T* douter_bias, T* dscale, T* ddrive, int64_t threads) {                        \
    using namespace chronode::mixed_memory;                                                                        \
    CHRONODE_MIXED_MEMORY_PROBLEM(T);                                                                              \
    const Gradients<T> gradients{c,   y,   grad_y, grad_c, grad_h, dx, ddt, dc0, dh0,                              \
                                 {{dweight, dbias, dinner, dinner_bias, dproduct, dproduct_bias, douter,           \
                                   douter_bias, dscale, ddrive}}};                                                 \
    if (scale != nullptr) backward<T, CtrnnFlow<T>>(problem, gradients, static_cast<int>(threads));                \
    else backward<T, MlpFlow<T>>(problem, gradients, static_cast<int>(threads));                                   \
  }

CHRONODE_MIXED_MEMORY(float, f32)
CHRONODE_MIXED_MEMORY(double, f64)
