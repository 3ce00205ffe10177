// A compiled cell over a whole sequence: what every generated kernel shares. See compiled_step.h.
//
// Blocks of samples go through all of time, each on one thread: their rows in and out of the tensors, sequences that end
// early and what the forward keeps are in compiled_block.h, parameter gradients and the low-memory backward in
// compiled_backward.h.
#include "compiled_backward.h"

namespace chronode {
namespace compiled {
namespace {

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
      this->y = p.last ? work.y : this->place_of(results_.y, n, cell.y, work.y);
      if (kept_ != nullptr) this->step_forward(matrices, active, kept_, total, row);
      else this->step_forward(matrices, active, work.kept, block.rows, 0);
      if (!p.last) this->write_rows(work.y, results_.y, n, active, cell.y);
      else
        for (int64_t r = remain; r < active; ++r)
          std::copy_n(work.y + r * cell.y, cell.y, results_.y + block.samples[r] * cell.y);
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
void forward(const Cell<T>& cell, Arguments from, int64_t threads, WeightCache* cache) {
  const Problem<T> p(cell, from);
  T* y = from.array<T>("y", require_sizes("y", {p.last != 0 ? 1 : p.steps, p.batch, cell.y}));
  const Results<T> results{y, from.arrays<T>("a last state", cell.state_sizes, cell.states, p.batch)};
  const auto matrices = packed_once<PackedMatrices<T>>(p, cache);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, p.block_rows());
  const std::vector<int64_t> before = rows_before_blocks(blocks);
  parallel_blocks(blocks.count(), require_threads(threads), [&](int64_t b, int) {
    T* kept = p.kept == nullptr ? nullptr : p.kept + before[b] * cell.kept;
    ForwardBlock<T>(p, results, blocks[b], kept).run(*matrices);
  });
}

template <class T>
void backward(const Cell<T>& cell, Arguments from, int64_t threads, WeightCache*) {
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
                               chronode::compiled::Arguments(arrays, count, numbers), threads, cache);             \
    });                                                                                                            \
  }

CHRONODE_COMPILED(float, f32, forward)
CHRONODE_COMPILED(float, f32, backward)
CHRONODE_COMPILED(double, f64, forward)
CHRONODE_COMPILED(double, f64, backward)
