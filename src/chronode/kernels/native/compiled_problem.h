// A call of a compiled cell: its arguments, checked, and its packed matrices. See compiled.cpp.
#pragma once

#include "compiled_step.h"
#include "entry.h"
#include "gemm.h"
#include "sequence.h"

namespace chronode {
namespace compiled {

// A (steps, batch, width) tensor whose last axis is dense; data may be null.
template <class T>
struct Strided {
  T* data;
  int64_t time, row;
  T* at(int64_t step, int64_t sample) const { return data + step * time + sample * row; }
};

// The arguments of a call in the order in which Python passes them; each array must have the size that is asked for.
class Arguments {
 public:
  Arguments(const Array<void>* arrays, int64_t count, Array<const int64_t> numbers)
      : array_(arrays), arrays_end_(arrays + count), number_(numbers),
        numbers_end_(number_ + numbers.bytes / static_cast<int64_t>(sizeof(int64_t))) {}
  int64_t number(const char* name, int64_t least) {
    if (number_ == numbers_end_) throw InvalidArgument("%s is missing", name);
    require_between(name, *number_, least, kMostElements);
    return *number_++;
  }
  // `count` elements; or none, if that is allowed.
  template <class T> T* array(const char* name, int64_t count, bool may_be_none = false) {
    if (array_ == arrays_end_) throw InvalidArgument("%s is missing", name);
    const Array<T> found{static_cast<T*>(array_->data), array_->bytes};
    ++array_;
    if (!may_be_none || found.data != nullptr) require_room<T>(name, found, count);
    return found.data;
  }
  template <class T>
  Strided<T> strided(const char* name, int64_t steps, int64_t batch, int64_t width, bool may_be_none = false) {
    const int64_t time = number("a stride", 0), row = number("a stride", 0);
    require_sizes(name, {steps, batch, width});
    if (time > kMostElements / steps || row > kMostElements / batch) throw InvalidArgument("%s is too large", name);
    return {array<T>(name, (steps - 1) * time + (batch - 1) * row + width, may_be_none), time, row};
  }
  // One array for each of the sizes, of `rows` rows.
  template <class T>
  std::vector<T*> arrays(const char* name, const int64_t* sizes, int64_t count, int64_t rows, bool may_be_none = false) {
    std::vector<T*> all(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) all[i] = array<T>(name, require_sizes(name, {rows, sizes[i]}), may_be_none);
    return all;
  }

 private:
  const Array<void>* array_;
  const Array<void>* const arrays_end_;
  const int64_t* number_;
  const int64_t* const numbers_end_;
};

// What both passes take.
template <class T>
struct Problem {
  const Cell<T>& cell;
  const int64_t steps, batch, last, interval;
  const Strided<const T> x, dt;
  const std::vector<const T*> draws, start;
  std::vector<const void*> params;
  const int64_t* lengths;
  int64_t kept_rows;
  T* kept;                            // null: nothing is kept
  const std::vector<T*> checkpoints;  // states before every `interval`-th step; null unless memory is low

  Problem(const Cell<T>& the_cell, Arguments& from)
      : cell(the_cell), steps(from.number("steps", 1)), batch(from.number("batch", 1)), last(from.number("last", 0)),
        interval(from.number("interval", 0)), x(from.strided<const T>("x", steps, batch, cell.x)),
        dt(from.strided<const T>("dt", steps, batch, 1)),
        draws(from.arrays<const T>("a random draw", cell.draw_sizes, cell.draws, require_sizes("x", {steps, batch}))),
        start(from.arrays<const T>("a state", cell.state_sizes, cell.states, batch)), params(read_params(from)),
        lengths(from.array<const int64_t>("lengths", batch, true)), kept_rows(count_rows()),
        kept(from.array<T>("what is kept", kept_rows * std::max<int64_t>(cell.kept, 1), true)),
        checkpoints(from.arrays<T>("a checkpoint", cell.state_sizes, cell.states, marks() * batch, true)) {
    allow_lengths({lengths, lengths == nullptr ? 0 : batch * static_cast<int64_t>(sizeof(int64_t))}, steps, batch);
    if (interval > 0)
      for (const T* mark : checkpoints)
        if (mark == nullptr) throw InvalidArgument("a checkpoint is missing");
  }

  // Samples that go through time together. The more, the less often weights pass from the second-level cache; 16 rows
  // and two blocks of them keep two cores busy.
  int64_t block_rows() const { return std::clamp<int64_t>((batch + 1) / 2, 4, 16); }

 private:
  std::vector<const void*> read_params(Arguments& from) const {
    std::vector<const void*> all;
    for (int64_t i = 0; i < cell.params; ++i)
      if (cell.param_is_index[i] != 0) all.push_back(from.array<const int64_t>("a parameter", cell.param_sizes[i]));
      else all.push_back(from.array<const T>("a parameter", cell.param_sizes[i]));
    return all;
  }
  int64_t marks() const { return interval > 0 ? (steps + interval - 1) / interval : 1; }
  // The forward's results are for all steps of all samples; lengths only leave some of the memory untouched.
  int64_t count_rows() const { return require_sizes("x", {steps, batch}); }
};

template <class T>
class PackedMatrices {
 public:
  // Those of the forward step.
  explicit PackedMatrices(const Problem<T>& p) : PackedMatrices(p.cell.forward_matrix, p.cell.forward_matrices, p.params) {}
  PackedMatrices(const Matrix* matrices, int64_t count, const std::vector<const void*>& params) {
    const auto at = [&](int64_t param, int64_t offset) { return static_cast<const T*>(params[param]) + offset; };
    for (const Matrix* m = matrices; m < matrices + count; ++m)
      packed_.push_back(PackedMatrix<T>::pack_strided(at(m->param, m->offset), m->row_stride, m->column_stride, m->k,
                                                      m->n, m->bias < 0 ? nullptr : at(m->bias, m->bias_offset)));
    for (const PackedMatrix<T>& one : packed_) pointers_.push_back(&one);
  }
  PackedMatrices(const PackedMatrices&) = delete;
  const void* const* pointers() const { return pointers_.data(); }

 private:
  std::vector<PackedMatrix<T>> packed_;
  std::vector<const void*> pointers_;
};

template <class T>
void product(const void* matrix, const T* a, int64_t a_stride, int64_t count, T* c) {
  const PackedMatrix<T>& packed = *static_cast<const PackedMatrix<T>*>(matrix);
  gemm(a, a_stride, count, packed, c, packed.n());
}

}  // namespace compiled
}  // namespace chronode
