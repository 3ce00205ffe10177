// iRNN and ERNN: the backward. See equilibrium.h for the algorithm.
//
// Back through one of the K steps, with the gradient G of its g:
//   deta += G . (f - gamma q),   da = eta G phi'(f),   dc += da,   dq = U^T da - eta gamma G,   G += dq,   dshift += dq
//   low-rank: U^T da = da + down dz with dz = up^T da;  dup += da^T z,  ddown += q^T dz.   full: dup += da^T q
#pragma once

#include "equilibrium.h"

namespace chronode {
namespace equilibrium {

// What the backward reads beyond the problem, and what it writes. grad_y and grad_h may be null: zero. dx may be null.
template <class T>
struct Gradients {
  const T *y, *grad_y, *grad_h;
  T *dx, *dh0, *dweight, *dbias, *dup, *ddown, *deta;
};

template <class T>
struct BackwardWeights : Weights<T> {
  PackedMatrix<T> input_back, down_back, up_back;
  explicit BackwardWeights(const Problem<T>& p)
      : Weights<T>(p),
        input_back(PackedMatrix<T>::pack(p.weight, p.inputs, p.hidden, p.inputs)),
        up_back(PackedMatrix<T>::pack(p.up, p.rank, p.hidden, p.rank)) {
    if (p.low_rank()) down_back = PackedMatrix<T>::pack_transposed(p.down, p.rank, p.rank, p.hidden);
  }
};

// Where each weight's gradient stands in a block's buffer of sums.
template <class T>
struct SumLayout {
  int64_t weight = 0, bias, up, down, eta, size;
  explicit SumLayout(const Problem<T>& p)
      : bias(p.hidden * p.inputs),
        up(bias + p.hidden),
        down(up + p.hidden * p.rank),
        eta(down + (p.low_rank() ? p.hidden * p.rank : 0)),
        size(eta + p.K * p.eta_steps) {}
};

template <class Phi, class T>
class BackwardBlock {
 public:
  BackwardBlock(const Problem<T>& p, const Gradients<T>& g, const BackwardWeights<T>& w, const SampleBlock& block,
                T* sums)
      : p_(p),
        g_(g),
        w_(w),
        block_(block),
        layout_(p),
        sums_(sums),
        capacity_(block.rows * std::max<int64_t>(1, kEnoughRows / (block.rows * p.K))),
        x_(capacity_ * p.inputs),
        dc_(capacity_ * p.hidden),
        q_(capacity_ * p.K * p.hidden),
        da_(capacity_ * p.K * p.hidden),
        z_(capacity_ * p.K * p.rank),
        dz_(p.low_rank() ? capacity_ * p.K * p.rank : 0),
        f_(block.rows * p.K * p.hidden),
        dh_(block.rows * p.hidden),
        dshift_(block.rows * p.hidden),
        dx_(g.dx != nullptr ? block.rows * p.inputs : 0),
        etas_(p.K * block.rows),
        now_(block.rows * p.hidden),
        eta_sums_(p.K * block.rows),
        scratch_(p.hidden) {}

  void run() {
    const int64_t H = p_.hidden, step = p_.batch * H;
    if (g_.grad_h != nullptr) block_.gather(g_.grad_h, H, block_.rows, dh_.data(), H);
    else dh_.clear();
    for (int64_t n = block_.steps() - 1; n >= 0; --n) {
      active_ = block_.active(n);
      if (filled_ + active_ > capacity_) flush();
      if (g_.grad_y != nullptr) add_output_gradient(g_.grad_y + n * step);
      recompute(n, n > 0 ? g_.y + (n - 1) * step : p_.h0);
      go_back(n);
      filled_ += active_;
    }
    flush();
    block_.scatter(dh_.data(), H, H, block_.rows, g_.dh0);
    if (g_.dx != nullptr) block_.clear_padding(g_.dx, p_.steps, p_.inputs);
  }

 private:
  static constexpr int64_t kEnoughRows = 64;  // for a weight gradient to run at the speed of a large product

  // Slot k of this time step in buffers that gather rows for the weight gradients.
  T* slot(Buffer<T>& buffer, int64_t k, int64_t width) {
    return buffer.data() + (filled_ * p_.K + k * active_) * width;
  }

