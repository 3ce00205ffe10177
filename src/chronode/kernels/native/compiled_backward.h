// A block of samples of a compiled cell backwards through time. See compiled.cpp.
#pragma once

#include "compiled_block.h"

namespace chronode {
namespace compiled {

template <class T>
struct Gradients {
  Strided<const T> y;  // what comes in; null for zeros; (batch, width) where only last steps have an output
  std::vector<const T*> end;
  T *x, *dt;  // what goes out; null where it is not wanted
  std::vector<T*> start;
  T* sums;
};

template <class T>
class BackwardBlock : Block<T> {
 public:
  BackwardBlock(const Problem<T>& problem, const Gradients<T>& gradients, const SampleBlock& samples, T* kept, T* sums)
      : Block<T>(problem, samples,
                 Workspace<T>::make(problem.cell, samples.rows,
                                    problem.interval > 0 ? samples.rows * problem.interval : 0, true,
                                    capacity(samples))),
        g_(gradients), before_(rows_before_steps(samples)), scratch_(widest(problem.cell)), sums_(sums),
        kept_(problem.interval > 0 ? this->work.kept : kept), total_(before_.back()) {}

  void run(const PackedMatrices<T>& forward, const PackedMatrices<T>& matrices) {
    const auto& p = this->p;
    const SampleBlock& block = this->block;
    const int64_t steps = block.steps(), span = p.interval > 0 ? p.interval : steps;
    for (int64_t begin = (steps - 1) / span * span; begin >= 0; begin -= span) {
      const int64_t end = std::min(begin + span, steps);
      if (p.interval > 0) forward_again(forward, begin, end);
      for (int64_t last = end; last > begin;) {
        int64_t first = last;
        while (first > begin && before_[last] - before_[first - 1] <= capacity(block)) --first;
        for (int64_t n = last - 1; n >= first; --n) step_back(matrices, n, first);
        add_sums(first, last);
        last = first;
      }
    }
    this->write_states(this->work.grad, 0, block.rows, g_.start);
    if (g_.x != nullptr) block.clear_padding(g_.x, p.steps, this->cell.x);
    if (g_.dt != nullptr) block.clear_padding(g_.dt, p.steps, 1);
  }

 private:
  // Rows whose parameter gradients are summed at once.
  static int64_t capacity(const SampleBlock& block) { return std::max<int64_t>(block.rows, kGradientRows); }

  static int64_t widest(const Cell<T>& cell) {
    int64_t most = 1;
    for (int64_t i = 0; i < cell.outers; ++i) most = std::max(most, cell.outer[i].k);
    return most;
  }

  // What the forward would have kept of steps begin to end, from the checkpoint before them.
  void forward_again(const PackedMatrices<T>& matrices, int64_t begin, int64_t end) {
    origin_ = before_[begin];
    total_ = before_[end] - origin_;
    this->y = this->work.y;
    this->read_states(this->p.checkpoints, begin / this->p.interval * this->p.batch, this->work.state);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t active = this->block.active(n);
      this->read_inputs(n, active);
      this->step_forward(matrices, active, kept_, total_, before_[n] - origin_);
      std::swap(this->work.state, this->work.next);
    }
  }

  void step_back(const PackedMatrices<T>& matrices, int64_t n, int64_t first) {
    const auto& cell = this->cell;
    const auto& block = this->block;
    auto& work = this->work;
    const int64_t active = block.active(n);
    this->read_inputs(n, active);
    const T* grad_y = read_gradients(n, active);
    Step<T> s = this->step(matrices, active);
    s.kept = kept_;
    s.total = total_;
    s.row = before_[n] - origin_;
    s.grad_y = grad_y;
    s.grad = work.grad.data();
    s.out = work.out.data();
    s.dx = g_.x == nullptr ? nullptr : this->place_of(g_.x, n, cell.x, work.dx);
    s.ddt = g_.dt == nullptr ? nullptr : this->place_of(g_.dt, n, 1, work.ddt);
    s.chunk = work.chunk;
    s.capacity = capacity(block);
    s.position = before_[n] - before_[first];
    s.sums = sums_;
    cell.backward(s);
    if (s.dx != nullptr) this->write_rows(s.dx, g_.x, n, active, cell.x);
    if (s.ddt != nullptr) this->write_rows(s.ddt, g_.dt, n, active, 1);
    std::swap(work.grad, work.out);
  }

  // The gradients of the states of sequences that end with step n, and of y, which is returned.
  const T* read_gradients(int64_t n, int64_t active) {
    const auto& p = this->p;
    const auto& cell = this->cell;
    const auto& block = this->block;
    auto& work = this->work;
    const int64_t remain = block.active(n + 1);
    for (int64_t i = 0; i < cell.states; ++i) {
      const int64_t width = cell.state_sizes[i];
      for (int64_t r = remain; r < active; ++r)
        if (g_.end[i] == nullptr) std::fill_n(work.grad[i] + r * width, width, T(0));
        else std::copy_n(g_.end[i] + block.samples[r] * width, width, work.grad[i] + r * width);
    }
    if (g_.y.data != nullptr && !p.last) return this->rows_of(g_.y, n, active, cell.y, work.y);
    std::fill_n(work.y, active * cell.y, T(0));
    for (int64_t r = remain; g_.y.data != nullptr && r < active; ++r)
      std::copy_n(g_.y.at(0, block.samples[r]), cell.y, work.y + r * cell.y);
    return work.y;
  }

  // The share of steps first to last in the parameters' gradients.
  void add_sums(int64_t first, int64_t last) {
    const Cell<T>& cell = this->cell;
    const int64_t count = before_[last] - before_[first], row = before_[first] - origin_;
    const auto at = [&](const Rows& rows) {
      const T* begin = rows.kept != 0 ? kept_ + total_ * rows.place + row * rows.width
                                      : this->work.chunk + capacity(this->block) * rows.place;
      return begin + rows.offset;
    };
    for (const Outer* o = cell.outer; o < cell.outer + cell.outers; ++o)
      gemm_gradient(at(o->a), o->a.stride, at(o->b), o->b.stride, count * o->per_step, o->k, o->n, sums_ + o->sum, o->n,
                    scratch_);
    for (const ColumnSum* c = cell.column_sum; c < cell.column_sum + cell.column_sums; ++c)
      add_column_sums(at(c->rows), c->rows.width, count, c->rows.width, sums_ + c->sum);
  }

  const Gradients<T>& g_;
  const std::vector<int64_t> before_;
  GradientScratch<T> scratch_;
  T* const sums_;
  T* const kept_;
  int64_t total_, origin_ = 0;
};

}  // namespace compiled
}  // namespace chronode
