// Element-wise functions that generated kernels use beside those of vmath.h. NaN propagates as in torch.
#pragma once

#include <cmath>

#include "vmath.h"

namespace chronode {

// f of each lane: for functions that are too rare to be worth a polynomial.
template <class T, class F>
CHRONODE_INLINE Vec<T> each_lane(Vec<T> a, F f) {
  T lanes[Vec<T>::kLanes];
  a.store(lanes);
  for (int i = 0; i < Vec<T>::kLanes; ++i) lanes[i] = f(lanes[i]);
  return Vec<T>::load(lanes);
}
template <class T, class F>
CHRONODE_INLINE Vec<T> each_lane(Vec<T> a, Vec<T> b, F f) {
  T left[Vec<T>::kLanes], right[Vec<T>::kLanes];
  a.store(left);
  b.store(right);
  for (int i = 0; i < Vec<T>::kLanes; ++i) left[i] = f(left[i], right[i]);
  return Vec<T>::load(left);
}

template <class T> CHRONODE_INLINE Vec<T> absolute(Vec<T> a) {
  return from_bits<T>(bits(a) & ~bits(Vec<T>(T(-0.0))));
}
template <class T> CHRONODE_INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) { return select<T>((a < b) | (a != a), a, b); }
template <class T> CHRONODE_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) { return select<T>((a > b) | (a != a), a, b); }
template <class T> CHRONODE_INLINE Vec<T> relu(Vec<T> a) { return select<T>(a <= Vec<T>::zero(), Vec<T>::zero(), a); }
template <class T> CHRONODE_INLINE Vec<T> sign(Vec<T> a) {
  const Vec<T> one = T(1), zero = Vec<T>::zero();
  return select<T>(a > zero, one, select<T>(a < zero, -one, a));
}
template <class T> CHRONODE_INLINE Vec<T> reciprocal(Vec<T> a) { return Vec<T>(T(1)) / a; }
template <class T> CHRONODE_INLINE Vec<T> square_root(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm512_sqrt_ps((__m512)a.v));
  else return Vec<T>((typename Vec<T>::Native)_mm512_sqrt_pd((__m512d)a.v));
#elif defined(__AVX__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm256_sqrt_ps((__m256)a.v));
  else return Vec<T>((typename Vec<T>::Native)_mm256_sqrt_pd((__m256d)a.v));
#else
  return each_lane(a, [](T x) { return std::sqrt(x); });
#endif
}
template <class T> CHRONODE_INLINE Vec<T> floor(Vec<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm512_floor_ps((__m512)a.v));
  else return Vec<T>((typename Vec<T>::Native)_mm512_floor_pd((__m512d)a.v));
#elif defined(__AVX__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm256_floor_ps((__m256)a.v));
  else return Vec<T>((typename Vec<T>::Native)_mm256_floor_pd((__m256d)a.v));
#else
  return each_lane(a, [](T x) { return std::floor(x); });
#endif
}
template <class T> CHRONODE_INLINE Vec<T> ceil(Vec<T> a) { return -floor(-a); }
// To the nearest whole number, halves to the even one.
template <class T> CHRONODE_INLINE Vec<T> round(Vec<T> a) {
  const Vec<T> whole = floor(a), rest = a - whole, half = T(0.5);
  const Vec<T> even = floor(whole * half) + floor(whole * half);
  const Vec<T> up = whole + Vec<T>(T(1));
  return select<T>(rest > half, up, select<T>(rest < half, whole, select<T>(rest == half, select<T>(even == whole, whole, up), a)));
}
// a modulo b, with the sign of b.
template <class T> CHRONODE_INLINE Vec<T> remainder(Vec<T> a, Vec<T> b) {
  return each_lane(a, b, [](T x, T y) {
    const T rest = std::fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  });
}

// From here down e^a - 1 is -1 in this precision.
template <class T> constexpr T kExpm1MinusOne = sizeof(T) == 4 ? T(20) : T(45);