  void add_output_gradient(const T* grad_y) {
    for (int64_t row = 0; row < active_; ++row) {
      const T* from = grad_y + block_.samples[row] * p_.hidden;
      T* to = dh_.data() + row * p_.hidden;
      for_vectors<T>(p_.hidden, [&](int64_t i, int lanes) {
        (Vec<T>::load(to + i, lanes) + Vec<T>::load(from + i, lanes)).store(to + i, lanes);
      });
    }
  }

  // The K steps of time step n once more, into the slots; h is the state before it, (batch, hidden).
  void recompute(int64_t n, const T* h) {
    const int64_t H = p_.hidden, D = p_.inputs;
    T* x = x_.data() + filled_ * D;
    block_.gather(p_.x + n * p_.batch * D, D, active_, x, D);
    gemm(x, D, active_, w_.input, now_.c.data(), H);
    read_etas(p_, block_, n, active_, etas_.data());
    T* q = slot(q_, 0, H);
    block_.gather(h, H, active_, q, H);
    now_.begin(p_, active_, q, q);
    for (int64_t k = 0; k < p_.K; ++k)
      advance<Phi>(p_, w_, active_, etas(k), slot(q_, k, H), now_, slot(z_, k, p_.rank), f(k),
                   k + 1 < p_.K ? slot(q_, k + 1, H) : nullptr);
  }

  void go_back(int64_t n) {
    const int64_t H = p_.hidden;
    T *dc = dc_.data() + filled_ * H, *dh = dh_.data();
    const T* dshift = dshift_.data();
    std::fill_n(dshift_.data(), active_ * H, T(0));
    const auto enter = entering(p_.K - 1, dc, true);
    for_rows<T>(active_, H, [&](int64_t row, int64_t i, int lanes) {
      enter(row, i, Vec<T>::load(dh + i, lanes), lanes);
    });
    for (int64_t k = p_.K - 1; k > 0; --k) leave(k, entering(k - 1, dc, false));
    const bool from_previous = p_.from_previous;
    const Vec<T> sign = p_.sign;
    leave(0, [=](int64_t, int64_t i, Vec<T> gradient, int lanes) CHRONODE_LAMBDA_INLINE {
      const Vec<T> of_start = from_previous ? gradient : Vec<T>::zero();
      fma(sign, Vec<T>::load(dshift + i, lanes), of_start).store(dh + i, lanes);
    });
    add_eta_gradient(n);
    if (g_.dx != nullptr) {
      T* dx = g_.dx + n * p_.batch * p_.inputs;
        const int64_t D = p_.inputs;
      gemm(dc, H, active_, w_.input_back, dx_.data(), D);
      block_.scatter(dx_.data(), D, D, active_, dx);
    }
  }

  // What the gradient of step k's result gives before any product: deta, da and dc.
  auto entering(int64_t k, T* dc, bool first) {
    const T *value = f(k), *at = slot(q_, k, p_.hidden), *eta = etas(k);
    T* da = slot(da_, k, p_.hidden);
    const Vec<T> gamma = p_.gamma;
    RowSums<T>* sums = &eta_sums_;
    const int64_t first_sum = k * block_.rows;
    return [=](int64_t row, int64_t i, Vec<T> gradient, int lanes) CHRONODE_LAMBDA_INLINE {
      const Vec<T> v = Vec<T>::load(value + i, lanes);
      sums->add(first_sum + row, gradient * fnma(gamma, Vec<T>::load(at + i, lanes), v));
      const Vec<T> inner = Vec<T>(eta[row]) * gradient * Phi::slope(v);
      inner.store(da + i, lanes);
      (first ? inner : Vec<T>::load(dc + i, lanes) + inner).store(dc + i, lanes);
    };
  }

