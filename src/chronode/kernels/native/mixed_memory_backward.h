// mmRNN: the backward. See mixed_memory.h for the algorithm.
#pragma once

#include "mixed_memory.h"

namespace chronode {
namespace mixed_memory {

// What the backward reads beyond the problem, and what it writes. The incoming gradients may be null: zero. dx may be
// null: not wanted.
template <class T>
struct Gradients {
  const T *c, *y, *grad_y, *grad_c, *grad_h;
  T *dx, *ddt, *dc0, *dh0;
  Parameters<T*> weights;
};

template <class T>
struct BackwardCellWeights : CellWeights<T> {
  PackedMatrix<T> input_back, recurrent_back, drive_back;
  explicit BackwardCellWeights(const Problem<T>& p) : CellWeights<T>(p) {
    const int64_t H = p.hidden, outputs = p.gates() * H;
    const T* weight = p.weights[kWeight];
    input_back = PackedMatrix<T>::pack(weight, p.columns(), outputs, p.inputs);
    recurrent_back = PackedMatrix<T>::pack(weight + p.inputs, p.columns(), outputs, H);
    if (p.variant == kDriven) drive_back = PackedMatrix<T>::pack(p.weights[kDrive], H, H, H);
  }
};

template <class T, class Flow>
class BackwardBlock {
 public:
  BackwardBlock(const Problem<T>& p, const Gradients<T>& g, const BackwardCellWeights<T>& w,
                const typename Flow::Weights& flow, const SampleBlock& block, const Parameters<T*>& sums)
      : p_(p), g_(g), w_(w), block_(block), sums_(sums), H_(p.hidden), driven_(p.variant == kDriven),
        capacity_(block.rows * std::max<int64_t>(1, kEnoughRows / block.rows)), xh_(capacity_ * p.columns()),
        da_(capacity_ * p.gates() * H_), memory_(driven_ ? capacity_ * H_ : 0), drive_(driven_ ? block.rows * H_ : 0),
        c_(block.rows * H_), c_new_(block.rows * H_), dc_(block.rows * H_), dh_(block.rows * H_),
        dmemory_(block.rows * H_), dx_(g.dx != nullptr ? block.rows * p.inputs : 0), steps_(block.rows), step_sums_(block.rows), gates_(block.rows * H_),
        scratch_(p.gates() * H_), flow_(p, flow, block.rows, capacity_) {}

  void run() {
    read_or_clear(g_.grad_c, dc_);
    read_or_clear(g_.grad_h, dh_);
    for (int64_t n = block_.steps() - 1; n >= 0; --n) {
      active_ = block_.active(n);
      if (filled_ + active_ > capacity_) flush();
      recompute(n);
      go_back(n);
      filled_ += active_;
      flow_.finish();
    }
    flush();
    block_.scatter(dc_.data(), H_, H_, block_.rows, g_.dc0);
    block_.scatter(dh_.data(), H_, H_, block_.rows, g_.dh0);
    block_.clear_padding(g_.ddt, p_.steps, 1);
    if (g_.dx != nullptr) block_.clear_padding(g_.dx, p_.steps, p_.inputs);
  }

 private:
  static constexpr int64_t kEnoughRows = 64;  // for a weight gradient to run at the speed of a large product

  void read_or_clear(const T* gradient, Buffer<T>& to) {
    if (gradient != nullptr) block_.gather(gradient, H_, block_.rows, to.data(), H_);
    else to.clear();
  }

  // Time step n once more: its gates and the flow's evaluations.
  void recompute(int64_t n) {
    const int64_t D = p_.inputs, columns = p_.columns(), before = (n - 1) * p_.batch * H_;
    T* xh = xh_.data() + filled_ * columns;
    flow_.begin(active_);
    block_.gather(p_.x + n * p_.batch * D, D, active_, xh, columns);
    block_.gather(n > 0 ? g_.y + before : p_.h0, H_, active_, xh + D, columns);
    block_.gather(n > 0 ? g_.c + before : p_.c0, H_, active_, c_.data(), H_);
    read_steps(p_, block_, n, active_, steps_.data());
    T* memory = driven_ ? memory_.data() + filled_ * H_ : flow_.start();
    update_memory(p_, w_, active_, xh, c_.data(), c_new_.data(), memory, gates_);
    if (driven_) {
      gemm(memory, H_, active_, w_.drive, drive_.data(), H_);
      for (int64_t row = 0; row < active_; ++row) std::copy_n(xh + row * columns + D, H_, flow_.start() + row * H_);
    }
    flow_.solve(steps_.data(), driven_ ? drive_.data() : nullptr, static_cast<T*>(nullptr));
  }

