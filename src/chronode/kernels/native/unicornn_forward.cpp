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
    const auto slab = [&](int64_t l) { return keep ? out.kept.slab(in.shape, chunk, l) : scratch; };
    space.advance_layers(products, slab, keep ? out.kept.stride : space.stride, keep);
    if (out.ys.data != nullptr)
      chunk.scatter(space.level(in.shape.layers), space.stride, in.shape.hidden, out.ys);
  }
  space.save_states(out.yn, out.zn);
  if (out.anchors.data != nullptr) {
    T* const y = out.anchors.end(in.shape);
    space.save_states(y, y + in.shape.state_size());
  }
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

template <class T>
void forward_entry(const Arguments<T>& arguments, Array<const T> y0, Array<const T> z0, StridedArray<T> ys, Array<T> yn,
                   Array<T> zn, Array<T> kept, int64_t kept_stride, Array<T> anchors, int64_t anchor_steps,
                   int64_t threads) {
  const Inputs<T> in = arguments.checked();
  arguments.require_states("y0", y0);
  arguments.require_states("z0", z0);
  arguments.require_states("yn", yn);
  arguments.require_states("zn", zn);
  if (ys.given()) ys.check("ys", in.shape, in.shape.hidden, true);
  const Outputs<T> out{ys.sequence(), yn, zn, checked_kept(in.shape, kept, kept_stride),
                       allowed_anchors(in.shape, anchors, anchor_steps)};
  forward<T>(in, y0, z0, out, require_threads(threads));
}

}  // namespace
}  // namespace unicornn
}  // namespace chronode

using chronode::Array;

// ys, masks, lengths, kept and anchors may be null. Strides are in elements.
#define CHRONODE_UNICORNN_FORWARD(T, suffix)                                                                        \
  CHRONODE_EXPORT int chronode_unicornn_forward_##suffix(                                                           \
      Array<const T> x, int64_t x_step, int64_t x_sample, Array<const T> dt, int64_t dt_step, int64_t dt_sample,    \
      Array<const int64_t> lengths, Array<const T> y0, Array<const T> z0, Array<const T> vt, Array<const T> b,      \
      Array<const T> w, Array<const T> e, Array<const T> alpha, Array<const T> masks, Array<T> ys, int64_t ys_step, \
      int64_t ys_sample, Array<T> yn, Array<T> zn, Array<T> kept, int64_t kept_stride, Array<T> anchors,            \
      int64_t anchor_steps, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, int64_t layers,           \
      int64_t residual, CHRONODE_CALL) {                                                                            \
    return chronode::guarded(failure, [&] {                                                                         \
      chronode::unicornn::forward_entry<T>(                                                                         \
          {{steps, batch, inputs, hidden, layers, residual}, {x, x_step, x_sample}, {dt, dt_step, dt_sample},       \
           lengths, vt, b, w, e, alpha, masks},                                                                     \
          y0, z0, {ys, ys_step, ys_sample}, yn, zn, kept, kept_stride, anchors, anchor_steps, threads);             \
    });                                                                                                             \
  }

CHRONODE_UNICORNN_FORWARD(float, f32)
CHRONODE_UNICORNN_FORWARD(double, f64)
