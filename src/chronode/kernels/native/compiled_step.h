// What generated code and the runtime in compiled.cpp tell each other: one step of a cell, and a table of its sizes.
//
// Generated code has the element-wise loops of one step; products and everything over time are the runtime's. So a
// generated file includes only this and compiles in a second.
#pragma once

#include <cstdint>
#include <limits>

#include "compiled_math.h"

namespace chronode {
namespace compiled {

// One step of a block of samples. Rows of values are dense: `rows` of them have memory, the first `m` are worked on.
template <class T>
struct Step {
  const void* const* params;
  const void* const* matrices;
  // c (count x n) = a (count x k) times a packed matrix, plus its bias.
  void (*product)(const void* matrix, const T* a, int64_t a_stride, int64_t count, T* c);
  int64_t m, rows;
  const T *x, *dt;
  const T* const* draws;
  T* const* state;  // forward only
  T* const* next;
  T* y;
  T* scratch;
  // Values for the backward: [value][row of all steps][element]; this step's rows begin at `row` of `total`.
  T* kept;
  int64_t total, row;
  // Backward only. Values of several steps that parameter gradients are summed from: as `kept`, with room for
  // `capacity` rows, this step's at `position`.
  const T* grad_y;
  T* const* grad;
  T* const* out;
  T *dx, *ddt;  // null where not wanted
  T* chunk;
  int64_t capacity, position;
  T* sums;

  const T* param(int i) const { return static_cast<const T*>(params[i]); }
  const int64_t* index(int i) const { return static_cast<const int64_t*>(params[i]); }
  T* in_kept(int64_t place, int64_t width) const { return kept + total * place + row * width; }
  T* in_chunk(int64_t place, int64_t width) const { return chunk + capacity * place + position * width; }
};

// A matrix that a step multiplies with: W[i][j] = params[param][offset + i row_stride + j column_stride].
struct Matrix {
  int64_t param, offset, row_stride, column_stride, k, n, bias, bias_offset;  // bias: a parameter, or -1
};

// Rows of many steps: a value that was kept or is in the chunk.
struct Rows {
  int64_t kept, place, width, offset, stride;
};

// A parameter gradient: the sum over rows and time of a^T b, each step having `per_step` rows for each sample.
struct Outer {
  Rows a, b;
  int64_t per_step, k, n, sum;
};

// The sum over rows and time of a value.
struct ColumnSum {
  Rows rows;
  int64_t sum;
};

template <class T>
struct Cell {
  int64_t x, y, states, draws, params, kept, forward_scratch, backward_scratch, chunk, sums;
  const int64_t *state_sizes, *draw_sizes, *param_sizes, *param_is_index;
  int64_t forward_matrices, backward_matrices, outers, column_sums;
  const Matrix *forward_matrix, *backward_matrix;
  const Outer* outer;
  const ColumnSum* column_sum;
  void (*forward)(const Step<T>&);
  void (*backward)(const Step<T>&);
};

// f(first element, lanes) for every vector of `count` elements.
template <class T, class F>
CHRONODE_INLINE void each_vector(int64_t count, F f) {
  int64_t i = 0;
  for (; i + Vec<T>::kLanes <= count; i += Vec<T>::kLanes) f(i, Vec<T>::kLanes);
  if (i < count) f(i, static_cast<int>(count - i));
}

}  // namespace compiled
}  // namespace chronode
