// IndRNN and SRU: the loops over time, and the C functions. See elementwise.h for the algorithm.
#include "elementwise.h"
#include "entry.h"

namespace chronode {
namespace elementwise {
namespace {

// states: (steps, batch, hidden) or null, 0 at padding as y; h_end: (batch, hidden).
template <class Model, class T>
void forward_block(const Problem<T>& p, const SampleBlock& block, T* states, Outputs<T> outputs, T* h_end) {
  using V = Vec<T>;
  const int64_t H = p.hidden, width = Model::kShares * H;
  Buffer<T> state(block.rows * H);
  block.gather(p.h0, H, block.rows, state.data(), H);
  for (int64_t n = 0; n < block.steps(); ++n) {
    const int64_t active = block.active(n);
    for (int64_t row = 0; row < active; ++row) {
      const int64_t at = n * p.batch + block.samples[row];
      const T* a = p.a + at * width;
      T *h = state.data() + row * H, *kept = states == nullptr ? nullptr : states + at * H;
      T* y = outputs.row(block, n, row, H);
      for_vectors<T>(H, [&](int64_t i, int lanes) CHRONODE_LAMBDA_INLINE {
        const Model model(p, i, lanes);
        const V before = V::load(h + i, lanes), after = model.next(a + i, before, lanes);
        after.store(h + i, lanes);
        if (kept != nullptr) after.store(kept + i, lanes);
        if (Model::kHasOutput && y != nullptr) model.output(a + i, before, after, lanes).store(y + i, lanes);
      });
    }
  }
  if (states != nullptr) block.clear_padding(states, p.steps, H);
  if (outputs.y != nullptr && !outputs.last) block.clear_padding(outputs.y, p.steps, H);
  block.scatter(state.data(), H, H, block.rows, h_end);
}

template <class Model, class T>
void forward(const Problem<T>& p, T* states, Outputs<T> outputs, T* h_end, int threads) {
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  parallel_blocks(blocks.count(), threads,
                  [&](int64_t block, int) { forward_block<Model>(p, blocks[block], states, outputs, h_end); });
}

// What the backward is given (states, and gradients or null) and what it writes.
template <class T>
struct Gradients {
  const T* states;
  Outputs<const T> y;
  const T* h_end;
  T *a, *h0, *weights;
};

template <class Model, class T>
void backward_block(const Problem<T>& p, const SampleBlock& block, const Gradients<T>& grad, T* dweights) {
  using V = Vec<T>;
  const int64_t H = p.hidden, width = Model::kShares * H;
  Buffer<T> state(block.rows * H);
  if (grad.h_end == nullptr) state.clear();
  else block.gather(grad.h_end, H, block.rows, state.data(), H);
  for (int64_t n = block.steps() - 1; n >= 0; --n) {
    const int64_t active = block.active(n);
    for (int64_t row = 0; row < active; ++row) {
      const int64_t at = n * p.batch + block.samples[row];
      const T *a = p.a + at * width, *after = grad.states + at * H;
      const T* before = n == 0 ? p.h0 + block.samples[row] * H : after - p.batch * H;
      const T* grad_y = grad.y.row(block, n, row, H);
      T *da = grad.a + at * width, *dh = state.data() + row * H;
      for_vectors<T>(H, [&](int64_t i, int lanes) CHRONODE_LAMBDA_INLINE {
        const Model model(p, i, lanes);
        V grad_after = V::load(dh + i, lanes);
        model.back(a + i, V::load(before + i, lanes), V::load(after + i, lanes),
                   grad_y == nullptr ? nullptr : grad_y + i, grad_after, da + i, dweights + i, lanes);
        grad_after.store(dh + i, lanes);
      });
    }
  }
  block.clear_padding(grad.a, p.steps, width);
  block.scatter(state.data(), H, H, block.rows, grad.h0);
}

template <class Model, class T>
void backward(const Problem<T>& p, const Gradients<T>& grad, int threads) {
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  BlockSums<T> sums(blocks.count(), Model::kWeights * p.hidden);
  parallel_blocks(blocks.count(), threads, [&](int64_t block, int) {
    backward_block<Model>(p, blocks[block], grad, sums.zeroed(block));
  });
  sums.sum_into(grad.weights, threads);
}

template <class M>
struct Type {
  using Model = M;
};

// Tensors as in Problem. model: 0 is IndRNN, 1 is SRU, as in kernels/_elementwise.py.
template <class T>
struct Arguments {
  Array<const T> a, h0, weights, scale;
  Array<const int64_t> lengths;
  int64_t steps, batch, hidden, model;

