// A compiled cell over a whole sequence: what every generated kernel shares. See compiled_step.h.
//
// Blocks of samples go through all of time, each on one thread. Here are their rows in and out of the tensors, sequences
// that end early, what the forward keeps, products, parameter gradients, and the low-memory backward.
#include "compiled_step.h"
#include "entry.h"
#include "sequence.h"

namespace chronode {
namespace compiled {
namespace {

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
      : p(problem), cell(problem.cell), block(samples), work(std::move(memory)) {}

 protected:
  void read_inputs(int64_t n, int64_t active) {
    for (int64_t r = 0; r < active; ++r) {
      std::copy_n(p.x.at(n, block.samples[r]), cell.x, work.x + r * cell.x);
      work.dt[r] = *p.dt.at(n, block.samples[r]);
    }
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
    s.x = work.x;
    s.dt = work.dt;
    s.draws = work.draws.data();
    s.y = work.y;
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
};

// rows_before[n] = active rows of all steps before n.
std::vector<int64_t> rows_before_steps(const SampleBlock& block) {
  std::vector<int64_t> before(static_cast<size_t>(block.steps()) + 1, 0);
  for (int64_t n = 0; n < block.steps(); ++n) before[n + 1] = before[n] + block.active(n);
  return before;
}

// Active rows of all steps of all blocks before each block.
std::vector<int64_t> rows_before_blocks(const SampleBlocks& blocks) {
  std::vector<int64_t> before(static_cast<size_t>(blocks.count()) + 1, 0);
  for (int64_t b = 0; b < blocks.count(); ++b)
    before[b + 1] = before[b] + std::accumulate(blocks[b].lengths, blocks[b].lengths + blocks[b].rows, int64_t(0));
  return before;
}

// ---- forward -----------------------------------------------------------------------------------------------

template <class T>
struct Results {
  T* y;  // (steps, batch, width), or (batch, width) of each last step
  std::vector<T*> end;
};

template <class T>
class ForwardBlock : Block<T> {
 public:
  // kept: null if nothing is kept; then a step writes to memory that the next step writes to again.
  ForwardBlock(const Problem<T>& problem, const Results<T>& results, const SampleBlock& samples, T* kept)
      : Block<T>(problem, samples,
                 Workspace<T>::make(problem.cell, samples.rows, kept == nullptr ? samples.rows : 0, false)),
        results_(results), kept_(kept) {}

  void run(const PackedMatrices<T>& matrices) {
    const auto& p = this->p;
    const auto& cell = this->cell;
    const auto& block = this->block;
    auto& work = this->work;
    const int64_t total = std::accumulate(block.lengths, block.lengths + block.rows, int64_t(0));
    this->read_states(p.start, 0, work.state);
    for (int64_t n = 0, row = 0; n < block.steps(); ++n) {
      const int64_t active = block.active(n), remain = block.active(n + 1);
      if (p.interval > 0 && n % p.interval == 0)
        this->write_states(work.state, 0, active, p.checkpoints, n / p.interval * p.batch);
      this->read_inputs(n, active);
      if (kept_ != nullptr) this->step_forward(matrices, active, kept_, total, row);
      else this->step_forward(matrices, active, work.kept, block.rows, 0);
      T* out = results_.y + (p.last ? 0 : n * p.batch * cell.y);
      for (int64_t r = p.last ? remain : 0; r < active; ++r)
        std::copy_n(work.y + r * cell.y, cell.y, out + block.samples[r] * cell.y);
      this->write_states(work.next, remain, active, results_.end);
      std::swap(work.state, work.next);
      row += active;
    }
    if (!p.last) block.clear_padding(results_.y, p.steps, cell.y);
  }