// log(1 + u) for u in [0, 1]: 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = u / (2 + u) <= 1/3.
template <class T> CHRONODE_INLINE Vec<T> log_one_plus_small(Vec<T> u) {
  constexpr int kTerms = sizeof(T) == 4 ? 8 : 17;
  const Vec<T> s = u / (u + Vec<T>(T(2))), square = s * s;
  Vec<T> sum = T(1) / T(2 * kTerms - 1);
#pragma GCC unroll 17
  for (int n = kTerms - 2; n >= 0; --n) sum = fma(sum, square, Vec<T>(T(1) / T(2 * n + 1)));
  return (s + s) * sum;
}
// log(1 + e^a), and a itself above 20, as torch has it.
template <class T> CHRONODE_INLINE Vec<T> softplus(Vec<T> a) {
  const Vec<T> tail = log_one_plus_small(exp(-absolute(a)));
  return select<T>(a > Vec<T>(T(20)), a, relu(a) + tail);
}
template <class T> CHRONODE_INLINE Vec<T> log(Vec<T> a) { return each_lane(a, [](T x) { return std::log(x); }); }
template <class T> CHRONODE_INLINE Vec<T> log1p(Vec<T> a) { return each_lane(a, [](T x) { return std::log1p(x); }); }
// e^a - 1 = 2^n (e^r - 1) + (2^n - 1) with a = n log 2 + r: where n is 0, no digit of a small a is lost.
template <class T> CHRONODE_INLINE Vec<T> expm1(Vec<T> a) {
  using C = MathConstants<T>;
  const Vec<T> x = at_least(at_most(a, Vec<T>(C::kExpLargest)), Vec<T>(-kExpm1MinusOne<T>));
  const SplitPower<T> whole(opaque(x * Vec<T>(C::kLog2e)));
  const SplitPower<T> half(opaque(whole.n * Vec<T>(T(0.5))));
  const SplitPower<T> rest(whole.n - half.n);
  Vec<T> r = fnma(whole.n, Vec<T>(C::kLn2High), x);
  r = opaque(fnma(whole.n, Vec<T>(C::kLn2Low), r));
  const Vec<T> e = fma(opaque(r * r), polynomial<T>(r, C::kExp), r);
  // 2^n in two factors: n alone may exceed the exponent range.
  const Vec<T> shifted = fma(e, half.power, half.power - reciprocal(rest.power));
  return opaque(shifted * rest.power);
}
template <class T> CHRONODE_INLINE Vec<T> sine(Vec<T> a) { return each_lane(a, [](T x) { return std::sin(x); }); }
template <class T> CHRONODE_INLINE Vec<T> cosine(Vec<T> a) { return each_lane(a, [](T x) { return std::cos(x); }); }
template <class T> CHRONODE_INLINE Vec<T> error_function(Vec<T> a) { return each_lane(a, [](T x) { return std::erf(x); }); }
template <class T> CHRONODE_INLINE Vec<T> arc_tangent(Vec<T> a) { return each_lane(a, [](T x) { return std::atan(x); }); }
template <class T> CHRONODE_INLINE Vec<T> power(Vec<T> a, Vec<T> b) {
  return each_lane(a, b, [](T x, T y) { return std::pow(x, y); });
}

// The largest lane.
template <class T> CHRONODE_INLINE T largest(Vec<T> a) {
  T lanes[Vec<T>::kLanes];
  a.store(lanes);
  T most = lanes[0];
  for (int i = 1; i < Vec<T>::kLanes; ++i) most = lanes[i] > most || lanes[i] != lanes[i] ? lanes[i] : most;
  return most;
}

// Elements `stride` apart.
template <class T> CHRONODE_INLINE Vec<T> load_strided(const T* p, int64_t stride, int lanes) {
  T values[Vec<T>::kLanes] = {};
  for (int i = 0; i < lanes; ++i) values[i] = p[i * stride];
  return Vec<T>::load(values);
}
template <class T> CHRONODE_INLINE void store_strided(Vec<T> a, T* p, int64_t stride, int lanes) {
  T values[Vec<T>::kLanes];
  a.store(values);
  for (int i = 0; i < lanes; ++i) p[i * stride] = values[i];
}
// The first lanes of a, zeros (or another value) behind them.
template <class T> CHRONODE_INLINE Vec<T> within(Vec<T> a, int lanes, T other = T(0)) {
  return lanes == Vec<T>::kLanes ? a : select<T>(first_lanes<T>(lanes), a, Vec<T>(other));
}

}  // namespace chronode
