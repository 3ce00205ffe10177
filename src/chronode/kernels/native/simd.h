// One vector register of the instruction set being compiled, as a value type.
//
// Built on the vector extensions of GCC and clang, so the same source serves SSE2, AVX2, AVX-512 and NEON; the only
// intrinsics are where the extensions have no word for it. Everything is inline: the library of each instruction set
// is compiled separately and nothing here may be shared between them.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// With a sanitizer's checks in every copy of an inlined function a file would take many minutes to compile.
#define CHRONODE_INLINE inline
#define CHRONODE_LAMBDA_INLINE
#else
#define CHRONODE_INLINE inline __attribute__((always_inline))
#define CHRONODE_LAMBDA_INLINE __attribute__((always_inline))
#endif
#define CHRONODE_EXPORT extern "C" __attribute__((visibility("default")))

namespace chronode {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 16;
#endif

template <class T> struct Register;  // spelled out per type: GCC mistakes a dependent vector type for its element
template <> struct Register<float> {
  using Int = int32_t;
  typedef float Native __attribute__((vector_size(kVectorBytes)));
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
};
template <> struct Register<double> {
  using Int = int64_t;
  typedef double Native __attribute__((vector_size(kVectorBytes)));
  typedef int64_t Bits __attribute__((vector_size(kVectorBytes)));
};

template <class T>
struct Vec {
  using Int = typename Register<T>::Int;
  using Native = typename Register<T>::Native;
  using Bits = typename Register<T>::Bits;  // also the type of a mask: all ones or all zeros
  static constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

  Native v;

  Vec() = default;
  CHRONODE_INLINE Vec(Native native) : v(native) {}
  CHRONODE_INLINE Vec(T scalar) : v(scalar - Native{}) {}  // broadcast (x - 0 = x for every x, -0 and NaN included)

  static CHRONODE_INLINE Vec zero() { return Vec(Native{}); }

  static CHRONODE_INLINE Vec load(const T* p) {
    Native native;
    std::memcpy(&native, p, sizeof native);
    return native;
  }
  CHRONODE_INLINE void store(T* p) const { std::memcpy(p, &v, sizeof v); }

  // The first `count` lanes (0 <= count <= kLanes); the others read as zero and are not written.
  // No address beyond the first `count` elements is touched.
  static CHRONODE_INLINE Vec load(const T* p, int count) { return count >= kLanes ? load(p) : load_part(p, count); }
  CHRONODE_INLINE void store(T* p, int count) const {
    if (count >= kLanes) store(p);
    else store_part(p, count);
  }

 private:
  static CHRONODE_INLINE Vec load_part(const T* p, int count);
  CHRONODE_INLINE void store_part(T* p, int count) const {
    // Through memory in halves: a masked store costs dozens of micro-operations on AMD.
    T lanes[kLanes];
    store(lanes);
    int done = 0;
#pragma GCC unroll 4
    for (int step = kLanes / 2; step > 0; step /= 2) {
      if (count & step) {
        std::memcpy(p + done, lanes + done, static_cast<size_t>(step) * sizeof(T));
        done += step;
      }
    }
  }
};

template <class T>
CHRONODE_INLINE Vec<T> Vec<T>::load_part(const T* p, int count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return Vec((Native)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), p));
  else return Vec((Native)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), p));
#elif defined(__AVX__)
  // A masked load is one micro-operation, while lanes assembled in memory stall on store forwarding.
  typename Vec<T>::Bits index;
  for (int i = 0; i < kLanes; ++i) index[i] = i;
  const __m256i mask = (__m256i)(index < static_cast<Int>(count));
  if constexpr (sizeof(T) == 4) return Vec((Native)_mm256_maskload_ps(p, mask));
  else return Vec((Native)_mm256_maskload_pd(p, mask));
#else
  T lanes[kLanes] = {};
  for (int i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
#endif
}

template <class T> CHRONODE_INLINE Vec<T> operator+(Vec<T> a, Vec<T> b) { return a.v + b.v; }
template <class T> CHRONODE_INLINE Vec<T> operator-(Vec<T> a, Vec<T> b) { return a.v - b.v; }
template <class T> CHRONODE_INLINE Vec<T> operator*(Vec<T> a, Vec<T> b) { return a.v * b.v; }
template <class T> CHRONODE_INLINE Vec<T> operator/(Vec<T> a, Vec<T> b) { return a.v / b.v; }
template <class T> CHRONODE_INLINE Vec<T> operator-(Vec<T> a) { return -a.v; }
template <class T> CHRONODE_INLINE Vec<T>& operator+=(Vec<T>& a, Vec<T> b) { return a = a + b; }
template <class T> CHRONODE_INLINE Vec<T>& operator-=(Vec<T>& a, Vec<T> b) { return a = a - b; }
template <class T> CHRONODE_INLINE Vec<T>& operator*=(Vec<T>& a, Vec<T> b) { return a = a * b; }

// a * b + c. One rounding where the hardware has FMA (-ffp-contract=fast), two on the x86-64 baseline.
template <class T> CHRONODE_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) { return a.v * b.v + c.v; }
// c - a * b.
template <class T> CHRONODE_INLINE Vec<T> fnma(Vec<T> a, Vec<T> b, Vec<T> c) { return c.v - a.v * b.v; }

