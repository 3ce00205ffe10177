// UnICORNN, a whole stack of layers: what the forward and the backward pass share.
//
//   u  = V x + b,   x the layer below (with skips also a layer further down)        matrix product over a chunk of time
//   s  = e dt
//   z' = z - s [tanh(w y + u) + alpha y],   y' = y + s z'                             element by element, step by step
//
// Blocking. A block is a few samples, run through all of time by one thread. Time is cut into chunks of about 96 rows
// (steps x samples): a chunk goes through all layers before the next one, so that everything it needs stays in L2. In a
// chunk's matrices ("slabs") a row is one step of one sample, samples of a step next to each other; a "level" is what a
// layer reads: level 0 the input, level l + 1 the output of layer l.
#pragma once

#include <vector>

#include "entry.h"
#include "gemm.h"
#include "unicornn_chunk.h"
#include "unicornn_steps.h"

namespace chronode {
namespace unicornn {

// The layers' parameters as the caller has them.
template <class T>
struct Parameters {
  const T* vt;               // per layer V transposed, (fan in, hidden): first what meets the layer below
  const T *b, *w, *e;        // (layers, hidden)
  const T* alpha;            // (layers)
};

// The product with a layer's input matrix: `direct` meets the level below, `skip` the level further down.
template <class T>
struct LayerProduct {
  PackedMatrix<T> direct, skip;
};

template <class T>
class Weights {
 public:
  // u of a layer from its levels.
  static std::vector<LayerProduct<T>> upward(const Shape& shape, const Parameters<T>& p) {
    const int64_t h = shape.hidden;
    return packed(shape, p, [&](const T* vt, int64_t features, const T* bias) {
      return PackedMatrix<T>::pack(vt, h, features, h, bias);
    });
  }
  // Gradients of a layer's levels from that of u.
  static std::vector<LayerProduct<T>> downward(const Shape& shape, const Parameters<T>& p) {
    const int64_t h = shape.hidden;
    return packed(shape, p, [&](const T* vt, int64_t features, const T*) {
      return PackedMatrix<T>::pack_transposed(vt, h, h, features);
    });
  }

 private:
  template <class Pack>
  static std::vector<LayerProduct<T>> packed(const Shape& shape, const Parameters<T>& p, Pack pack) {
    std::vector<LayerProduct<T>> layers(static_cast<size_t>(shape.layers));
    for (int64_t l = 0; l < shape.layers; ++l) {
      const T* vt = p.vt + shape.weights_before(l);
      const int64_t below = shape.features(l);
      LayerProduct<T>& layer = layers[static_cast<size_t>(l)];
      layer.direct = pack(vt, below, p.b + l * shape.hidden);
      if (shape.skips(l)) layer.skip = pack(vt + below * shape.hidden, shape.features(l - shape.residual), nullptr);
    }
    return layers;
  }
};

// C = A W + bias, whole vectors: the padding of a slab's rows is written too, with zeros.
template <class T>
void project(const T* a, int64_t a_stride, int64_t rows, const PackedMatrix<T>& w, T* c, int64_t c_stride) {
  gemm_emit(a, a_stride, rows, w, [=](int64_t row, int64_t column, Vec<T> values, int) CHRONODE_LAMBDA_INLINE {
    values.store(c + row * c_stride + column);
  });
}
template <class T>
void project_add(const T* a, int64_t a_stride, int64_t rows, const PackedMatrix<T>& w, T* c, int64_t c_stride) {
  gemm_emit(a, a_stride, rows, w, [=](int64_t row, int64_t column, Vec<T> values, int) CHRONODE_LAMBDA_INLINE {
    T* out = c + row * c_stride + column;
    (Vec<T>::load(out) + values).store(out);
  });
}

// tanh(w y + u) of all layers and steps, kept from the forward for the backward pass; null: it will be restored.
// A slab of (rows x stride) for each block, chunk and layer, in this order.
template <class T>
struct Kept {
  T* data;
  int64_t stride;
  T* slab(const Shape& shape, const Chunk<T>& chunk, int64_t layer) const {
    const int64_t before = (chunk.begin * shape.steps + chunk.first * chunk.samples) * shape.layers;
    return data + (before + layer * chunk.rows()) * stride;
  }
};

// States of all layers at the beginning of every segment of about `steps` steps, and at the end: where the backward
// pass begins, and from where it can step forward again. null: there are none.
template <class T>
struct Anchors {
  T* data;        // (all steps / steps, rounded up, + 1; 2; layers; batch; hidden)
  int64_t steps;

