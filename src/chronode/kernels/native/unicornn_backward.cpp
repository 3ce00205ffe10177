// UnICORNN's backward pass, chunk after chunk from the end; unicornn.h tells how it is blocked.
//
// The adjoint of a chunk needs the states before the chunk and tanh(w y + u) of every step in it. Where the states were
// kept, the chunk is stepped forward from them (without a matrix product if tanh(w y + u) was kept, too). Between kept
// states it goes back by the recurrence's inverse, bottom layer up (a layer's u needs the output of the layer below), as
// far as that is safe (unicornn_inverse.h). Before the first chunk for which it is not, the segment is run forward once
// more from its kept state, and what a chunk begins with is stored for all chunks so far.
#include "unicornn_inverse.h"

namespace chronode {
namespace unicornn {
namespace {

// What comes from above: gradients of the outputs (null: zero), and what the forward pass kept.
template <class T>
struct Incoming {
  Sequence<const T> grad_ys;
  const T *grad_yn, *grad_zn;  // (layers, batch, hidden)
  Kept<T> kept;
  Anchors<T> anchors;
};

template <class T>
struct Gradients {
  Sequence<T> dx, d_dt;  // null: not wanted
  T *dy0, *dz0;          // (layers, batch, hidden)
  T* parameters;         // vt, b, w, e, one after another
};

// Where the parameters' gradients lie in a block's sums.
struct Places {
  int64_t b, w, e, count;
  explicit Places(const Shape& shape) : b(shape.weights_before(shape.layers)) {
    w = b + shape.layers * shape.hidden;
    e = w + shape.layers * shape.hidden;
    count = e + shape.layers * shape.hidden;
  }
};

template <class T>
class BackwardSpace : public Workspace<T> {
 public:
  explicit BackwardSpace(const Inputs<T>& in)
      : Workspace<T>(in),
        scratch(std::max(in.shape.inputs, in.shape.hidden)),
        slab_(this->most_rows * std::max(this->stride, this->level_stride(0))),
        samples_(in.shape.most_samples() * this->stride),
        ring_(in.shape.residual + 2),
        du_(in.shape.layers * slab_),
        grads_(ring_ * slab_),
        gradients_(2 * in.shape.layers * samples_),
        time_(this->most_rows * Vec<T>::kLanes),
        trace_(Adjoint<T>::trace_size(this->most_rows, in.shape.most_samples())) {}

  T* du(int64_t layer) { return du_.data() + layer * slab_; }
  // The gradient of a level. A layer writes to its own level and the skipped one, so the levels above are free again.
  T* grad(int64_t level) { return grads_.data() + level % ring_ * slab_; }
  T* dy(int64_t layer) { return gradients_.data() + layer * samples_; }
  T* dz(int64_t layer) { return dy(this->in.shape.layers + layer); }
  T* time() { return time_.data(); }  // gradients of dt, a vector for each row
  T* trace() { return trace_.data(); }

  // A stack of states of the block.
  bool has_states() const { return !stored_.empty(); }
  void push_states() { stored_.insert(stored_.end(), this->states().data(), this->states().data() + states_size()); }
  void load_top_states() { std::copy(stored_.end() - states_size(), stored_.end(), this->states().data()); }
  void pop_states() { stored_.resize(stored_.size() - static_cast<size_t>(states_size())); }

  GradientScratch<T> scratch;

 private:
  int64_t states_size() { return this->states().size(); }

  int64_t slab_, samples_, ring_;
  Buffer<T> du_, grads_, gradients_, time_, trace_;
  std::vector<T> stored_;
};

template <class T>
class BackwardBlock {
 public:
  BackwardBlock(BackwardSpace<T>& space, const std::vector<LayerProduct<T>>& up,
                const std::vector<LayerProduct<T>>& down, const Incoming<T>& incoming, const Gradients<T>& out, T* sums)
      : space_(space),
        in_(space.in),
        shape_(in_.shape),
        up_(up),
        down_(down),
        incoming_(incoming),
        out_(out),
        chunks_(shape_, in_.lengths, space.chunk.begin, space.chunk.samples),
        inverse_(space),
        sums_(sums) {}

