// Threads: one parallel region per kernel call, over blocks of the batch.
//
// THE RULE. Results are the same bits for 1, 2 or n threads. So: what a block is depends on the problem's shape alone
// (Blocks), a block computes the same whoever runs it, a block sums its weight gradients in its own buffer, and the
// buffers are added in block order (BlockSums). Nothing may depend on the thread index but which scratch memory is used.
//
// Whose threads. The OpenMP threads that torch has already started, when there are such: after each of torch's operations
// they spin for milliseconds, and any other thread has to share its core with them. Without torch's libgomp, and in a
// forked child (where libgomp hangs), an own pool. The calling thread always takes part.
// Measured, best of 2 x 60 calls of two lengths, each after a torch training step, 2 cores shared with other work:
// torch's threads 3.7 / 0.37 ms, own pool 4.9 / 0.59 (workers spinning 40 us before they sleep: 6.0 / 0.50; 400 us:
// 5.7 / 0.43), new threads each call 4.5 / 0.62, one thread 7.4 / 0.74. The pool's spinning was dropped as unproven.
// The other side: with a busy process on one core libgomp's last barrier may wait for milliseconds, as in torch itself.
#pragma once

#include <pthread.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif
#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "buffer.h"
#include "simd.h"

namespace chronode {

// Numbers below the normal range become 0 in this thread: gradients that vanish over many steps are such numbers, and
// most processors take up to 100 times as long for them (LSTM, 4,000 steps, forward and backward: 7.0 s, with this 0.8).
inline void flush_denormals() {
#if defined(__SSE__)
  constexpr unsigned kResults = 0x8000, kOperands = 0x0040;
  _mm_setcsr(_mm_getcsr() | kResults | kOperands);
#elif defined(__aarch64__)
  constexpr uint64_t kFlush = uint64_t(1) << 24;
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | kFlush));
#endif
}

// The blocks of one call, which threads take one after another.
class Job {
 public:
  using Work = void (*)(void* context, int64_t block, int thread);
  Job(int64_t num_blocks, Work work, void* context) : num_blocks_(num_blocks), work_(work), context_(context) {
    std::fegetenv(&float_environment_);
  }