 private:
  const Results<T>& results_;
  T* const kept_;
};

template <class T>
void forward(const Cell<T>& cell, Arguments from, int64_t threads) {
  const Problem<T> p(cell, from);
  T* y = from.array<T>("y", require_sizes("y", {p.last != 0 ? 1 : p.steps, p.batch, cell.y}));
  const Results<T> results{y, from.arrays<T>("a last state", cell.state_sizes, cell.states, p.batch)};
  const PackedMatrices<T> matrices(cell.forward_matrix, cell.forward_matrices, p.params);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, p.block_rows());
  const std::vector<int64_t> before = rows_before_blocks(blocks);
  parallel_blocks(blocks.count(), require_threads(threads), [&](int64_t b, int) {
    T* kept = p.kept == nullptr ? nullptr : p.kept + before[b] * cell.kept;
    ForwardBlock<T>(p, results, blocks[b], kept).run(matrices);
  });
}

// ---- backward ----------------------------------------------------------------------------------------------

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
    this->read_states(this->p.checkpoints, begin / this->p.interval * this->p.batch, this->work.state);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t active = this->block.active(n);
      this->read_inputs(n, active);
      this->step_forward(matrices, active, kept_, total_, before_[n] - origin_);
      std::swap(this->work.state, this->work.next);
    }
  }

  void step_back(const PackedMatrices<T>& matrices, int64_t n, int64_t first) {
    const auto& p = this->p;
    const auto& cell = this->cell;
    const auto& block = this->block;
    auto& work = this->work;
    const int64_t active = block.active(n);
    this->read_inputs(n, active);
    read_gradients(n, active);
    Step<T> s = this->step(matrices, active);
    s.kept = kept_;
    s.total = total_;
    s.row = before_[n] - origin_;
    s.grad_y = work.y;
    s.grad = work.grad.data();
    s.out = work.out.data();
    s.dx = g_.x == nullptr ? nullptr : work.dx;
    s.ddt = g_.dt == nullptr ? nullptr : work.ddt;
    s.chunk = work.chunk;
    s.capacity = capacity(block);
    s.position = before_[n] - before_[first];
    s.sums = sums_;
    cell.backward(s);
    if (s.dx != nullptr) block.scatter(s.dx, cell.x, cell.x, active, g_.x + n * p.batch * cell.x);
    if (s.ddt != nullptr) block.scatter(s.ddt, 1, 1, active, g_.dt + n * p.batch);
    std::swap(work.grad, work.out);
  }

  // The gradients of y, and of the states of sequences that end with step n.
  void read_gradients(int64_t n, int64_t active) {
    const auto& p = this->p;
    const auto& cell = this->cell;
    const auto& block = this->block;
    auto& work = this->work;
    const int64_t remain = block.active(n + 1);
    for (int64_t r = 0; r < active; ++r) {
      T* to = work.y + r * cell.y;
      if (g_.y.data == nullptr || (p.last && r < remain)) std::fill_n(to, cell.y, T(0));
      else std::copy_n(g_.y.at(p.last ? 0 : n, block.samples[r]), cell.y, to);
    }
    for (int64_t i = 0; i < cell.states; ++i) {
      const int64_t width = cell.state_sizes[i];
      for (int64_t r = remain; r < active; ++r)
        if (g_.end[i] == nullptr) std::fill_n(work.grad[i] + r * width, width, T(0));
        else std::copy_n(g_.end[i] + block.samples[r] * width, width, work.grad[i] + r * width);
    }
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

template <class T>
void backward(const Cell<T>& cell, Arguments from, int64_t threads) {
  const Problem<T> p(cell, from);
  if (p.interval == 0 && p.kept == nullptr && cell.kept > 0) throw InvalidArgument("what the forward kept is missing");
  const Strided<const T> y = from.strided<const T>("a gradient of y", p.last != 0 ? 1 : p.steps, p.batch, cell.y, true);
  std::vector<const T*> end = from.arrays<const T>("a last state's gradient", cell.state_sizes, cell.states, p.batch, true);
  T* x = from.array<T>("dx", require_sizes("dx", {p.steps, p.batch, cell.x}), true);
  T* dt = from.array<T>("ddt", require_sizes("ddt", {p.steps, p.batch}), true);
  std::vector<T*> start = from.arrays<T>("a first state's gradient", cell.state_sizes, cell.states, p.batch);
  const Gradients<T> g{y, std::move(end), x, dt, std::move(start), from.array<T>("sums", cell.sums, cell.sums == 0)};
  const PackedMatrices<T> forward(cell.forward_matrix, p.interval > 0 ? cell.forward_matrices : 0, p.params);
  const PackedMatrices<T> matrices(cell.backward_matrix, cell.backward_matrices, p.params);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, p.block_rows());
  const std::vector<int64_t> before = rows_before_blocks(blocks);
  BlockSums<T> sums(blocks.count(), cell.sums);
  parallel_blocks(blocks.count(), require_threads(threads), [&](int64_t b, int) {
    T* kept = p.kept == nullptr ? nullptr : p.kept + before[b] * cell.kept;
    BackwardBlock<T>(p, g, blocks[b], kept, sums.zeroed(b)).run(forward, matrices);
  });
  sums.sum_into(g.sums, require_threads(threads));
}

}  // namespace
}  // namespace compiled
}  // namespace chronode

using chronode::Array;

#define CHRONODE_COMPILED(T, suffix, pass)                                                                         \
  CHRONODE_EXPORT int chronode_compiled_##pass##_##suffix(const void* cell, const Array<void>* arrays,             \
                                                          int64_t count, Array<const int64_t> numbers,             \
                                                          CHRONODE_CALL) {                                         \
    return chronode::guarded(failure, [&] {                                                                        \
      chronode::compiled::pass(*static_cast<const chronode::compiled::Cell<T>*>(cell),                             \
                               chronode::compiled::Arguments(arrays, count, numbers), threads);                    \
    });                                                                                                            \
  }

CHRONODE_COMPILED(float, f32, forward)
CHRONODE_COMPILED(float, f32, backward)
CHRONODE_COMPILED(double, f64, forward)
CHRONODE_COMPILED(double, f64, backward)
