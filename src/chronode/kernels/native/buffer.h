// Scratch memory of a kernel: aligned to a cache line (and to any vector), freed when it goes out of scope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace chronode {

constexpr size_t kCacheLine = 64;

// `count` rounded up to whole cache lines of T, so that neighbouring pieces of one buffer stay aligned and threads that
// write next to each other do not share a line.
template <class T>
constexpr int64_t round_up_to_line(int64_t count) {
  constexpr int64_t kPerLine = static_cast<int64_t>(kCacheLine / sizeof(T));
  return (count + kPerLine - 1) / kPerLine * kPerLine;
}

// Memory that could not be had, and how much was asked for.
struct OutOfMemory : std::bad_alloc {
  int64_t bytes;
  explicit OutOfMemory(int64_t asked) : bytes(asked) {}
  const char* what() const noexcept override { return "out of memory"; }
};

// `count` elements, uninitialised unless clear() is called. Throws OutOfMemory (also for a negative or absurd count).
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count) : count_(count) {
    if (count < 0 || static_cast<uint64_t>(count) > PTRDIFF_MAX / sizeof(T) - kCacheLine) throw OutOfMemory(INT64_MAX);
    if (count == 0) return;
    const size_t bytes = static_cast<size_t>(round_up_to_line<T>(count)) * sizeof(T);
    void* memory = nullptr;
    if (posix_memalign(&memory, kCacheLine, bytes) != 0) throw OutOfMemory(static_cast<int64_t>(bytes));
    data_ = static_cast<T*>(memory);
  }
  ~Buffer() { std::free(data_); }
  Buffer(Buffer&& other) noexcept : data_(other.data_), count_(other.count_) {
    other.data_ = nullptr;
    other.count_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    T* data = data_;
    const int64_t count = count_;
    data_ = other.data_;
    count_ = other.count_;
    other.data_ = data;
    other.count_ = count;
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  void clear() {
    if (count_ > 0) std::memset(static_cast<void*>(data_), 0, static_cast<size_t>(count_) * sizeof(T));
  }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace chronode