  void run() {
    Chunk<T>& chunk = space_.chunk;
    for (int64_t l = 0; l < shape_.layers; ++l) {
      space_.load(incoming_.grad_yn, l, space_.dy(l));
      space_.load(incoming_.grad_zn, l, space_.dz(l));
    }
    for (int64_t c = chunks_.count - 1; c >= 0; --c) {
      enter(c);
      go_back(c);
      adjoint_chunk();
      add_weight_gradients();
      if (out_.dx.data != nullptr) chunk.scatter(space_.grad(0), space_.level_stride(0), shape_.inputs, out_.dx);
      if (out_.d_dt.data != nullptr) write_time_gradients();
    }
    for (int64_t l = 0; l < shape_.layers; ++l) {
      space_.save(space_.dy(l), l, out_.dy0);
      space_.save(space_.dz(l), l, out_.dz0);
    }
  }

 private:
  void enter(int64_t c) {
    space_.chunk.move_to(chunks_.first(c), chunks_.length(c), in_.dt, in_.lengths);
    space_.chunk.gather(in_.x, shape_.inputs, space_.level(0), space_.level_stride(0));
  }

  // From the states after the chunk to those before it; tanh(w y + u), if it was not kept, goes where du will overwrite
  // it.
  void go_back(int64_t c) {
    if (incoming_.anchors.states(shape_, chunks_, c) == nullptr && !space_.has_states()) {
      if (inverse_.is_safe(space_.chunk)) {
        restore_chunk();
        if (inverse_.kept_digits(space_)) return;
      }
      store_states(c);
      enter(c);
    }
    load_states_before(c);
    if (incoming_.kept.data == nullptr) {
      space_.advance_layers(up_, [&](int64_t l) { return space_.du(l); }, space_.stride, true);
      load_states_before(c);
    }
    inverse_.begin(space_);
    if (incoming_.anchors.states(shape_, chunks_, c) == nullptr) space_.pop_states();
  }

  void restore_chunk() {
    for (int64_t l = 0; l < shape_.layers; ++l) {
      space_.project_level(l, up_[static_cast<size_t>(l)], space_.du(l), space_.stride);
      restore(space_.chunk, space_.oscillators(l), space_.y(l), space_.z(l), space_.du(l), space_.level(l + 1));
    }
  }

  // Stores the states before every chunk of the segment up to this one, but for the first, whose states were kept: in
  // the order of time, so that each is on top when the way back comes to its chunk.
  void store_states(int64_t last) {
    int64_t c = incoming_.anchors.segment(chunks_, last);
    load_states_before(c);
    while (c < last) {
      enter(c);
      space_.advance_layers(up_, [&](int64_t) { return space_.du(0); }, space_.stride, false);
      space_.push_states();
      ++c;
    }
  }

  void load_states_before(int64_t c) {
    const T* const y = incoming_.anchors.states(shape_, chunks_, c);
    if (y == nullptr) space_.load_top_states();
    else space_.load_states(y, y + shape_.state_size());
  }

  void adjoint_chunk() {
    const Chunk<T>& chunk = space_.chunk;
    T* const top = space_.grad(shape_.layers);
    std::fill_n(top, chunk.rows() * space_.stride, T(0));
    if (incoming_.grad_ys.data != nullptr) chunk.gather(incoming_.grad_ys, shape_.hidden, top, space_.stride);
    if (out_.d_dt.data != nullptr) std::fill_n(space_.time(), chunk.rows() * Vec<T>::kLanes, T(0));
    const Places places(shape_);
    for (int64_t l = shape_.layers - 1; l >= 0; --l) {
      const bool kept = incoming_.kept.data != nullptr;
      T* const sums = sums_ + l * shape_.hidden;
      const Adjoint<T> a{space_.y(l), space_.z(l), space_.dy(l), space_.dz(l),
                         kept ? incoming_.kept.slab(shape_, chunk, l) : space_.du(l),
                         kept ? incoming_.kept.stride : space_.stride,
                         kept ? -chunk.rows() * incoming_.kept.stride : 0,
                         space_.grad(l + 1), space_.du(l), space_.level(l + 1),
                         sums + places.b, sums + places.w, sums + places.e,
                         out_.d_dt.data != nullptr ? space_.time() : nullptr, space_.trace()};
      adjoint(chunk, space_.oscillators(l), a);
      send_down(l);
    }
  }

