// iRNN and ERNN: the forward and the C functions. See equilibrium.h for the algorithm.
#include "equilibrium_backward.h"

namespace chronode {
namespace equilibrium {
namespace {

// y: (steps, batch, hidden) or null; h_end: (batch, hidden).
template <class Phi, class T>
void forward_block(const Problem<T>& p, const Weights<T>& w, const SampleBlock& block, T* y, T* h_end) {
  const int64_t H = p.hidden;
  Buffer<T> x(block.rows * p.inputs), c(block.rows * H), h(block.rows * H), q(block.rows * H), other(block.rows * H);
  Buffer<T> z(block.rows * p.rank), product(block.rows * H), etas(p.K * block.rows);
  block.gather(p.h0, H, block.rows, h.data(), H);
  for (int64_t n = 0; n < block.steps(); ++n) {
    const int64_t active = block.active(n);
    block.gather(p.x + n * p.batch * p.inputs, p.inputs, active, x.data(), p.inputs);
    gemm(x.data(), p.inputs, active, w.input, c.data(), H);
    read_etas(p, block, n, active, etas.data());
    for_vectors<T>(active * H, [&](int64_t i, int lanes) {
      (Vec<T>(p.start()) * Vec<T>::load(h.data() + i, lanes)).store(q.data() + i, lanes);
    });
    for (int64_t k = 0; k < p.K; ++k) {
      advance<Phi>(p, w, active, etas.data() + k * block.rows, q.data(), c.data(), z.data(), product.data(),
                   static_cast<T*>(nullptr), other.data());
      std::swap(q, other);
    }
    for_vectors<T>(active * H, [&](int64_t i, int lanes) {
      fnma(Vec<T>(p.sign), Vec<T>::load(h.data() + i, lanes), Vec<T>::load(q.data() + i, lanes))
          .store(h.data() + i, lanes);
    });
    if (y != nullptr) block.scatter(h.data(), H, H, active, y + n * p.batch * H);
  }
  if (y != nullptr) block.clear_padding(y, p.steps, H);
  block.scatter(h.data(), H, H, block.rows, h_end);
}

template <class Phi, class T>
void forward(const Problem<T>& p, T* y, T* h_end, int threads) {
  const Weights<T> weights(p);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  parallel_blocks(blocks.count(), threads,
                  [&](int64_t block, int) { forward_block<Phi>(p, weights, blocks[block], y, h_end); });
}

// f(Phi) for the activation of that number; kernels/equilibrium.py has the same order.
template <class F>
void with_activation(int64_t activation, F f) {
  if (activation == 0) f(Relu());
  else if (activation == 1) f(Tanh());
  else f(Sigmoid());
}

}  // namespace
}  // namespace equilibrium
}  // namespace chronode

// Tensors of both functions as in Problem; gamma and sign are tensors of one element.
#define CHRONODE_EQUILIBRIUM_INPUTS(T)                                                                             \
  const T *x, const T *h0, const T *count, const T *weight, const T *bias, const T *up, const T *down,             \
      const T *eta, const T *gamma, const T *sign, const int64_t *lengths, int64_t steps, int64_t batch,           \
      int64_t inputs, int64_t hidden, int64_t rank, int64_t K, int64_t eta_steps, int64_t from_previous,           \
      int64_t activation

#define CHRONODE_EQUILIBRIUM_PROBLEM(T)                                                                            \
  const chronode::equilibrium::Problem<T> problem {                                                                \
    x, h0, count, weight, bias, up, down, eta, *gamma, *sign, lengths, steps, batch, inputs, hidden, rank, K,      \
        eta_steps, from_previous != 0                                                                              \
  }

#define CHRONODE_EQUILIBRIUM(T, suffix)                                                                            \
  CHRONODE_EXPORT void chronode_equilibrium_forward_##suffix(CHRONODE_EQUILIBRIUM_INPUTS(T), T* y, T* h_end,       \
                                                             int64_t threads) {                                    \
    CHRONODE_EQUILIBRIUM_PROBLEM(T);                                                                               \
    chronode::equilibrium::with_activation(activation, [&](auto phi) {                                             \
      chronode::equilibrium::forward<decltype(phi)>(problem, y, h_end, static_cast<int>(threads));                 \
    });                                                                                                            \
  }                                                                                                                \
  CHRONODE_EXPORT void chronode_equilibrium_backward_##suffix(                                                     \
      CHRONODE_EQUILIBRIUM_INPUTS(T), const T* y, const T* grad_y, const T* grad_h, T* dx, T* dh0, T* dweight,     \
      T* dbias, T* dup, T* ddown, T* deta, int64_t threads) {                                                      \
    CHRONODE_EQUILIBRIUM_PROBLEM(T);                                                                               \
    const chronode::equilibrium::Gradients<T> gradients{y,  grad_y,  grad_h, dx,    dh0,                           \
                                                        dweight, dbias, dup, ddown, deta};                         \
    chronode::equilibrium::with_activation(activation, [&](auto phi) {                                             \
      chronode::equilibrium::backward<decltype(phi)>(problem, gradients, static_cast<int>(threads));               \
    });                                                                                                            \
  }

CHRONODE_EQUILIBRIUM(float, f32)
CHRONODE_EQUILIBRIUM(double, f64)