  // Where the states at the beginning of a chunk are, y first; null: it does not begin a segment.
  T* states(const Shape& shape, const Chunks& chunks, int64_t chunk) const {
    if (data == nullptr || chunk != segment(chunks, chunk)) return nullptr;
    return data + chunk / every(chunks) * 2 * shape.state_size();
  }
  T* end(const Shape& shape) const { return data + (shape.steps + steps - 1) / steps * 2 * shape.state_size(); }
  // The chunk that begins the segment of a chunk.
  int64_t segment(const Chunks& chunks, int64_t chunk) const { return chunk - chunk % every(chunks); }

 private:
  int64_t every(const Chunks& chunks) const { return (steps + chunks.size - 1) / chunks.size; }
};

// The outside of both passes: everything the caller passes in that both read.
template <class T>
struct Inputs {
  Shape shape;
  Sequence<const T> x, dt;
  const int64_t* lengths;  // null: all full
  Parameters<T> parameters;
  const T* masks;          // (layers, batch, hidden), or null
};

// An array of steps and samples in memory, as its caller describes it; strides in elements.
template <class T>
struct StridedArray {
  Array<T> array;
  int64_t step_stride, sample_stride;

  bool given() const { return array.data != nullptr || array.bytes != 0; }
  Sequence<T> sequence() const { return {array.data, step_stride, sample_stride}; }

  // The array ends with the last element that the strides reach. What is written has each element once.
  void check(const char* name, const Shape& shape, int64_t features, bool written = false) const {
    const int64_t count = require_sizes(name, {shape.steps, shape.batch, features});
    require_between("a stride between steps", step_stride, 0, kMostElements / (2 * shape.steps));
    require_between("a stride between samples", sample_stride, 0, kMostElements / (2 * shape.batch));
    const int64_t reached = (shape.steps - 1) * step_stride + (shape.batch - 1) * sample_stride + features;
    require_room(name, array, written ? count : reached);
    if (written) require_room(name, array, reached);
  }
};

// What the caller passes to both passes.
template <class T>
struct Arguments {
  Shape shape;
  StridedArray<const T> x, dt;
  Array<const int64_t> lengths;
  Array<const T> vt, b, w, e, alpha, masks;

  Inputs<T> checked() const {
    require_between("residual", shape.residual, 0, std::max<int64_t>(0, shape.layers - 1));
    x.check("x", shape, shape.inputs);
    dt.check("dt", shape, 1);
    allow_lengths(lengths, shape.steps, shape.batch);
    require_sizes("vt", {shape.layers, 2, std::max(shape.inputs, shape.hidden), shape.hidden});
    require_array("vt", vt, {shape.weights_before(shape.layers)});
    for (auto [name, array] : {std::pair("b", b), std::pair("w", w), std::pair("e", e)})
      require_array(name, array, {shape.layers, shape.hidden});
    require_array("alpha", alpha, {shape.layers});
    allow_array("masks", masks, {shape.layers, shape.batch, shape.hidden});
    return {shape, x.sequence(), dt.sequence(), lengths, {vt, b, w, e, alpha}, masks};
  }
  template <class U>
  void require_states(const char* name, Array<U> array) const {
    require_array(name, array, {shape.layers, shape.batch, shape.hidden});
  }
};

template <class T>
Kept<T> checked_kept(const Shape& shape, Array<T> kept, int64_t stride) {
  if (kept.data == nullptr && kept.bytes == 0) return {nullptr, 0};
  require_between("the row of what is kept", stride, round_up_to_line<T>(shape.hidden), kMostElements);
  require_array("kept", kept, {shape.steps, shape.batch, shape.layers, stride});
  return {kept, stride};
}

template <class T>
Anchors<T> required_anchors(const Shape& shape, Array<T> anchors, int64_t steps) {
  require_between("anchor_steps", steps, 1, shape.steps);
  const int64_t segments = (shape.steps + steps - 1) / steps;
  require_array("anchors", anchors, {segments + 1, 2, shape.layers, shape.batch, shape.hidden});
  return {anchors, steps};
}
template <class T>
Anchors<T> allowed_anchors(const Shape& shape, Array<T> anchors, int64_t steps) {
  if (anchors.data == nullptr && anchors.bytes == 0) return {nullptr, 0};
  return required_anchors(shape, anchors, steps);
}

// Memory of one thread: what both passes need of the block it works on.
template <class T>
class Workspace {
 public:
  explicit Workspace(const Inputs<T>& in)
      : in(in),
        stride(row_stride<T>(in.shape.hidden)),
        most_rows(in.shape.most_rows()),
        samples_stride_(in.shape.most_samples() * stride),
        input_stride_(row_stride<T>(in.shape.inputs)),
        levels_(most_rows * (input_stride_ + in.shape.layers * stride)),
        states_(2 * in.shape.layers * samples_stride_),
        masks_(in.masks == nullptr ? 0 : in.shape.layers * samples_stride_),
        parameters_(2 * in.shape.layers * stride),
        dt_(most_rows),
        valid_(in.shape.most_samples()) {
    const int64_t layers = in.shape.layers, hidden = in.shape.hidden;
    copy_in(in.parameters.w, layers, hidden, parameters_.data(), stride);
    copy_in(in.parameters.e, layers, hidden, parameters_.data() + layers * stride, stride);
    chunk.valid = valid_.data();
    chunk.dt = dt_.data();
  }

