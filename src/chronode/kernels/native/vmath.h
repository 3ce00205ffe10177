// exp, sigmoid and tanh of a vector register, and of a scalar with the same bits as a lane.
//
// Error bounds (tested on every instruction set, against float64 / mpmath):
//              float                 double
//   tanh       2e-7 absolute         1e-15 absolute     odd to the bit, |tanh| <= 1, small x accurate relatively too
//   sigmoid    2e-7 absolute         1e-15 absolute     in [0, 1], sigmoid(0) = 1/2
//   exp        3e-7 relative         2e-15 relative     overflows to inf, underflows gradually
// NaN gives NaN, infinities their limits. The bits of a result do not depend on the lane or on the code around it.
//
// How: 2^y = 2^n 2^f with n the nearest integer to y and |f| <= 1/2. Adding `magic` = 1.5 * 2^mantissa + exponent bias
// to y leaves n + bias in the low bits of the sum, which shifted into the exponent field are the number 2^n.
// The polynomials interpolate at Chebyshev nodes of [-0.501, 0.501] (2^f) and +-0.501 log 2 (e^r).
#pragma once

#include "simd.h"

namespace chronode {

template <class T> struct MathConstants;

template <> struct MathConstants<float> {
  static constexpr int kMantissaBits = 23;
  static constexpr float kMagic = 12582912.0f + 127.0f;
  static constexpr float kLog2e = 1.44269504f;
  static constexpr float kLn2High = 0.693359375f;  // few bits, so that n * kLn2High is exact without FMA too
  static constexpr float kLn2Low = -2.12194440e-4f;
  static constexpr float kExpLargest = 89.0f, kExpSmallest = -104.0f;
  static constexpr float kTanhOne = 9.1f;  // from here on tanh is 1 in this precision
  static constexpr float kPower[] = {1.0f, 0.693147188f, 0.240221031f, 0.0555035668f, 0.00967626432f, 0.00133910932f};
  static constexpr float kPowerMinus1[] = {0.693147188f,   0.240226508f,   0.0555035668f,
                                           0.00961808218f, 0.00133910932f, 0.000154533620f};
  static constexpr float kExp[] = {0.5f, 0.166665763f, 0.0416665538f, 0.00836329275f, 0.00139263256f};
};

template <> struct MathConstants<double> {
  static constexpr int kMantissaBits = 52;
  static constexpr double kMagic = 6755399441055744.0 + 1023.0;
  static constexpr double kLog2e = 1.4426950408889634074;
  static constexpr double kLn2High = 0.693145751953125;
  static constexpr double kLn2Low = 1.42860682030941723212e-6;
  static constexpr double kExpLargest = 710.0, kExpSmallest = -746.0;
  static constexpr double kTanhOne = 19.1;
  static constexpr double kPower[] = {1.0,
                                      0.693147180559950077,
                                      0.240226506959100988,
                                      0.0555041086644416922,
                                      0.00961812910760654052,
                                      0.00133335582311755217,
                                      0.00015403530442319545,
                                      0.000015252656645460359,
                                      1.32154422329693437e-6,
                                      1.02088130053603286e-7,
                                      7.07265679936292334e-9};
  static constexpr double kPowerMinus1[] = {0.693147180559945309,
                                            0.240226506959100988,
                                            0.0555041086648215946,
                                            0.00961812910760654052,
                                            0.00133335581464167498,
                                            0.00015403530442319545,
                                            0.0000152527338301471381,
                                            1.32154422329693437e-6,
                                            1.01780622566465422e-7,
                                            7.07265679936292334e-9,
                                            4.45499836310486857e-10};
  static constexpr double kExp[] = {0.5,
                                    0.166666666666666675,
                                    0.0416666666666234768,
                                    0.00833333333333001176,
                                    0.00138888889175382958,
                                    0.000198412698633032233,
                                    0.0000248015207925726928,
                                    2.75572680728900983e-6,
                                    2.76203274282682382e-7,
                                    2.51005692758136826e-8};
};

// out[i] = coefficients[0] + coefficients[1] x[i] + ...: Horner for short ones; long ones as two interleaved Horner
// chains in x^2, because a chain of ten dependent FMAs takes longer than the out-of-order window hides.
template <class T, int Count, int N>
CHRONODE_INLINE void polynomials(const Vec<T> (&x)[Count], const T (&coefficients)[N], Vec<T> (&out)[Count]) {
  if constexpr (N <= 6) {
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) out[i] = coefficients[N - 1];
#pragma GCC unroll 16
    for (int n = N - 2; n >= 0; --n)
#pragma GCC unroll 8
      for (int i = 0; i < Count; ++i) out[i] = fma(out[i], x[i], Vec<T>(coefficients[n]));
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) {
      const Vec<T> square = x[i] * x[i];
      Vec<T> first = coefficients[N - 1], second = coefficients[N - 2];
#pragma GCC unroll 16
      for (int n = N - 3; n >= 1; n -= 2) {
        first = fma(first, square, Vec<T>(coefficients[n]));
        second = fma(second, square, Vec<T>(coefficients[n - 1]));
      }
      // With an odd N the even powers end in `first`, one multiplication by x^2 short.
      if constexpr (N % 2) out[i] = fma(second, x[i], fma(first, square, Vec<T>(coefficients[0])));
      else out[i] = fma(first, x[i], second);
    }
  }
}
template <class T, int N>
CHRONODE_INLINE Vec<T> polynomial(Vec<T> x, const T (&coefficients)[N]) {
  const Vec<T> argument[1] = {x};
  Vec<T> out[1];
  polynomials<T>(argument, coefficients, out);
  return out[0];
}

