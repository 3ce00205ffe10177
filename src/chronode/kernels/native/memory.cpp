// Memory of arrays as a whole: huge pages for one that a kernel is about to write, and comparison of bits.

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstring>

#include "simd.h"

// Asks for huge pages behind `bytes` of memory: a large fresh array otherwise costs more in page faults (one each
// 4 KiB) than in memory traffic. Only a hint; the contents do not change.
CHRONODE_EXPORT void chronode_prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kHugePage = uintptr_t(2) << 20;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// Two arrays of the same size.
struct ChronodePair {
  const void *first, *second;
  int64_t bytes;
};

// Whether the arrays of each pair have the same bits.
CHRONODE_EXPORT int chronode_same_bits(const ChronodePair* pairs, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::memcmp(pairs[i].first, pairs[i].second, static_cast<size_t>(pairs[i].bytes)) != 0) return 0;
  return 1;
}