  void go_back(int64_t n) {
    if (g_.grad_y != nullptr) add_output_gradient(g_.grad_y + n * p_.batch * H_);
    flow_.back(steps_.data(), dh_.data(), step_sums_);
    for (int64_t row = 0; row < active_; ++row)
      g_.ddt[n * p_.batch + block_.samples[row]] = step_sums_.take(row) / static_cast<T>(p_.substeps);
    if (driven_) gemm(flow_.drive_gradient(), H_, active_, w_.drive_back, dmemory_.data(), H_);
    through_gates(driven_ ? dmemory_.data() : dh_.data());
    const int64_t H = H_, outputs = p_.gates() * H_, D = p_.inputs;
    const T* da = da_.data() + filled_ * outputs;
    // A driven flow started from h, so dh already holds a share of the gradient of h.
    if (driven_) gemm_add(da, outputs, active_, w_.recurrent_back, dh_.data(), H);
    else gemm(da, outputs, active_, w_.recurrent_back, dh_.data(), H);
    if (g_.dx == nullptr) return;
    T* dx = g_.dx + n * p_.batch * D;
    gemm(da, outputs, active_, w_.input_back, dx_.data(), D);
    block_.scatter(dx_.data(), D, D, active_, dx);
  }

  void add_output_gradient(const T* grad_y) {
    for (int64_t row = 0; row < active_; ++row) {
      const T* from = grad_y + block_.samples[row] * H_;
      T* to = dh_.data() + row * H_;
      for_vectors<T>(H_, [&](int64_t i, int lanes) {
        (Vec<T>::load(to + i, lanes) + Vec<T>::load(from + i, lanes)).store(to + i, lanes);
      });
    }
  }

  // From the gradient of the memory to that of the gates' inputs (da) and of c before the step.
  void through_gates(const T* dmemory) {
    const int64_t H = H_, outputs = p_.gates() * H;
    const T *forget = gates_[kForget], *write = gates_[kWrite], *value = gates_[kValue], *out = gates_[kOut];
    const T* tanh_c = gates_.tanh_c.data();
    const bool paper = p_.variant == kPaper;
    const Vec<T> one = T(1);
    for_rows<T>(active_, H, [&](int64_t row, int64_t i, int lanes) {
      T* da = da_.data() + (filled_ + row) * outputs + i - row * H;
      const Vec<T> dm = Vec<T>::load(dmemory + i, lanes);
      Vec<T> dc = Vec<T>::load(dc_.data() + i, lanes);
      if (paper) {
        dc += dm;
      } else {
        const Vec<T> o = Vec<T>::load(out + i, lanes), t = Vec<T>::load(tanh_c + i, lanes);
        dc = fma(dm * o, fnma(t, t, one), dc);
        (dm * t * (o - o * o)).store(da + kOut * H, lanes);
      }
      const Vec<T> f = Vec<T>::load(forget + i, lanes), w = Vec<T>::load(write + i, lanes);
      const Vec<T> z = Vec<T>::load(value + i, lanes);
      (dc * Vec<T>::load(c_.data() + i, lanes) * (f - f * f)).store(da + kForget * H, lanes);
      (dc * z * (w - w * w)).store(da + kWrite * H, lanes);
      (dc * w * fnma(z, z, one)).store(da + kValue * H, lanes);
      (dc * f).store(dc_.data() + i, lanes);
    });
  }

  // Multiplies the factors gathered so far into the weight gradients.
  void flush() {
    const int64_t outputs = p_.gates() * H_, columns = p_.columns();
    gemm_gradient(da_.data(), outputs, xh_.data(), columns, filled_, outputs, columns, sums_[kWeight], columns,
                  scratch_);
    add_column_sums(da_.data(), outputs, filled_, outputs, sums_[kBias]);
    if (driven_)
      gemm_gradient(flow_.drive_gradients(), H_, memory_.data(), H_, filled_, H_, H_, sums_[kDrive], H_, scratch_);
    flow_.flush(sums_, scratch_);
    filled_ = 0;
  }

  const Problem<T>& p_;
  const Gradients<T>& g_;
  const BackwardCellWeights<T>& w_;
  const SampleBlock block_;
  const Parameters<T*> sums_;
  const int64_t H_;
  const bool driven_;
  const int64_t capacity_;                                     // samples gathered before the factors are multiplied
  int64_t filled_ = 0, active_ = 0;                            // samples gathered; rows of the present time step
  Buffer<T> xh_, da_, memory_;                                 // of the samples gathered
  Buffer<T> drive_, c_, c_new_, dc_, dh_, dmemory_, dx_, steps_;  // of the present time step
  RowSums<T> step_sums_;
  Gates<T> gates_;
  GradientScratch<T> scratch_;
  Flow flow_;
};

template <class T, class Flow>
void backward(const Problem<T>& p, const Gradients<T>& g, int threads) {
  const BackwardCellWeights<T> weights(p);
  const typename Flow::Weights flow(p, true);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  const Parameters<int64_t> size = sizes(p);
  BlockSums<T> sums(blocks.count(), std::accumulate(size.begin(), size.end(), int64_t(0)));
  parallel_blocks(blocks.count(), threads, [&](int64_t block, int) {
    Parameters<T*> own;
    T* next = sums.zeroed(block);
    for (int i = 0; i < kNames; next += size[i], ++i) own[i] = next;
    BackwardBlock<T, Flow>(p, g, weights, flow, blocks[block], own).run();
  });
  for (int64_t i = 0, first = 0; i < kNames; first += size[i], ++i)
    if (size[i] > 0) sums.sum_into(g.weights[i], first, size[i], threads);
}

}  // namespace mixed_memory
}  // namespace chronode