  // From the gradient of a layer's u to those of the levels it read.
  void send_down(int64_t layer) {
    const LayerProduct<T>& product = down_[static_cast<size_t>(layer)];
    const int64_t skipped = layer - shape_.residual;
    if (shape_.skips(layer) && wanted(skipped)) multiply(layer, product.skip, skipped, project<T>);
    if (!wanted(layer)) return;
    // The layer that skips from this level came first, if there is one.
    const bool second = shape_.residual > 0 && layer + shape_.residual < shape_.layers;
    multiply(layer, product.direct, layer, second ? project_add<T> : project<T>);
  }
  bool wanted(int64_t level) const { return level > 0 || out_.dx.data != nullptr; }
  template <class Product>
  void multiply(int64_t layer, const PackedMatrix<T>& w, int64_t level, Product product) {
    product(space_.du(layer), space_.stride, space_.chunk.rows(), w, space_.grad(level), space_.level_stride(level));
  }

  void add_weight_gradients() {
    for (int64_t l = 0; l < shape_.layers; ++l) {
      T* const sums = sums_ + shape_.weights_before(l);
      add_products(l, l, sums);
      if (shape_.skips(l)) add_products(l, l - shape_.residual, sums + shape_.features(l) * shape_.hidden);
    }
  }
  void add_products(int64_t layer, int64_t level, T* sums) {
    gemm_gradient(space_.level(level), space_.level_stride(level), space_.du(layer), space_.stride, space_.chunk.rows(),
                  shape_.features(level), shape_.hidden, sums, shape_.hidden, space_.scratch);
  }

  void write_time_gradients() {
    const Chunk<T>& chunk = space_.chunk;
    for (int64_t t = 0; t < chunk.steps; ++t)
      for (int64_t i = 0; i < chunk.samples; ++i) {
        const T* const row = space_.time() + (t * chunk.samples + i) * Vec<T>::kLanes;
        *out_.d_dt.at(chunk.first + t, chunk.begin + i) = sum(Vec<T>::load(row));
      }
  }

