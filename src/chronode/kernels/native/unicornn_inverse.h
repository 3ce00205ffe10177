// UnICORNN's inverse: how far the backward pass may go back by it in the precision that it has.
//
// A step of size s = e dt is undone by y = y' - s z', z = z' + s [tanh(w y + u) + alpha y]. An error (dy, dz) of what it
// starts from becomes dy - s dz, dz + s k (dy - s dz) with the stiffness k = alpha + w tanh'(w y + u), at most
// K = alpha + |w|. In units in which an oscillator of stiffness K moves on a circle, (sqrt(K) dy, dz), that is
//   [1, -r; r, 1 - r^2]  with  r = s sqrt(K).
// - Growth. For r < 2 the eigenvalues are on the unit circle and K dy^2 + dz^2 - r sqrt(K) dy dz is conserved: however
//   many steps are undone, an error grows at most by sqrt((2 + r) / (2 - r)). For r > 2 it grows at every step, in the
//   end by r^2 - 2: forward, the step magnifies a difference of states in one direction, backward in the other.
// - Digits lost in a step. y is the difference of y' and s z', which are up to 1 + r + r^2 times as large as the state
//   before the step; what was rounded off from them is missing in y.
// So a step is safe up to r = 1, a sixth of a period: errors grow by sqrt(3) at most, and half a digit is lost, about what
// rounding takes from the forward pass itself. At r = 2 the growth is no longer bounded; at r = 20 (a gap of 400 with an
// effective step of 0.05) a float is left with four of its seven digits, at r = 500 with one.
// - Digits lost on the way. Undoing many safe steps rounds each state to the digits of the largest one met. A driven
//   oscillator grows with time: the smaller a state is compared with later ones, the fewer of its digits can be restored.
//   The way back is safe while a layer's states are at least 1/kLoss as large as the largest since it began: a digit and
//   a bit lost by the last of them, fewer by those before it.
//
// (Where k varies from step to step errors may also grow because trajectories of a driven oscillator diverge. Those of
// the forward pass then do so, too, and no gradient is more exact than its forward pass.)
#pragma once

#include <cmath>
#include <vector>

#include "unicornn.h"

namespace chronode {
namespace unicornn {

// Watches the way back of a block of samples, chunk after chunk.
template <class T>
class Inverse {
 public:
  explicit Inverse(Workspace<T>& space) : largest_(static_cast<size_t>(space.in.shape.layers * space.chunk.samples)) {
    const Inputs<T>& in = space.in;
    for (int64_t i = 0; i < in.shape.layers * in.shape.hidden; ++i) {
      const T stiffness = in.parameters.alpha[i / in.shape.hidden] + std::abs(in.parameters.w[i]);
      reach_ = std::max(reach_, std::abs(in.parameters.e[i]) * std::sqrt(stiffness));
    }
    begin(space);
  }

  // The states are exact here.
  void begin(Workspace<T>& space) {
    std::fill(largest_.begin(), largest_.end(), T(0));
    kept_digits(space);
  }

  // Whether every step of the chunk can be undone.
  bool is_safe(const Chunk<T>& chunk) const {
    for (int64_t t = 0; t < chunk.steps; ++t)
      for (int64_t i = 0; i < chunk.samples; ++i)
        if (t < chunk.valid[i] && !(reach_ * std::abs(chunk.dt[t * chunk.samples + i]) <= 1)) return false;
    return true;
  }

  // Whether the states, restored by the inverse since `begin`, are large enough to have their digits.
  bool kept_digits(Workspace<T>& space) {
    bool all = true;
    for (int64_t l = 0; l < space.in.shape.layers; ++l)
      for (int64_t i = 0; i < space.chunk.samples; ++i) {
        const T size = squared_size(space, l, i);
        T& largest = largest_[static_cast<size_t>(l * space.chunk.samples + i)];
        largest = std::max(largest, size);
        all = all && size * kLoss * kLoss >= largest;
      }
    return all;
  }

 private:
  // K y^2 + z^2 of a sample, over all units.
  static T squared_size(Workspace<T>& space, int64_t layer, int64_t sample) {
    const Oscillators<T> units = space.oscillators(layer);
    const T *y = space.y(layer) + sample * units.stride, *z = space.z(layer) + sample * units.stride;
    const Vec<T> alpha = units.alpha;
    Vec<T> total = Vec<T>::zero();
    for (int64_t i = 0; i < units.hidden; i += Vec<T>::kLanes) {
      const Vec<T> w = Vec<T>::load(units.w + i), yi = Vec<T>::load(y + i), zi = Vec<T>::load(z + i);
      total = fma(alpha + at_least(w, -w), yi * yi, fma(zi, zi, total));
    }
    return sum(total);
  }

  static constexpr T kLoss = 16;

  T reach_ = 0;  // r of a step with dt = 1, of the fastest oscillator
  std::vector<T> largest_;
};

}  // namespace unicornn
}  // namespace chronode
