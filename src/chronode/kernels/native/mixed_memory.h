// mmRNN over a whole sequence: the cell, and what forward and backward share. See mixed_memory_flow.h for h'.
//
//   a_f, a_i, a_z, a_o = weight [x, h] + bias
//   c' = c sigmoid(a_f) + sigmoid(a_i) tanh(a_z)
//   memory = sigmoid(a_o) tanh(c'), or c' ("paper", which has no a_o)
//   h' = the flow for the time dt, from `memory`, or from h and driven by drive * memory ("driven")
//
// A block of samples runs through all of time with its state and the packed weights in cache. The forward keeps c and h
// of every step; the backward recomputes gates and sub-steps of a time step from there, goes back through them, and lets
// the factors of the weight gradients gather over a few time steps before they are multiplied.
#pragma once

#include <array>

#include "gemm.h"
#include "sequence.h"
#include "vmath.h"

namespace chronode {
namespace mixed_memory {

// The weights, in the order of the C functions' arguments. Those that a setting does not have are null.
enum Name {
  kWeight,        // gates * hidden x (inputs + hidden), the gates in the order f, i, z, o
  kBias,          // gates * hidden
  kInner,         // hidden x hidden: W1 of the mlp flow, R of the ctrnn flow
  kInnerBias,     // hidden
  kProduct,       // hidden x hidden: W1 W2 (mlp)
  kProductBias,   // hidden: W1 b2 (mlp)
  kOuter,         // hidden x hidden: W2 (mlp)
  kOuterBias,     // hidden: b2 times the number of sub-steps (mlp)
  kScale,         // hidden: s (ctrnn)
  kDrive,         // hidden x hidden: K (driven)
  kNames
};
template <class P> using Parameters = std::array<P, kNames>;

enum Variant { kGated, kPaper, kDriven };
enum Gate { kForget, kWrite, kValue, kOut };

// An explicit Runge-Kutta method whose stage i starts from h + a[i] step k[i-1] and whose result is h + step sum w[i] k[i].
template <class T>
struct Method {
  int64_t stages;
  T a[4], w[4];
};
// In the order of kernels/_mixed_memory.py: euler, midpoint, heun, rk4.
template <class T>
Method<T> method(int64_t number) {
  const Method<T> methods[] = {{1, {0}, {1}},
                               {2, {0, T(0.5)}, {0, 1}},
                               {2, {0, 1}, {T(0.5), T(0.5)}},
                               {4, {0, T(0.5), T(0.5), 1}, {T(1) / 6, T(1) / 3, T(1) / 3, T(1) / 6}}};
  return methods[number];
}

template <class T>
struct Problem {
  const T *x, *dt, *c0, *h0;  // (steps, batch, inputs), (steps, batch), (batch, hidden) twice
  Parameters<const T*> weights;
  const int64_t* lengths;
  int64_t steps, batch, inputs, hidden, variant, substeps;
  Method<T> method;

  int64_t gates() const { return variant == kPaper ? 3 : 4; }
  int64_t columns() const { return inputs + hidden; }  // of [x, h]
  int64_t evaluations() const { return substeps * method.stages; }
  bool ctrnn() const { return weights[kScale] != nullptr; }
};

inline int64_t block_rows(int64_t batch) { return std::clamp<int64_t>((batch + 3) / 4, 4, 16); }

// How many elements each parameter has; 0 where the setting has none.
template <class T>
Parameters<int64_t> sizes(const Problem<T>& p) {
  const int64_t H = p.hidden, square = H * H, ctrnn = p.ctrnn(), mlp = 1 - ctrnn, driven = p.variant == kDriven;
  return {p.gates() * H * p.columns(), p.gates() * H, square, H, mlp * square, mlp * H, mlp * square, mlp * H,
          ctrnn * H, driven * square};
}

template <class T>
struct CellWeights {
  PackedMatrix<T> gate[4], drive;
  explicit CellWeights(const Problem<T>& p) {
    const int64_t H = p.hidden, columns = p.columns();
    for (int64_t g = 0; g < p.gates(); ++g)
      gate[g] = PackedMatrix<T>::pack_transposed(p.weights[kWeight] + g * H * columns, columns, columns, H,
                                                 p.weights[kBias] + g * H);
    if (p.variant == kDriven) drive = PackedMatrix<T>::pack_transposed(p.weights[kDrive], H, H, H);
  }
};

// The gates of one time step, after their activations: rows x hidden each.
template <class T>
struct Gates {
  Buffer<T> value[4], tanh_c, product;
  explicit Gates(int64_t size) : tanh_c(size), product(size) {
    for (Buffer<T>& gate : value) gate = Buffer<T>(size);
  }
  T* operator[](Gate gate) { return value[gate].data(); }
};

// c_new and memory of one time step from the rows [x, h] and c; c_new may be c.
template <class T>
void update_memory(const Problem<T>& p, const CellWeights<T>& w, int64_t active, const T* xh, const T* c, T* c_new,
                   T* memory, Gates<T>& gates) {
  const int64_t H = p.hidden, columns = p.columns();
  T *forget = gates[kForget], *write = gates[kWrite], *value = gates[kValue], *out = gates[kOut];
  T *tanh_c = gates.tanh_c.data(), *product = gates.product.data();
  for (Gate gate : {kForget, kWrite}) {
    gemm(xh, columns, active, w.gate[gate], gates[gate], H);
    map_array(gates[gate], gates[gate], active * H, [](Vec<T> a) { return sigmoid(a); });
  }
  const bool paper = p.variant == kPaper;
  gemm_then(xh, columns, active, w.gate[kValue], product,
            [=](int64_t row, int64_t column, Vec<T> a, int lanes) CHRONODE_LAMBDA_INLINE {
              const int64_t i = row * H + column;
              const Vec<T> z = tanh(a);
              z.store(value + i, lanes);
              const Vec<T> kept = Vec<T>::load(c + i, lanes) * Vec<T>::load(forget + i, lanes);
              const Vec<T> updated = fma(Vec<T>::load(write + i, lanes), z, kept);
              updated.store(c_new + i, lanes);
              if (paper) updated.store(memory + i, lanes);
            });
  if (paper) return;
  gemm_then(xh, columns, active, w.gate[kOut], product,
            [=](int64_t row, int64_t column, Vec<T> a, int lanes) CHRONODE_LAMBDA_INLINE {
              const int64_t i = row * H + column;
              const Vec<T> o = sigmoid(a), t = tanh(Vec<T>::load(c_new + i, lanes));
              o.store(out + i, lanes);
              t.store(tanh_c + i, lanes);
              (o * t).store(memory + i, lanes);
            });
}

// The step of the solver for each row: its dt at time step n over the number of sub-steps.
template <class T>
void read_steps(const Problem<T>& p, const SampleBlock& block, int64_t n, int64_t active, T* steps) {
  for (int64_t row = 0; row < active; ++row)
    steps[row] = p.dt[n * p.batch + block.samples[row]] / static_cast<T>(p.substeps);
}

}  // namespace mixed_memory
}  // namespace chronode
