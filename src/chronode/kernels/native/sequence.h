// What whole-sequence kernels share: how a padded batch falls into blocks of samples, and rows in and out of its tensors.
//
// Sequences are sorted by falling length before they are cut into blocks. At every time step the sequences that are not
// over yet are then the first rows of their block, so a step works on `active(n)` rows and never on padding: no masks,
// and the state of a finished sequence stays where it is, untouched.
//
// Tensors are time-major, (steps, batch, width), contiguous; a block keeps its own few rows contiguous in scratch memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "pool.h"
#include "simd.h"

namespace chronode {

// The samples that one thread takes through all of time.
struct SampleBlock {
  const int64_t* samples;  // the place in the batch of each row
  const int64_t* lengths;  // of each row, falling
  int64_t rows, batch;

  int64_t steps() const { return lengths[0]; }
  // How many rows have a step n: they are the first ones.
  int64_t active(int64_t n) const {
    int64_t count = rows;
    while (count > 0 && lengths[count - 1] <= n) --count;
    return count;
  }

  // Whether the rows of a step are as they are in the batch, so that they can be worked on in place.
  bool in_order() const {
    for (int64_t row = 1; row < rows; ++row)
      if (samples[row] != samples[0] + row) return false;
    return true;
  }

  // to[row] = from[sample of that row], for the first `count` rows; `from` is one step's (batch, width).
  template <class T>
  void gather(const T* from, int64_t width, int64_t count, T* to, int64_t to_stride) const {
    for (int64_t row = 0; row < count; ++row)
      std::copy_n(from + samples[row] * width, width, to + row * to_stride);
  }
  template <class T>
  void scatter(const T* from, int64_t from_stride, int64_t width, int64_t count, T* to) const {
    for (int64_t row = 0; row < count; ++row)
      std::copy_n(from + row * from_stride, width, to + samples[row] * width);
  }
  // Zeros at the padded steps of a (steps, batch, width) tensor.
  template <class T>
  void clear_padding(T* tensor, int64_t total_steps, int64_t width) const {
    for (int64_t n = lengths[rows - 1]; n < total_steps; ++n)
      for (int64_t row = active(n); row < rows; ++row)
        std::fill_n(tensor + (n * batch + samples[row]) * width, width, T(0));
  }
};

// The whole batch, cut into blocks of at most `block_rows` samples. lengths: null if every sequence has all steps.
class SampleBlocks {
 public:
  SampleBlocks(int64_t steps, int64_t batch, const int64_t* lengths, int64_t block_rows)
      : blocks_(batch, block_rows), samples_(static_cast<size_t>(batch)), lengths_(static_cast<size_t>(batch), steps) {
    std::iota(samples_.begin(), samples_.end(), int64_t(0));
    if (lengths == nullptr) return;
    std::stable_sort(samples_.begin(), samples_.end(), [=](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
    std::transform(samples_.begin(), samples_.end(), lengths_.begin(), [=](int64_t sample) { return lengths[sample]; });
  }
  int64_t count() const { return blocks_.count; }
  SampleBlock operator[](int64_t block) const {
    const int64_t begin = blocks_.begin(block);
    return {samples_.data() + begin, lengths_.data() + begin, blocks_.rows(block), blocks_.total};
  }

 private:
  Blocks blocks_;
  std::vector<int64_t> samples_, lengths_;
};

// f(element offset, lanes) for every vector of `count` contiguous elements.
template <class T, class F>
CHRONODE_INLINE void for_vectors(int64_t count, F f) {
  int64_t i = 0;
  for (; i + Vec<T>::kLanes <= count; i += Vec<T>::kLanes) f(i, Vec<T>::kLanes);
  if (i < count) f(i, static_cast<int>(count - i));
}

// f(row, element offset, lanes) for every vector of `rows` contiguous rows of `width` elements.
template <class T, class F>
CHRONODE_INLINE void for_rows(int64_t rows, int64_t width, F f) {
  for (int64_t row = 0; row < rows; ++row)
    for_vectors<T>(width, [&](int64_t i, int lanes) CHRONODE_LAMBDA_INLINE { f(row, row * width + i, lanes); });
}

}  // namespace chronode