  // f(Problem, Type of the model), after the checks.
  template <class F>
  void with_model(F f) const {
    require_between("model", model, 0, 1);
    if (model == 0) checked(Type<IndRNN<T>>(), f);
    else checked(Type<SRU<T>>(), f);
  }

 private:
  template <class Model, class F>
  void checked(Type<Model> type, F f) const {
    require_array("a", a, {steps, batch, Model::kShares, hidden});
    require_array("h0", h0, {batch, hidden});
    require_array("weights", weights, {Model::kWeights, hidden});
    if (Model::kHasOutput) require_array("scale", scale, {1});
    allow_lengths(lengths, steps, batch);
    f(Problem<T>{a, h0, weights, scale, lengths, steps, batch, hidden}, type);
  }
};

// IndRNN's outputs are its states: its forward takes no y, and its grad_y is the gradient of the states.
template <class T>
void forward_entry(const Arguments<T>& in, Array<T> states, Array<T> y, bool last, Array<T> h_end, int64_t threads) {
  in.with_model([&](const Problem<T>& p, auto type) {
    allow_array("states", states, {p.steps, p.batch, p.hidden});
    allow_array("y", y, {last ? 1 : p.steps, p.batch, p.hidden});
    require_array("h_end", h_end, {p.batch, p.hidden});
    forward<typename decltype(type)::Model, T>(p, states, {y, last}, h_end, require_threads(threads));
  });
}

template <class T>
void backward_entry(const Arguments<T>& in, Array<const T> states, Array<const T> grad_y, bool last,
                    Array<const T> grad_h_end, Array<T> da, Array<T> dh0, Array<T> dweights, int64_t threads) {
  in.with_model([&](const Problem<T>& p, auto type) {
    using Model = typename decltype(type)::Model;
    require_array("states", states, {p.steps, p.batch, p.hidden});
    allow_array("the gradient of y", grad_y, {last ? 1 : p.steps, p.batch, p.hidden});
    allow_array("the gradient of h_end", grad_h_end, {p.batch, p.hidden});
    require_array("da", da, {p.steps, p.batch, Model::kShares, p.hidden});
    require_array("dh0", dh0, {p.batch, p.hidden});
    require_array("dweights", dweights, {Model::kWeights, p.hidden});
    backward<Model, T>(p, {states, {grad_y, last}, grad_h_end, da, dh0, dweights}, require_threads(threads));
  });
}

}  // namespace
}  // namespace elementwise
}  // namespace chronode

using chronode::Array;

#define CHRONODE_ELEMENTWISE_INPUTS(T)                                                                             \
  Array<const T> a, Array<const T> h0, Array<const T> weights, Array<const T> scale, Array<const int64_t> lengths, \
      int64_t steps, int64_t batch, int64_t hidden, int64_t model

#define CHRONODE_ELEMENTWISE(T, suffix)                                                                            \
  CHRONODE_EXPORT int chronode_elementwise_forward_##suffix(CHRONODE_ELEMENTWISE_INPUTS(T), Array<T> states,       \
                                                            Array<T> y, int64_t last, Array<T> h_end,              \
                                                            CHRONODE_CALL) {                                       \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::elementwise::forward_entry<T>({a, h0, weights, scale, lengths, steps, batch, hidden, model},       \
                                              states, y, last != 0, h_end, threads);                               \
    });                                                                                                            \
  }                                                                                                                \
  CHRONODE_EXPORT int chronode_elementwise_backward_##suffix(                                                      \
      CHRONODE_ELEMENTWISE_INPUTS(T), Array<const T> states, Array<const T> grad_y, int64_t last,                  \
      Array<const T> grad_h_end, Array<T> da, Array<T> dh0, Array<T> dweights, CHRONODE_CALL) {                    \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::elementwise::backward_entry<T>({a, h0, weights, scale, lengths, steps, batch, hidden, model},      \
                                               states, grad_y, last != 0, grad_h_end, da, dh0, dweights, threads); \
    });                                                                                                            \
  }

CHRONODE_ELEMENTWISE(float, f32)
CHRONODE_ELEMENTWISE(double, f64)