  void enter(int64_t begin, int64_t samples, const T* y, const T* z) {
    chunk.begin = begin;
    chunk.samples = samples;
    load_states(y, z);
    if (in.masks == nullptr) return;
    for (int64_t l = 0; l < in.shape.layers; ++l) load(in.masks, l, masks_.data() + l * samples_stride_);
  }
  void load_states(const T* y, const T* z) {
    for (int64_t l = 0; l < in.shape.layers; ++l) {
      load(y, l, this->y(l));
      load(z, l, this->z(l));
    }
  }
  void save_states(T* y, T* z) {
    for (int64_t l = 0; l < in.shape.layers; ++l) {
      save(this->y(l), l, y);
      save(this->z(l), l, z);
    }
  }
  // The block's rows of a layer, from (zeros from null) and to a (layers, batch, hidden) tensor.
  void load(const T* tensor, int64_t layer, T* rows) const {
    if (tensor == nullptr) std::fill_n(rows, chunk.samples * stride, T(0));
    else copy_in(tensor + place(layer), chunk.samples, in.shape.hidden, rows, stride);
  }
  void save(const T* rows, int64_t layer, T* tensor) const {
    copy_out(rows, stride, chunk.samples, in.shape.hidden, tensor + place(layer));
  }

  T* level(int64_t i) { return levels_.data() + (i == 0 ? 0 : most_rows * (input_stride_ + (i - 1) * stride)); }
  int64_t level_stride(int64_t i) const { return i == 0 ? input_stride_ : stride; }
  T* y(int64_t layer) { return states_.data() + layer * samples_stride_; }
  T* z(int64_t layer) { return y(in.shape.layers + layer); }
  Buffer<T>& states() { return states_; }  // y and z of all layers

  Oscillators<T> oscillators(int64_t layer) {
    const T* w = parameters_.data() + layer * stride;
    const T* mask = in.masks == nullptr ? nullptr : masks_.data() + layer * samples_stride_;
    return {in.shape.hidden, stride, w, w + in.shape.layers * stride, in.parameters.alpha[layer], mask};
  }

  // u of a layer for the chunk.
  void project_level(int64_t layer, const LayerProduct<T>& product, T* u, int64_t u_stride) {
    project(level(layer), level_stride(layer), chunk.rows(), product.direct, u, u_stride);
    if (!in.shape.skips(layer)) return;
    const int64_t skipped = layer - in.shape.residual;
    project_add(level(skipped), level_stride(skipped), chunk.rows(), product.skip, u, u_stride);
  }

  // Steps all layers through the chunk; u and, if it is to be kept, tanh(w y + u) of a layer are in `slab(layer)`.
  template <class Slab>
  void advance_layers(const std::vector<LayerProduct<T>>& products, Slab slab, int64_t slab_stride, bool keep) {
    for (int64_t l = 0; l < in.shape.layers; ++l) {
      T* const u = slab(l);
      project_level(l, products[static_cast<size_t>(l)], u, slab_stride);
      advance(chunk, oscillators(l), y(l), z(l), u, slab_stride, keep, level(l + 1));
    }
  }

  const Inputs<T>& in;
  const int64_t stride, most_rows;
  Chunk<T> chunk{};

 private:
  int64_t place(int64_t layer) const { return (layer * in.shape.batch + chunk.begin) * in.shape.hidden; }

  const int64_t samples_stride_, input_stride_;
  Buffer<T> levels_, states_, masks_, parameters_, dt_;
  Buffer<int64_t> valid_;
};

}  // namespace unicornn
}  // namespace chronode
