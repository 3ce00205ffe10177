// Products of two weight matrices, which kernels multiply once per call. torch's own product is not used for them
// because its bits depend on the number of threads.
//
// Blocks are rows of the result: an element is one chain of FMAs, whatever the block (see gemm.h).
#include "entry.h"
#include "gemm.h"
#include "pool.h"

namespace chronode {
namespace {

constexpr int64_t kBlockRows = 48;

// c (m x n) = a (m x k) b (k x n).
template <class T>
void multiply(const T* a, const PackedMatrix<T>& b, T* c, int64_t m, int threads) {
  const Blocks blocks(m, kBlockRows);
  parallel_blocks(blocks.count, threads, [&](int64_t block, int) {
    const int64_t first = blocks.begin(block);
    gemm(a + first * b.k(), b.k(), blocks.rows(block), b, c + first * b.n(), b.n());
  });
}

// c (k x n) = a (m x k)^T d (m x n).
template <class T>
void multiply_transposed(const T* a, const T* d, T* c, int64_t m, int64_t k, int64_t n, int threads) {
  const Blocks blocks(k, kBlockRows);
  parallel_blocks(blocks.count, threads, [&](int64_t block, int) {
    const int64_t first = blocks.begin(block), rows = blocks.rows(block);
    GradientScratch<T> scratch(rows);
    std::fill_n(c + first * n, rows * n, T(0));
    gemm_gradient(a + first, k, d, n, m, rows, n, c + first * n, n, scratch);
  });
}

template <class T>
void product(Array<const T> a, Array<const T> b, Array<T> c, int64_t m, int64_t k, int64_t n, int64_t threads) {
  require_array("a", a, {m, k});
  require_array("b", b, {k, n});
  require_array("c", c, {m, n});
  multiply<T>(a, PackedMatrix<T>::pack(b, n, k, n), c, m, require_threads(threads));
}

template <class T>
void product_backward(Array<const T> a, Array<const T> b, Array<const T> dc, Array<T> da, Array<T> db, int64_t m,
                      int64_t k, int64_t n, int64_t threads) {
  require_array("a", a, {m, k});
  require_array("b", b, {k, n});
  require_array("the gradient", dc, {m, n});
  require_array("da", da, {m, k});
  require_array("db", db, {k, n});
  multiply<T>(dc, PackedMatrix<T>::pack_transposed(b, n, n, k), da, m, require_threads(threads));
  multiply_transposed<T>(a, dc, db, m, k, n, require_threads(threads));
}

}  // namespace
}  // namespace chronode

using chronode::Array;

#define CHRONODE_PRODUCT(T, suffix)                                                                                \
  CHRONODE_EXPORT int chronode_product_##suffix(Array<const T> a, Array<const T> b, Array<T> c, int64_t m,         \
                                                int64_t k, int64_t n, CHRONODE_CALL) {                             \
    return chronode::guarded(failure, [&] { chronode::product(a, b, c, m, k, n, threads); });                      \
  }                                                                                                                \
  CHRONODE_EXPORT int chronode_product_backward_##suffix(Array<const T> a, Array<const T> b, Array<const T> dc,    \
                                                         Array<T> da, Array<T> db, int64_t m, int64_t k,           \
                                                         int64_t n, CHRONODE_CALL) {                               \
    return chronode::guarded(failure,                                                                              \
                             [&] { chronode::product_backward(a, b, dc, da, db, m, k, n, threads); });             \
  }

CHRONODE_PRODUCT(float, f32)
CHRONODE_PRODUCT(double, f64)