  // Work until no block is left, with the caller's floating-point mode, but without numbers below the normal range.
  void help() {
    std::fenv_t own;
    std::fegetenv(&own);
    std::fesetenv(&float_environment_);
    flush_denormals();
    const int thread = helpers_.fetch_add(1, std::memory_order_relaxed);
    try {
      for (int64_t block; (block = next_.fetch_add(1, std::memory_order_relaxed)) < num_blocks_;)
        work_(context_, block, thread);
    } catch (...) {
      next_.store(num_blocks_, std::memory_order_relaxed);
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    std::fesetenv(&own);
  }

  // Call when every helper has returned.
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  const int64_t num_blocks_;
  const Work work_;
  void* const context_;
  std::fenv_t float_environment_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> helpers_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

// Workers that sleep between jobs. One job at a time: a second caller does its own work meanwhile.
class Pool {
 public:
  static Pool& instance() {
    Pool* pool = current().load(std::memory_order_acquire);
    if (pool != nullptr) return *pool;
    // Never deleted: workers may sleep on it while the process exits, and a forked child must not touch its mutexes.
    Pool* fresh = new Pool;
    if (current().compare_exchange_strong(pool, fresh)) return *fresh;
    delete fresh;
    return *pool;
  }
  // In a forked child the workers are gone; the next call makes a new pool.
  static void abandon() { current().store(nullptr); }

  void run(Job& job, int helpers) {
    if (busy_.exchange(true, std::memory_order_acquire)) return job.help();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start_workers(helpers);
      job_ = &job;
      seats_ = helpers;
      ++generation_;
    }
    wake_.notify_all();
    job.help();
    {
      // A worker that has not woken up yet is not waited for: it finds no seat. (On a busy machine it may take long.)
      std::unique_lock<std::mutex> lock(mutex_);
      seats_ = 0;
      done_.wait(lock, [this] { return active_ == 0; });
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  static std::atomic<Pool*>& current() {
    static std::atomic<Pool*> pool{nullptr};
    return pool;
  }

  void start_workers(int count) {
    try {
      for (; workers_ < count; ++workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::exception&) {
      // No more threads, or no memory for them, to be had: fewer do the work.
    }
  }

  [[noreturn]] void serve() {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (seats_ == 0) continue;
      --seats_;
      ++active_;
      Job* job = job_;
      lock.unlock();
      job->help();
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  std::atomic<bool> busy_{false};  // a caller's job runs (not a mutex: a block may itself call parallel_blocks)
  std::mutex mutex_;               // guards the rest
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  int workers_ = 0, seats_ = 0, active_ = 0;
  uint64_t generation_ = 0;
};

// void GOMP_parallel(function, argument, num_threads, flags): what GCC calls for `#pragma omp parallel`.
using OpenMpParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

// The entry of the libgomp that is loaded in this process (torch's wheels bring one, under varying names), or null.
inline OpenMpParallel find_openmp() {
#if defined(__linux__)
  OpenMpParallel found = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "libgomp") == nullptr) return 0;
        void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
        if (library == nullptr) return 0;
        void* entry = dlsym(library, "GOMP_parallel");
        std::memcpy(result, &entry, sizeof entry);
        return entry != nullptr ? 1 : 0;
      },
      &found);
  return found;
#else
  return nullptr;
#endif
}

// Whether `count` threads can be started. libgomp ends the process where it cannot start one, so it is asked for them
// after a trial alone: once for each thread that calls a kernel, as libgomp has workers for each, which stay.
inline bool can_start(int count) {
  thread_local int started = 0;
  if (count <= started) return true;
  std::mutex all_started;
  std::vector<std::thread> trial;
  try {
    std::lock_guard<std::mutex> lock(all_started);
    trial.reserve(static_cast<size_t>(count));
    while (trial.size() < static_cast<size_t>(count))
      trial.emplace_back([&] { std::lock_guard<std::mutex> wait(all_started); });
    started = count;
  } catch (const std::exception&) {
  }
  for (std::thread& thread : trial) thread.join();
  return count <= started;
}

enum class Threads { kAutomatic, kOwnPool };

// The job on up to num_threads threads.
inline void run_job(Job& job, int64_t num_blocks, int num_threads, Threads whose) {
  static std::atomic<bool> forked{false};
  static const OpenMpParallel openmp = [] {
    pthread_atfork(nullptr, nullptr, [] {
      forked.store(true);
      Pool::abandon();
    });
    return find_openmp();
  }();
  if (num_threads <= 1 || num_blocks <= 1) job.help();
  // Not fewer threads than asked for: libgomp would end some of torch's, and torch start them again.
  else if (openmp != nullptr && whose == Threads::kAutomatic && !forked.load() && can_start(num_threads - 1))
    openmp([](void* data) { static_cast<Job*>(data)->help(); }, &job, static_cast<unsigned>(num_threads), 0);
  else Pool::instance().run(job, static_cast<int>(std::min<int64_t>(num_threads, num_blocks)) - 1);
  job.rethrow();
}

// fn(block, thread) for block = 0 .. num_blocks - 1, each thread that takes part having its own number
// thread < max(1, num_threads). Returns when all are done; an exception of a block is thrown here.
template <class F>
inline void parallel_blocks(int64_t num_blocks, int num_threads, F&& fn, Threads whose = Threads::kAutomatic) {
  using Function = std::remove_reference_t<F>;
  Job job(
      num_blocks, [](void* context, int64_t block, int thread) { (*static_cast<Function*>(context))(block, thread); },
      const_cast<void*>(static_cast<const void*>(&fn)));
  run_job(job, num_blocks, num_threads, whose);
}

// How `total` rows (samples) fall into blocks of at most `most` rows, as even as can be.
struct Blocks {
  int64_t total, count;
  Blocks(int64_t total_rows, int64_t most) : total(total_rows), count((total_rows + most - 1) / most) {}
  int64_t begin(int64_t block) const { return total / count * block + std::min(block, total % count); }
  int64_t rows(int64_t block) const { return begin(block + 1) - begin(block); }
};

// One buffer of `size` sums per block, and their sum in block order.
template <class T>
class BlockSums {
 public:
  BlockSums(int64_t num_blocks, int64_t size)
      : blocks_(num_blocks), size_(size), stride_(round_up_to_line<T>(size)), data_(num_blocks * stride_) {}

  // The block's buffer, set to zero: call it inside the block, so that the thread that uses the memory touches it first.
  T* zeroed(int64_t block) {
    std::fill_n(buffer(block), size_, T(0));
    return buffer(block);
  }
  // The same as it is: for blocks that share a buffer, each clearing its part.
  T* buffer(int64_t block) { return data_.data() + block * stride_; }

  // out[i] = sum of the blocks' element i, for first <= i < first + count. out has count elements.
  void sum_into(T* out, int64_t first, int64_t count, int num_threads) const {
    constexpr int64_t kPiece = 4096;
    parallel_blocks((count + kPiece - 1) / kPiece, num_threads, [&](int64_t piece, int) {
      const int64_t begin = piece * kPiece, end = std::min(count, begin + kPiece);
      for (int64_t i = begin; i < end; i += Vec<T>::kLanes) {
        const int lanes = static_cast<int>(std::min<int64_t>(Vec<T>::kLanes, end - i));
        Vec<T> total = Vec<T>::zero();
        for (int64_t b = 0; b < blocks_; ++b) total += Vec<T>::load(data_.data() + b * stride_ + first + i, lanes);
        total.store(out + i, lanes);
      }
    });
  }
  void sum_into(T* out, int num_threads) const { sum_into(out, 0, size_, num_threads); }

 private:
  int64_t blocks_, size_, stride_;
  Buffer<T> data_;
};

}  // namespace chronode