// y = n + f; power = 2^n. Wants y within the exponent range (n + bias from 0, which gives 0, to the one of infinity).
template <class T>
struct SplitPower {
  Vec<T> n, power;
  CHRONODE_INLINE explicit SplitPower(Vec<T> y) {
    const Vec<T> magic = MathConstants<T>::kMagic;
    const Vec<T> shifted = opaque(y + magic);  // opaque: no FMA with the product that y may be
    n = shifted - magic;
    power = from_bits<T>(bits(shifted) << MathConstants<T>::kMantissaBits);
  }
};

template <class T>
CHRONODE_INLINE Vec<T> exp(Vec<T> x) {
  using C = MathConstants<T>;
  x = at_least(at_most(x, Vec<T>(C::kExpLargest)), Vec<T>(C::kExpSmallest));
  const SplitPower<T> whole(opaque(x * Vec<T>(C::kLog2e)));
  // 2^n in two factors: n alone may exceed the exponent range at either end.
  const SplitPower<T> half(opaque(whole.n * Vec<T>(T(0.5))));
  const SplitPower<T> rest(whole.n - half.n);
  Vec<T> r = fnma(whole.n, Vec<T>(C::kLn2High), x);
  r = opaque(fnma(whole.n, Vec<T>(C::kLn2Low), r));
  const Vec<T> e = fma(opaque(r * r), polynomial<T>(r, C::kExp), r) + Vec<T>(T(1));
  return opaque(opaque(e * half.power) * rest.power);
}

// y[i] = 1 / (1 + 2^y[i]): sigmoids whose arguments the caller has already multiplied by -log2(e). Several at once,
// stage by stage, keep the pipelines busier than one after the other. Clamp may be false if all |y| <= kCalmPower.
template <class T> constexpr T kCalmPower = T(int64_t(1) << (8 * sizeof(T) - 2 - MathConstants<T>::kMantissaBits)) - 2;

template <class T, int N, bool Clamp>
CHRONODE_INLINE void sigmoids_of_powers(Vec<T> (&y)[N]) {
  using C = MathConstants<T>;
  // The lower limit leaves 2^n = 0, the upper one infinity, so that the result reaches 1 and 0.
  constexpr T kBias = kCalmPower<T> + 1;
  const Vec<T> one = T(1), magic = C::kMagic;
  Vec<T> power[N], e[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    if constexpr (Clamp) y[i] = at_least(at_most(y[i], Vec<T>(kBias + 1)), Vec<T>(-kBias));
    power[i] = opaque(y[i] + magic);  // as in SplitPower
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) y[i] -= power[i] - magic;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) power[i] = from_bits<T>(bits(power[i]) << C::kMantissaBits);
  polynomials<T>(y, C::kPower, e);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) e[i] = fma(e[i], power[i], one);
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) y[i] = opaque(one / e[i]);
}

template <class T>
CHRONODE_INLINE Vec<T> sigmoid(Vec<T> x) {
  // y rounded once is enough: its error |y| eps is multiplied by sigmoid' ~ 2^-|y|.
  Vec<T> y[1] = {opaque(x * Vec<T>(-MathConstants<T>::kLog2e))};
  sigmoids_of_powers<T, 1, true>(y);
  return y[0];
}

template <class T>
CHRONODE_INLINE Vec<T> tanh(Vec<T> x) {
  using C = MathConstants<T>;
  // tanh|x| = m / (m + 2) with m = e^(2|x|) - 1 = 2^n (2^f - 1) + (2^n - 1), which keeps every digit of a small x.
  const typename Vec<T>::Bits sign = bits(x) & bits(Vec<T>(T(-0.0)));
  const Vec<T> magnitude = from_bits<T>(bits(x) ^ sign);
  const Vec<T> y = opaque(at_most(magnitude, Vec<T>(C::kTanhOne)) * Vec<T>(2 * C::kLog2e));
  const SplitPower<T> s(y);
  const Vec<T> f = y - s.n;
  const Vec<T> fraction = opaque(f * polynomial<T>(f, C::kPowerMinus1));
  const Vec<T> m = fma(s.power, fraction, s.power - Vec<T>(T(1)));
  return from_bits<T>(bits(opaque(m / (m + Vec<T>(T(2))))) | sign);
}

// Scalars, with the bits that a vector lane gives.
template <class T> CHRONODE_INLINE T exp_scalar(T x) { return exp(Vec<T>(x)).v[0]; }
template <class T> CHRONODE_INLINE T sigmoid_scalar(T x) { return sigmoid(Vec<T>(x)).v[0]; }
template <class T> CHRONODE_INLINE T tanh_scalar(T x) { return tanh(Vec<T>(x)).v[0]; }

// out[i] = f(in[i]) for i < n; in and out may be the same array. The remainder goes through partial lanes.
template <class T, class F>
CHRONODE_INLINE void map_array(const T* in, T* out, int64_t n, F f) {
  constexpr int kLanes = Vec<T>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(Vec<T>::load(in + i)).store(out + i);
  if (i < n) f(Vec<T>::load(in + i, static_cast<int>(n - i))).store(out + i, static_cast<int>(n - i));
}

}  // namespace chronode
