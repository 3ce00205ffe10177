// The border between Python and the kernels: every exported function checks here what could make it read or write out
// of bounds, and no exception leaves it.
//
//   CHRONODE_EXPORT int chronode_double_f32(Array<const float> x, Array<float> y, int64_t n, CHRONODE_CALL) {
//     return guarded(failure, [&] {
//       require_array("x", x, {n});
//       require_array("y", y, {n});
//       ...
//     });
//   }
//
// It returns a Status; unless that is kDone, `failure` says what was wrong. kernels/_ops.py makes exceptions of them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>

#include "buffer.h"

namespace chronode {

enum Status : int { kDone = 0, kInvalid = 1, kOutOfMemory = 2, kFailed = 3 };  // the order of kernels/_ops.py

constexpr size_t kFailureBytes = 256;  // what `failure` has room for; kernels/_ops.py holds the same number

// Packed weights that a caller keeps from one call to the next, as long as it makes the same call with the same weights.
struct WeightCache {
  std::shared_ptr<const void> packed;
};

// The arguments that end every kernel's list: how many threads to use, a cache or null, and room for a sentence about
// what failed.
#define CHRONODE_CALL int64_t threads, [[maybe_unused]] chronode::WeightCache *cache, char *failure

// The weights of a problem as `Packed(problem)` packs them, or those in the cache.
template <class Packed, class Problem>
std::shared_ptr<const Packed> packed_once(const Problem& problem, WeightCache* cache) {
  if (cache != nullptr && cache->packed != nullptr) return std::static_pointer_cast<const Packed>(cache->packed);
  auto packed = std::make_shared<const Packed>(problem);
  if (cache != nullptr) cache->packed = packed;
  return packed;
}

// A tensor as kernels/_ops.py passes it; of no bytes where there is none.
template <class T>
struct Array {
  T* data;
  int64_t bytes;
  operator T*() const { return data; }
};

// An argument that a kernel cannot work with. Holds its own text: nothing is allocated.
class InvalidArgument : public std::exception {
 public:
  template <class... Values>
  explicit InvalidArgument(const char* format, Values... values) {
    std::snprintf(text_, sizeof text_, format, values...);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[kFailureBytes];
};

// Calls f and reports how it ended. failure: kFailureBytes of room, or null.
template <class F>
int guarded(char* failure, F f) noexcept {
  const auto report = [=](Status status, const char* text) {
    if (failure != nullptr) std::snprintf(failure, kFailureBytes, "%s", text);
    return status;
  };
  try {
    f();
    return kDone;
  } catch (const InvalidArgument& error) {
    return report(kInvalid, error.what());
  } catch (const OutOfMemory& error) {
    char text[kFailureBytes];
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(error.bytes));
    return report(kOutOfMemory, text);
  } catch (const std::bad_alloc&) {
    return report(kOutOfMemory, "");
  } catch (const std::exception& error) {
    return report(kFailed, error.what());
  } catch (...) {
    return report(kFailed, "unknown error");
  }
}

// A number that must lie from `least` to `most`.
inline void require_between(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw InvalidArgument("%s is %lld; it must be from %lld to %lld", name, static_cast<long long>(value),
                          static_cast<long long>(least), static_cast<long long>(most));
}

constexpr int64_t kMostElements = INT64_MAX / 64;  // of an array: its bytes, and sums of such sizes, do not overflow

// How many elements an array of these sizes has, each of which must be at least 1.
inline int64_t require_sizes(const char* name, std::initializer_list<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1) throw InvalidArgument("%s has an axis of size %lld; it must be at least 1", name,
                                        static_cast<long long>(size));
    if (__builtin_mul_overflow(count, size, &count) || count > kMostElements)
      throw InvalidArgument("%s is too large", name);
  }
  return count;
}

// Exactly `count` elements at an address that its type may have.
template <class T>
void require_room(const char* name, Array<T> array, int64_t count) {
  const int64_t wanted = count * static_cast<int64_t>(sizeof(T));
  if (array.bytes != wanted || array.data == nullptr)
    throw InvalidArgument("%s has %lld bytes; it must have %lld (%lld elements of %d bytes)", name,
                          static_cast<long long>(array.bytes), static_cast<long long>(wanted),
                          static_cast<long long>(count), static_cast<int>(sizeof(T)));
  if (reinterpret_cast<uintptr_t>(array.data) % alignof(T) != 0)
    throw InvalidArgument("%s does not begin at a multiple of %d bytes; pass a copy", name,
                          static_cast<int>(alignof(T)));
}

// A contiguous array of exactly this shape.
template <class T>
void require_array(const char* name, Array<T> array, std::initializer_list<int64_t> shape) {
  require_room(name, array, require_sizes(name, shape));
}

// The same, or none.
template <class T>
void allow_array(const char* name, Array<T> array, std::initializer_list<int64_t> shape) {
  if (array.data != nullptr || array.bytes != 0) require_array(name, array, shape);
}

// None, or one length from 1 to `steps` for each sample.
inline void allow_lengths(Array<const int64_t> lengths, int64_t steps, int64_t batch) {
  allow_array("lengths", lengths, {batch});
  if (lengths.data == nullptr) return;
  for (int64_t sample = 0; sample < batch; ++sample)
    if (lengths[sample] < 1 || lengths[sample] > steps)
      throw InvalidArgument("lengths[%lld] is %lld; it must be from 1 to %lld, the time steps",
                            static_cast<long long>(sample), static_cast<long long>(lengths[sample]),
                            static_cast<long long>(steps));
}

constexpr int64_t kMostThreads = 4096;
constexpr int64_t kMostSubsteps = int64_t(1) << 20;  // of one time step: what they need is kept by the backward

inline int require_threads(int64_t threads) {
  require_between("threads", threads, 1, kMostThreads);
  return static_cast<int>(threads);
}

}  // namespace chronode