  // Takes the gradient of g after step k, in dh, to that before it, which give(row, offset, gradient, lanes) receives.
  template <class Give>
  void leave(int64_t k, Give give) {
    const int64_t H = p_.hidden;
    const bool low_rank = p_.low_rank();
    const T *da = slot(da_, k, H), *eta = etas(k);
    T *dg = dh_.data(), *dshift = dshift_.data();
    const Vec<T> gamma = p_.gamma;
    const auto emit = [=](int64_t row, int64_t column, Vec<T> dq, int lanes) CHRONODE_LAMBDA_INLINE {
      const int64_t i = row * H + column;
      if (low_rank) dq += Vec<T>::load(da + i, lanes);
      const Vec<T> gradient = Vec<T>::load(dg + i, lanes);
      dq = fnma(gamma * Vec<T>(eta[row]), gradient, dq);
      (Vec<T>::load(dshift + i, lanes) + dq).store(dshift + i, lanes);
      (gradient + dq).store(dg + i, lanes);
      give(row, i, gradient + dq, lanes);
    };
    if (!low_rank) return gemm_then(da, H, active_, w_.up_back, now_.product.data(), emit);
    T* dz = slot(dz_, k, p_.rank);
    gemm(da, H, active_, w_.up_back, dz, p_.rank);
    gemm_then(dz, p_.rank, active_, w_.down_back, now_.product.data(), emit);
  }

  void add_eta_gradient(int64_t n) {
    for (int64_t k = 0; k < p_.K; ++k)
      for (int64_t row = 0; row < active_; ++row)
        sums_[layout_.eta + k * p_.eta_steps + p_.eta_index(block_.samples[row], n)] +=
            eta_sums_.take(k * block_.rows + row);
  }

  // Multiplies the factors gathered so far into the weight gradients.
  void flush() {
    const int64_t H = p_.hidden, D = p_.inputs, r = p_.rank, rows = filled_ * p_.K;
    gemm_gradient(dc_.data(), H, x_.data(), D, filled_, H, D, sums_ + layout_.weight, D, scratch_);
    add_column_sums(dc_.data(), H, filled_, H, sums_ + layout_.bias);
    const Buffer<T>& inner = p_.low_rank() ? z_ : q_;
    gemm_gradient(da_.data(), H, inner.data(), r, rows, H, r, sums_ + layout_.up, r, scratch_);
    if (p_.low_rank()) gemm_gradient(q_.data(), H, dz_.data(), r, rows, H, r, sums_ + layout_.down, r, scratch_);
    filled_ = 0;
  }

  const T* etas(int64_t k) { return etas_.data() + k * block_.rows; }
  T* f(int64_t k) { return f_.data() + k * block_.rows * p_.hidden; }

  const Problem<T>& p_;
  const Gradients<T>& g_;
  const BackwardWeights<T>& w_;
  const SampleBlock block_;
  const SumLayout<T> layout_;
  T* const sums_;
  const int64_t capacity_;                  // samples whose factors are gathered before they are multiplied
  int64_t filled_ = 0, active_ = 0;         // samples gathered; rows of the present time step
  Buffer<T> x_, dc_, q_, da_, z_, dz_;      // of the samples gathered
  Buffer<T> f_, dh_, dshift_, dx_, etas_;   // of the present time step
  Recursion<T> now_;
  RowSums<T> eta_sums_;
  GradientScratch<T> scratch_;
};

template <class Phi, class T>
void backward(const Problem<T>& p, const Gradients<T>& g, int threads) {
  const BackwardWeights<T> weights(p);
  const SumLayout<T> layout(p);
  const SampleBlocks blocks(p.steps, p.batch, p.lengths, block_rows(p.batch));
  BlockSums<T> sums(blocks.count(), layout.size);
  parallel_blocks(blocks.count(), threads, [&](int64_t block, int) {
    BackwardBlock<Phi, T>(p, g, weights, blocks[block], sums.zeroed(block)).run();
  });
  sums.sum_into(g.dweight, layout.weight, p.hidden * p.inputs, threads);
  sums.sum_into(g.dbias, layout.bias, p.hidden, threads);
  sums.sum_into(g.dup, layout.up, p.hidden * p.rank, threads);
  if (p.low_rank()) sums.sum_into(g.ddown, layout.down, p.hidden * p.rank, threads);
  sums.sum_into(g.deta, layout.eta, p.K * p.eta_steps, threads);
}

}  // namespace equilibrium
}  // namespace chronode