  BackwardSpace<T>& space_;
  const Inputs<T>& in_;
  const Shape& shape_;
  const std::vector<LayerProduct<T>>&up_, &down_;
  const Incoming<T>& incoming_;
  const Gradients<T>& out_;
  const Chunks chunks_;
  Inverse<T> inverse_;
  T* const sums_;
};

template <class T>
void backward(const Inputs<T>& in, const Incoming<T>& incoming, const Gradients<T>& out, int64_t threads) {
  const auto up = incoming.kept.data == nullptr ? Weights<T>::upward(in.shape, in.parameters)
                                                : std::vector<LayerProduct<T>>();
  const auto down = Weights<T>::downward(in.shape, in.parameters);
  const Blocks blocks = in.shape.blocks();
  BlockSums<T> sums(blocks.count, Places(in.shape).count);
  std::vector<BackwardSpace<T>> spaces;
  for (int64_t i = 0; i < std::max<int64_t>(1, threads); ++i) spaces.emplace_back(in);
  parallel_blocks(blocks.count, static_cast<int>(threads), [&](int64_t block, int thread) {
    BackwardSpace<T>& space = spaces[static_cast<size_t>(thread)];
    const T* const y = incoming.anchors.end(in.shape);
    space.enter(blocks.begin(block), blocks.rows(block), y, y + in.shape.state_size());
    BackwardBlock<T>(space, up, down, incoming, out, sums.zeroed(block)).run();
  });
  sums.sum_into(out.parameters, static_cast<int>(threads));
}

template <class T>
void backward_entry(const Arguments<T>& arguments, StridedArray<const T> grad_ys, Array<const T> grad_yn,
                    Array<const T> grad_zn, Array<T> kept, int64_t kept_stride, Array<T> anchors, int64_t anchor_steps,
                    StridedArray<T> dx, StridedArray<T> d_dt, Array<T> dy0, Array<T> dz0, Array<T> parameters,
                    int64_t threads) {
  const Inputs<T> in = arguments.checked();
  const Shape& shape = in.shape;
  if (grad_ys.given()) grad_ys.check("the gradient of ys", shape, shape.hidden);
  allow_array("the gradient of yn", grad_yn, {shape.layers, shape.batch, shape.hidden});
  allow_array("the gradient of zn", grad_zn, {shape.layers, shape.batch, shape.hidden});
  if (dx.given()) dx.check("dx", shape, shape.inputs, true);
  if (d_dt.given()) d_dt.check("d_dt", shape, 1, true);
  arguments.require_states("dy0", dy0);
  arguments.require_states("dz0", dz0);
  require_array("the gradients of the parameters", parameters, {Places(shape).count});
  const Incoming<T> incoming{grad_ys.sequence(), grad_yn, grad_zn, checked_kept(shape, kept, kept_stride),
                             required_anchors(shape, anchors, anchor_steps)};
  if (incoming.kept.data != nullptr)  // then every chunk begins with states that were kept, too
    require_between("anchor_steps", anchor_steps, 1, shape.chunk_steps(shape.most_samples()));
  backward<T>(in, incoming, {dx.sequence(), d_dt.sequence(), dy0, dz0, parameters}, require_threads(threads));
}

}  // namespace
}  // namespace unicornn
}  // namespace chronode

using chronode::Array;

// masks, lengths, kept, grad_ys, dx and d_dt may be null. dx lies as x does, d_dt as dt.
#define CHRONODE_UNICORNN_BACKWARD(T, suffix)                                                                       \
  CHRONODE_EXPORT int chronode_unicornn_backward_##suffix(                                                          \
      Array<const T> x, int64_t x_step, int64_t x_sample, Array<const T> dt, int64_t dt_step, int64_t dt_sample,    \
      Array<const int64_t> lengths, Array<const T> vt, Array<const T> b, Array<const T> w, Array<const T> e,        \
      Array<const T> alpha, Array<const T> masks, Array<const T> grad_ys, int64_t ys_step, int64_t ys_sample,       \
      Array<const T> grad_yn, Array<const T> grad_zn, Array<T> kept, int64_t kept_stride, Array<T> anchors,         \
      int64_t anchor_steps, Array<T> dx, Array<T> d_dt, Array<T> dy0, Array<T> dz0, Array<T> parameters,            \
      int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, int64_t layers, int64_t residual,               \
      CHRONODE_CALL) {                                                                                              \
    return chronode::guarded(failure, [&] {                                                                         \
      chronode::unicornn::backward_entry<T>(                                                                        \
          {{steps, batch, inputs, hidden, layers, residual}, {x, x_step, x_sample}, {dt, dt_step, dt_sample},       \
           lengths, vt, b, w, e, alpha, masks},                                                                     \
          {grad_ys, ys_step, ys_sample}, grad_yn, grad_zn, kept, kept_stride, anchors, anchor_steps,                \
          {dx, x_step, x_sample}, {d_dt, dt_step, dt_sample}, dy0, dz0, parameters, threads);                       \
    });                                                                                                             \
  }

CHRONODE_UNICORNN_BACKWARD(float, f32)
CHRONODE_UNICORNN_BACKWARD(double, f64)
