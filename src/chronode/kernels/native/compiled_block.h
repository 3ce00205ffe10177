// A block of samples of a compiled cell: its memory, and its rows in and out of the tensors. See compiled.cpp.
#pragma once

#include "compiled_problem.h"

namespace chronode {
namespace compiled {

// Memory that a thread keeps between calls: fresh pages cost more than the arithmetic on them.
template <class T>
T* thread_memory(int64_t count) {
  thread_local Buffer<T> memory;
  if (memory.size() < count) memory = Buffer<T>(count);
  return memory.data();
}

// Cuts pieces from one array; without an array it only counts.
template <class T>
class Pieces {
 public:
  explicit Pieces(T* memory) : memory_(memory) {}
  T* take(int64_t count) {
    T* piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up_to_line<T>(count);
    return piece;
  }
  std::vector<T*> take(const int64_t* widths, int64_t count, int64_t rows) {
    std::vector<T*> all(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) all[i] = take(widths[i] * rows);
    return all;
  }
  int64_t used() const { return used_; }

 private:
  T* memory_;
  int64_t used_ = 0;
};

// The memory of a block in either pass.
template <class T>
struct Workspace {
  T *x, *dt, *y, *dx, *ddt, *scratch, *chunk, *kept;
  std::vector<T*> draws, state, next, grad, out;

  // kept_rows: for as many rows it has memory of its own for what the forward keeps.
  Workspace(Pieces<T>& from, const Cell<T>& cell, int64_t rows, int64_t kept_rows, bool backward, int64_t capacity)
      : x(from.take(rows * cell.x)), dt(from.take(rows)), y(from.take(rows * cell.y)),
        dx(from.take(backward ? rows * cell.x : 0)), ddt(from.take(backward ? rows : 0)),
        scratch(from.take(rows * (backward ? std::max(cell.forward_scratch, cell.backward_scratch)
                                           : cell.forward_scratch))),
        chunk(from.take(backward ? capacity * cell.chunk : 0)), kept(from.take(kept_rows * cell.kept)),
        draws(from.take(cell.draw_sizes, cell.draws, rows)), state(from.take(cell.state_sizes, cell.states, rows)),
        next(from.take(cell.state_sizes, cell.states, rows)),
        grad(from.take(cell.state_sizes, backward ? cell.states : 0, rows)),
        out(from.take(cell.state_sizes, backward ? cell.states : 0, rows)) {}

  static Workspace make(const Cell<T>& cell, int64_t rows, int64_t kept_rows, bool backward, int64_t capacity = 0) {
    Pieces<T> count(nullptr);
    Workspace(count, cell, rows, kept_rows, backward, capacity);
    Pieces<T> pieces(thread_memory<T>(count.used()));
    return Workspace(pieces, cell, rows, kept_rows, backward, capacity);
  }
};

// A block of samples and its memory: what both passes do with it.
template <class T>
class Block {
 public:
  Block(const Problem<T>& problem, const SampleBlock& samples, Workspace<T> memory)
      : p(problem), cell(problem.cell), block(samples), work(std::move(memory)), in_order(samples.in_order()) {}

 protected:
  // Rows of step n, in place if they are dense and in order, else copied.
  const T* rows_of(const Strided<const T>& from, int64_t n, int64_t active, int64_t width, T* copy) const {
    if (in_order && from.row == width) return from.at(n, block.samples[0]);
    for (int64_t r = 0; r < active; ++r) std::copy_n(from.at(n, block.samples[r]), width, copy + r * width);
    return copy;
  }
  // Where to write rows of step n of a (steps, batch, width) tensor: in place, or to `copy` for `write_rows`.
  T* place_of(T* tensor, int64_t n, int64_t width, T* copy) const {
    return in_order && tensor != nullptr ? tensor + (n * p.batch + block.samples[0]) * width : copy;
  }
  void write_rows(const T* rows, T* tensor, int64_t n, int64_t active, int64_t width) const {
    if (!in_order) block.scatter(rows, width, width, active, tensor + n * p.batch * width);
  }

  void read_inputs(int64_t n, int64_t active) {
    x = rows_of(p.x, n, active, cell.x, work.x);
    dt = rows_of(p.dt, n, active, 1, work.dt);
    for (int64_t i = 0; i < cell.draws; ++i) {
      const int64_t width = cell.draw_sizes[i];
      block.gather(p.draws[i] + n * p.batch * width, width, active, work.draws[i], width);
    }
  }

  template <class Pointer>
  void read_states(const std::vector<Pointer>& from, int64_t offset, const std::vector<T*>& to) {
    for (int64_t i = 0; i < cell.states; ++i) {
      const int64_t width = cell.state_sizes[i];
      block.gather(from[i] + offset * width, width, block.rows, to[i], width);
    }
  }

  // Rows first to last of states, to where their samples are in (batch, width) tensors.
  void write_states(const std::vector<T*>& from, int64_t first, int64_t last, const std::vector<T*>& to,
                    int64_t offset = 0) {
    for (int64_t i = 0; i < cell.states; ++i) {
      const int64_t width = cell.state_sizes[i];
      for (int64_t r = first; r < last; ++r)
        std::copy_n(from[i] + r * width, width, to[i] + (offset + block.samples[r]) * width);
    }
  }

  Step<T> step(const PackedMatrices<T>& matrices, int64_t active) const {
    Step<T> s{};
    s.params = p.params.data();
    s.matrices = matrices.pointers();
    s.product = product<T>;
    s.m = active;
    s.rows = block.rows;
    s.x = x;
    s.dt = dt;
    s.draws = work.draws.data();
    s.y = y;
    s.scratch = work.scratch;
    return s;
  }

  void step_forward(const PackedMatrices<T>& matrices, int64_t active, T* kept, int64_t total, int64_t row) {
    Step<T> s = step(matrices, active);
    s.state = work.state.data();
    s.next = work.next.data();
    s.kept = kept;
    s.total = total;
    s.row = row;
    cell.forward(s);
  }

  const Problem<T>& p;
  const Cell<T>& cell;
  const SampleBlock block;
  Workspace<T> work;
  const bool in_order;
  const T *x = nullptr, *dt = nullptr;  // rows of the step
  T* y = nullptr;
};

// rows_before[n] = active rows of all steps before n.
std::vector<int64_t> rows_before_steps(const SampleBlock& block) {
  std::vector<int64_t> before(static_cast<size_t>(block.steps()) + 1, 0);
  for (int64_t n = 0; n < block.steps(); ++n) before[n + 1] = before[n] + block.active(n);
  return before;
}

// Active rows of all steps of all blocks before each block.
inline std::vector<int64_t> rows_before_blocks(const SampleBlocks& blocks) {
  std::vector<int64_t> before(static_cast<size_t>(blocks.count()) + 1, 0);
  for (int64_t b = 0; b < blocks.count(); ++b)
    before[b + 1] = before[b] + std::accumulate(blocks[b].lengths, blocks[b].lengths + blocks[b].rows, int64_t(0));
  return before;
}

}  // namespace compiled
}  // namespace chronode
