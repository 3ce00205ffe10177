// UnICORNN's forward pass; unicornn.h tells how it is blocked.
#include "unicornn.h"

namespace chronode {
namespace unicornn {
namespace {

template <class T>
struct Outputs {
  Sequence<T> ys;   // the last layer's output at every step, or null
  T *yn, *zn;       // (layers, batch, hidden)
  Kept<T> kept;
  Anchors<T> anchors;
};

template <class T>
void run_block(Workspace<T>& space, T* scratch, const std::vector<LayerProduct<T>>& products, const Outputs<T>& out) {
  const Inputs<T>& in = space.in;
  Chunk<T>& chunk = space.chunk;
  const Chunks chunks(in.shape, in.lengths, chunk.begin, chunk.samples);
  const bool keep = out.kept.data != nullptr;
  for (int64_t c = 0; c < chunks.count; ++c) {
    if (T* const y = out.anchors.states(in.shape, chunks, c)) space.save_states(y, y + in.shape.state_size());
    chunk.move_to(chunks.first(c), chunks.length(c), in.dt, in.lengths);
    chunk.gather(in.x, in.shape.inputs, space.level(0), space.level_stride(0));
    for (int64_t l = 0; l < in.shape.layers; ++l) {
      T* const u = keep ? out.kept.slab(in.shape, chunk, l) : scratch;
      const int64_t u_stride = keep ? out.kept.stride : space.stride;
      space.project_level(l, products[static_cast<size_t>(l)], u, u_stride);
      advance(chunk, space.oscillators(l), space.y(l), space.z(l), u, u_stride, keep, space.level(l + 1));
    }
    if (out.ys.data != nullptr)
      chunk.scatter(space.level(in.shape.layers), space.stride, in.shape.hidden, out.ys);
  }
  space.save_states(out.yn, out.zn);
}

template <class T>
void forward(const Inputs<T>& in, const T* y0, const T* z0, const Outputs<T>& out, int64_t threads) {
  const auto products = Weights<T>::upward(in.shape, in.parameters);
  const Blocks blocks = in.shape.blocks();
  std::vector<Workspace<T>> spaces;
  std::vector<Buffer<T>> scratch;
  for (int64_t i = 0; i < std::max<int64_t>(1, threads); ++i) {
    spaces.emplace_back(in);
    scratch.emplace_back(spaces.back().most_rows * spaces.back().stride);
  }
  parallel_blocks(blocks.count, static_cast<int>(threads), [&](int64_t block, int thread) {
    Workspace<T>& space = spaces[static_cast<size_t>(thread)];
    space.enter(blocks.begin(block), blocks.rows(block), y0, z0);
    run_block(space, scratch[static_cast<size_t>(thread)].data(), products, out);
  });
}

}  // namespace
}  // namespace unicornn
}  // namespace chronode

// ys, masks, lengths, kept and anchors may be null. Strides are in elements.
#define CHRONODE_UNICORNN_FORWARD(T, suffix)                                                                        \
  CHRONODE_EXPORT void chronode_unicornn_forward_##suffix(                                                          \
      const T* x, int64_t x_step, int64_t x_sample, const T* dt, int64_t dt_step, int64_t dt_sample,                \
      const int64_t* lengths, const T* y0, const T* z0, const T* vt, const T* b, const T* w, const T* e,            \
      const T* alpha, const T* masks, T* ys, int64_t ys_step, int64_t ys_sample, T* yn, T* zn, T* kept,             \
      int64_t kept_stride, T* anchors, int64_t anchor_steps, int64_t steps, int64_t batch, int64_t inputs,          \
      int64_t hidden, int64_t layers, int64_t residual, int64_t threads) {                                          \
    using namespace chronode::unicornn;                                                                             \
    const Inputs<T> in{{steps, batch, inputs, hidden, layers, residual}, {x, x_step, x_sample},                     \
                       {dt, dt_step, dt_sample}, lengths, {vt, b, w, e, alpha}, masks};                             \
    const Outputs<T> out{{ys, ys_step, ys_sample}, yn, zn, {kept, kept_stride}, {anchors, anchor_steps}};           \
    forward<T>(in, y0, z0, out, threads);                                                                           \
  }

CHRONODE_UNICORNN_FORWARD(float, f32)
CHRONODE_UNICORNN_FORWARD(double, f64)
