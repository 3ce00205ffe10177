// UnICORNN: how a batch is cut into blocks of samples and chunks of time, and how its values come into slabs and out.
#pragma once

#include "buffer.h"
#include "pool.h"

namespace chronode {
namespace unicornn {

struct Shape {
  int64_t steps, batch, inputs, hidden, layers, residual;

  int64_t features(int64_t level) const { return level == 0 ? inputs : hidden; }
  bool skips(int64_t layer) const { return residual > 0 && layer >= residual; }
  int64_t fan_in(int64_t layer) const { return features(layer) + (skips(layer) ? features(layer - residual) : 0); }
  int64_t state_size() const { return layers * batch * hidden; }
  int64_t weights_before(int64_t layer) const {
    int64_t count = 0;
    for (int64_t i = 0; i < layer; ++i) count += fan_in(i) * hidden;
    return count;
  }
  // Four samples keep enough independent oscillators in flight; more only to have no more than 64 weight gradients.
  Blocks blocks() const { return {batch, batch <= 8 ? (batch + 1) / 2 : std::max<int64_t>(4, (batch + 63) / 64)}; }
  int64_t most_samples() const { return blocks().rows(0); }
  int64_t chunk_steps(int64_t samples) const { return std::min(steps, std::max<int64_t>(1, kRows / samples)); }
  int64_t most_rows() const { return std::max(kRows, most_samples()); }
  static constexpr int64_t kRows = 96;  // whole tiles of the matrix products, 6 or 8 rows each
};

// Elements between the rows of a slab. Rows a multiple of 512 bytes apart would fall on few sets of the L1 cache.
template <class T>
int64_t row_stride(int64_t features) {
  const int64_t stride = round_up_to_line<T>(features);
  return stride * static_cast<int64_t>(sizeof(T)) % 512 == 0 ? stride + round_up_to_line<T>(1) : stride;
}

// Values of steps and samples outside of the kernel, in whichever order the two axes lie; null: there are none.
template <class T>
struct Sequence {
  T* data;
  int64_t step_stride, sample_stride;
  T* at(int64_t step, int64_t sample) const { return data + step * step_stride + sample * sample_stride; }
};

// Rows of `features` elements, one a layer or a sample, copied to or from a slab; what pads them becomes zero.
template <class T>
void copy_in(const T* from, int64_t count, int64_t features, T* rows, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(from + i * features, features, rows + i * stride);
    std::fill(rows + i * stride + features, rows + (i + 1) * stride, T(0));
  }
}
template <class T>
void copy_out(const T* rows, int64_t stride, int64_t count, int64_t features, T* to) {
  for (int64_t i = 0; i < count; ++i) std::copy_n(rows + i * stride, features, to + i * features);
}

// A chunk of time of a block of samples.
template <class T>
struct Chunk {
  int64_t first, steps;           // steps of the sequence
  int64_t begin, samples;         // samples of the batch
  int64_t* valid;                 // [sample] how many of the steps it has
  T* dt;                          // [step][sample]

  int64_t rows() const { return steps * samples; }

  void move_to(int64_t step, int64_t count, const Sequence<const T>& gaps, const int64_t* lengths) {
    first = step;
    steps = count;
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t length = lengths == nullptr ? first + steps : lengths[begin + i];
      valid[i] = std::max<int64_t>(0, std::min(steps, length - first));
      for (int64_t t = 0; t < steps; ++t) dt[t * samples + i] = *gaps.at(first + t, begin + i);
    }
  }
  void gather(const Sequence<const T>& from, int64_t features, T* slab, int64_t stride) const {
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t i = 0; i < samples; ++i)
        std::copy_n(from.at(first + t, begin + i), features, slab + (t * samples + i) * stride);
  }
  void scatter(const T* slab, int64_t stride, int64_t features, const Sequence<T>& to) const {
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t i = 0; i < samples; ++i)
        std::copy_n(slab + (t * samples + i) * stride, features, to.at(first + t, begin + i));
  }
};

// The chunks of a block in order of time; a block ends with its longest sequence.
struct Chunks {
  int64_t steps, size, count;
  Chunks(const Shape& shape, const int64_t* lengths, int64_t begin, int64_t samples)
      : steps(lengths == nullptr ? shape.steps : *std::max_element(lengths + begin, lengths + begin + samples)),
        size(shape.chunk_steps(samples)),
        count((steps + size - 1) / size) {}
  int64_t first(int64_t chunk) const { return chunk * size; }
  int64_t length(int64_t chunk) const { return std::min(size, steps - chunk * size); }
};

}  // namespace unicornn
}  // namespace chronode
