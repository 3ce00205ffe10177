// iRNN and ERNN: the forward and the C functions. See equilibrium.h for the algorithm.
#include "entry.h"
#include "equilibrium_backward.h"

namespace chronode {
namespace equilibrium {
namespace {

// y: (steps, batch, hidden) or null; h_end: (batch, hidden).
template <class Phi, class T>
void forward_block(const Problem<T>& p, const Weights<T>& w, const SampleBlock& block, T* y, T* h_end) {
  const int64_t H = p.hidden;
  Buffer<T> x(block.rows * p.inputs), h(block.rows * H), q(block.rows * H), other(block.rows * H);
  Buffer<T> z(block.rows * p.rank), etas(p.K * block.rows);
  Recursion<T> now(block.rows * H);
  block.gather(p.h0, H, block.rows, h.data(), H);
  for (int64_t n = 0; n < block.steps(); ++n) {
    const int64_t active = block.active(n);
    block.gather(p.x + n * p.batch * p.inputs, p.inputs, active, x.data(), p.inputs);
    gemm(x.data(), p.inputs, active, w.input, now.c.data(), H);
    read_etas(p, block, n, active, etas.data());
    now.begin(p, active, h.data(), q.data());
    for (int64_t k = 0; k < p.K; ++k) {
      advance<Phi>(p, w, active, etas.data() + k * block.rows, q.data(), now, z.data(), static_cast<T*>(nullptr),
                   other.data());
      std::swap(q, other);
    }
    std::copy_n(now.g.data(), active * H, h.data());
    if (y != nullptr) block.scatter(h.data(), H, H, active, y + n * p.batch * H);
  }
  if (y != nullptr) block.clear_padding(y, p.steps, H);
  block.scatter(h.data(), H, H, block.rows, h_end);
}

template <class Phi, class T>
void forward(const Problem<T>& p, T* y, T* h_end, int threads, WeightCache* cache) {
  const auto weights = packed_once<Weights<T>>(p, cache);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  parallel_blocks(blocks.count(), threads,
                  [&](int64_t block, int) { forward_block<Phi>(p, *weights, blocks[block], y, h_end); });
}

// The inputs of both functions, as in Problem; gamma and sign have one element.
template <class T>
struct Arguments {
  Array<const T> x, h0, count, weight, bias, up, down, eta, gamma, sign;
  Array<const int64_t> lengths;
  int64_t steps, batch, inputs, hidden, rank, K, eta_steps, from_previous, activation;

  Problem<T> checked() const {
    require_array("x", x, {steps, batch, inputs});
    require_array("h0", h0, {batch, hidden});
    allow_array("count", count, {batch});
    if (eta_steps > 1) require_array("count", count, {batch});
    require_array("weight", weight, {hidden, inputs});
    require_array("bias", bias, {hidden});
    require_array("up", up, {hidden, rank});
    allow_array("down", down, {hidden, rank});
    if (down.data == nullptr) require_between("the rank of a full matrix", rank, hidden, hidden);
    require_array("eta", eta, {K, eta_steps});
    require_array("gamma", gamma, {1});
    require_array("sign", sign, {1});
    allow_lengths(lengths, steps, batch);
    return {x,     h0,    count,  weight, bias, up, down,      eta,
            *gamma, *sign, lengths, steps, batch, inputs, hidden, rank, K, eta_steps, from_previous != 0};
  }

  // f(Phi); kernels/_equilibrium.py has the same order.
  template <class F>
  void with_activation(F f) const {
    require_between("activation", activation, 0, 2);
    if (activation == 0) f(Relu());
    else if (activation == 1) f(Tanh());
    else f(Sigmoid());
  }
};

template <class T>
void forward_entry(const Arguments<T>& in, Array<T> y, Array<T> h_end, int64_t threads, WeightCache* cache) {
  const Problem<T> p = in.checked();
  allow_array("y", y, {p.steps, p.batch, p.hidden});
  require_array("h_end", h_end, {p.batch, p.hidden});
  in.with_activation([&](auto phi) { forward<decltype(phi), T>(p, y, h_end, require_threads(threads), cache); });
}

template <class T>
void backward_entry(const Arguments<T>& in, Array<const T> y, Array<const T> grad_y, Array<const T> grad_h,
                    Array<T> dx, Array<T> dh0, Array<T> dweight, Array<T> dbias, Array<T> dup, Array<T> ddown,
                    Array<T> deta, int64_t threads) {
  const Problem<T> p = in.checked();
  require_array("y", y, {p.steps, p.batch, p.hidden});
  allow_array("the gradient of y", grad_y, {p.steps, p.batch, p.hidden});
  allow_array("the gradient of h_end", grad_h, {p.batch, p.hidden});
  allow_array("dx", dx, {p.steps, p.batch, p.inputs});
  require_array("dh0", dh0, {p.batch, p.hidden});
  require_array("dweight", dweight, {p.hidden, p.inputs});
  require_array("dbias", dbias, {p.hidden});
  require_array("dup", dup, {p.hidden, p.rank});
  if (p.low_rank()) require_array("ddown", ddown, {p.hidden, p.rank});
  require_array("deta", deta, {p.K, p.eta_steps});
  const Gradients<T> gradients{y, grad_y, grad_h, dx, dh0, dweight, dbias, dup, ddown, deta};
  in.with_activation([&](auto phi) { backward<decltype(phi), T>(p, gradients, require_threads(threads)); });
}

}  // namespace
}  // namespace equilibrium
}  // namespace chronode

using chronode::Array;

#define CHRONODE_EQUILIBRIUM_INPUTS(T)                                                                             \
  Array<const T> x, Array<const T> h0, Array<const T> count, Array<const T> weight, Array<const T> bias,           \
      Array<const T> up, Array<const T> down, Array<const T> eta, Array<const T> gamma, Array<const T> sign,       \
      Array<const int64_t> lengths, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, int64_t rank,    \
      int64_t K, int64_t eta_steps, int64_t from_previous, int64_t activation

#define CHRONODE_EQUILIBRIUM_ARGUMENTS                                                                             \
  {                                                                                                                \
    x, h0, count, weight, bias, up, down, eta, gamma, sign, lengths, steps, batch, inputs, hidden, rank, K,        \
        eta_steps, from_previous, activation                                                                       \
  }

#define CHRONODE_EQUILIBRIUM(T, suffix)                                                                            \
  CHRONODE_EXPORT int chronode_equilibrium_forward_##suffix(CHRONODE_EQUILIBRIUM_INPUTS(T), Array<T> y,            \
                                                            Array<T> h_end, CHRONODE_CALL) {                       \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::equilibrium::forward_entry<T>(CHRONODE_EQUILIBRIUM_ARGUMENTS, y, h_end, threads, cache);           \
    });                                                                                                            \
  }                                                                                                                \
  CHRONODE_EXPORT int chronode_equilibrium_backward_##suffix(                                                      \
      CHRONODE_EQUILIBRIUM_INPUTS(T), Array<const T> y, Array<const T> grad_y, Array<const T> grad_h, Array<T> dx, \
      Array<T> dh0, Array<T> dweight, Array<T> dbias, Array<T> dup, Array<T> ddown, Array<T> deta,                 \
      CHRONODE_CALL) {                                                                                             \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::equilibrium::backward_entry<T>(CHRONODE_EQUILIBRIUM_ARGUMENTS, y, grad_y, grad_h, dx, dh0,         \
                                               dweight, dbias, dup, ddown, deta, threads);                         \
    });                                                                                                            \
  }

CHRONODE_EQUILIBRIUM(float, f32)
CHRONODE_EQUILIBRIUM(double, f64)