// Comparisons give a mask; with NaN every one of them is false except !=.
template <class T> using Mask = typename Vec<T>::Bits;
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator<(Vec<T> a, Vec<T> b) { return a.v < b.v; }
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator>(Vec<T> a, Vec<T> b) { return a.v > b.v; }
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator<=(Vec<T> a, Vec<T> b) { return a.v <= b.v; }
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator>=(Vec<T> a, Vec<T> b) { return a.v >= b.v; }
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator==(Vec<T> a, Vec<T> b) { return a.v == b.v; }
template <class T> CHRONODE_INLINE typename Vec<T>::Bits operator!=(Vec<T> a, Vec<T> b) { return a.v != b.v; }

// How many lanes of a vector hold data when `left` elements are left.
template <class T>
CHRONODE_INLINE int lanes_within(int64_t left) {
  return left >= Vec<T>::kLanes ? Vec<T>::kLanes : left > 0 ? static_cast<int>(left) : 0;
}

// yes where the mask is set, else no.
template <class T>
CHRONODE_INLINE Vec<T> select(typename Vec<T>::Bits mask, Vec<T> yes, Vec<T> no) {
  return mask ? yes.v : no.v;
}

// The mask of the first `count` lanes.
template <class T>
CHRONODE_INLINE typename Vec<T>::Bits first_lanes(int64_t count) {
  typename Vec<T>::Bits index;
  for (int i = 0; i < Vec<T>::kLanes; ++i) index[i] = i;
  return index < static_cast<typename Vec<T>::Int>(count < Vec<T>::kLanes ? count : Vec<T>::kLanes);
}

// x limited to at most / at least a bound; a NaN in x stays NaN. (x86: min and max return their second operand on NaN;
// GCC does not find these single instructions by itself.)
template <class T>
CHRONODE_INLINE Vec<T> at_most(Vec<T> x, Vec<T> bound) {
#if defined(__AVX__) && !defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm256_min_ps((__m256)bound.v, (__m256)x.v));
  else return Vec<T>((typename Vec<T>::Native)_mm256_min_pd((__m256d)bound.v, (__m256d)x.v));
#else
  return bound.v < x.v ? bound.v : x.v;
#endif
}
template <class T>
CHRONODE_INLINE Vec<T> at_least(Vec<T> x, Vec<T> bound) {
#if defined(__AVX__) && !defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return Vec<T>((typename Vec<T>::Native)_mm256_max_ps((__m256)bound.v, (__m256)x.v));
  else return Vec<T>((typename Vec<T>::Native)_mm256_max_pd((__m256d)bound.v, (__m256d)x.v));
#else
  return bound.v > x.v ? bound.v : x.v;
#endif
}

template <class T> CHRONODE_INLINE typename Vec<T>::Bits bits(Vec<T> a) { return (typename Vec<T>::Bits)a.v; }
template <class T> CHRONODE_INLINE Vec<T> from_bits(typename Vec<T>::Bits b) { return (typename Vec<T>::Native)b; }

// Sum of the lanes, in a fixed tree order: halves are added until one lane is left.
template <class T>
CHRONODE_INLINE T sum(Vec<T> a) {
  T lanes[Vec<T>::kLanes];
  a.store(lanes);
  for (int half = Vec<T>::kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Lane i of the result is lane Index_i of the 2 kLanes lanes of a and b together.
template <class T, int... Index>
CHRONODE_INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b) {
#if defined(__clang__)
  return __builtin_shufflevector(a.v, b.v, Index...);
#else
  return __builtin_shuffle(a.v, b.v, typename Vec<T>::Bits{Index...});
#endif
}

// The lanes of a and of b folded in half: of every 2 Half lanes the first Half are sums of a's, the others of b's.
template <class T, int Half, int... Lane>
CHRONODE_INLINE Vec<T> fold(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  constexpr int kLanes = Vec<T>::kLanes;
  return shuffle<T, (Lane & Half ? kLanes + Lane - Half : Lane)...>(a, b) +
         shuffle<T, (Lane & Half ? kLanes + Lane : Lane + Half)...>(a, b);
}

// Lane i of the result is the sum of the lanes of vectors[i], which are overwritten. The tree is the one of `sum`.
template <class T, int Half = Vec<T>::kLanes / 2>
CHRONODE_INLINE Vec<T> sum_each(Vec<T> (&vectors)[Vec<T>::kLanes]) {
#pragma GCC unroll 8
  for (int i = 0; i < Half; ++i)
    vectors[i] =
        fold<T, Half>(vectors[i], vectors[i + Half], std::make_integer_sequence<int, Vec<T>::kLanes>());
  if constexpr (Half > 1) return sum_each<T, Half / 2>(vectors);
  else return vectors[0];
}

// The value itself, but the compiler may not look through it. It keeps a product computed here from being contracted
// into an FMA over there, which would make a function's bits depend on where it was inlined.
template <class T>
CHRONODE_INLINE Vec<T> opaque(Vec<T> a) {
#if defined(__aarch64__)
  asm("" : "+w"(a.v));
#elif defined(__AVX512F__)
  asm("" : "+v"(a.v));
#elif defined(__x86_64__)
  asm("" : "+x"(a.v));
#endif
  return a;
}

}  // namespace chronode
