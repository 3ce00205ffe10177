// What tests/kernels/test_native_base.py needs to see of the headers: their functions behind a C ABI, nothing more.
// The products and the pool return a Status.
#include "entry.h"
#include "gemm.h"
#include "pool.h"
#include "vmath.h"

namespace chronode {
namespace {

// product: 0 C = A W + bias, 1 C += A W + bias, 2 C = tanh(A W + bias), with W packed from weights[k][n];
// 3 the same as 0 with W packed from weights[n][k]; 4 C[k][n] += A[m][k]^T weights[m][n], cut into calls of `rows` rows.
template <class T>
int test_gemm(int product, const T* a, int64_t a_stride, const T* weights, int64_t weights_stride, const T* bias, T* c,
              int64_t c_stride, int64_t m, int64_t k, int64_t n, int64_t rows) {
  return guarded(nullptr, [&] {
    if (product == 4) {
      GradientScratch<T> scratch(k);
      for (int64_t i = 0; i < m; i += rows)
        gemm_gradient(a + i * a_stride, a_stride, weights + i * weights_stride, weights_stride,
                      std::min(rows, m - i), k, n, c, c_stride, scratch);
      return;
    }
    const auto w = product == 3 ? PackedMatrix<T>::pack_transposed(weights, weights_stride, k, n, bias)
                                : PackedMatrix<T>::pack(weights, weights_stride, k, n, bias);
    for (int64_t i = 0; i < m; i += rows) {
      const int64_t count = std::min(rows, m - i);
      const T* from = a + i * a_stride;
      T* to = c + i * c_stride;
      if (product == 1) gemm_add(from, a_stride, count, w, to, c_stride);
      else if (product == 2) gemm_map(from, a_stride, count, w, to, c_stride, [](Vec<T> v) { return tanh(v); });
      else gemm(from, a_stride, count, w, to, c_stride);
    }
  });
}

// sums[j] = the sum over the m rows of d[m][n], blocks of at most block_rows rows in parallel; visits[i] counts how often
// row i was worked on. A negative fail_block never fails; that block throws otherwise.
template <class T>
int test_pool(const T* d, int64_t m, int64_t n, int64_t block_rows, int num_threads, int own_pool, int64_t fail_block,
              T* sums, int32_t* visits) {
  return guarded(nullptr, [&] {
    const Blocks blocks(m, block_rows);
    BlockSums<T> partial(blocks.count, n);
    parallel_blocks(
        blocks.count, num_threads,
        [&](int64_t block, int thread) {
          if (block == fail_block || thread >= std::max(1, num_threads)) throw std::bad_alloc();
          const int64_t begin = blocks.begin(block);
          add_column_sums(d + begin * n, n, blocks.rows(block), n, partial.zeroed(block));
          for (int64_t i = 0; i < blocks.rows(block); ++i) ++visits[begin + i];
        },
        own_pool ? Threads::kOwnPool : Threads::kAutomatic);
    partial.sum_into(sums, num_threads);
  });
}

}  // namespace
}  // namespace chronode

using chronode::Vec;

#define CHRONODE_TEST_FUNCTION(name, T, suffix)                                                              \
  CHRONODE_EXPORT void chronode_test_##name##_##suffix(const T* in, T* out, int64_t n) {                     \
    chronode::map_array(in, out, n, [](Vec<T> v) { return chronode::name(v); });                             \
  }                                                                                                          \
  CHRONODE_EXPORT void chronode_test_##name##_scalar_##suffix(const T* in, T* out, int64_t n) {              \
    for (int64_t i = 0; i < n; ++i) out[i] = chronode::name##_scalar(in[i]);                                 \
  }

#define CHRONODE_TEST_TYPE(T, suffix)                                                                        \
  CHRONODE_TEST_FUNCTION(tanh, T, suffix)                                                                    \
  CHRONODE_TEST_FUNCTION(sigmoid, T, suffix)                                                                 \
  CHRONODE_TEST_FUNCTION(exp, T, suffix)                                                                     \
  CHRONODE_EXPORT int chronode_test_gemm_##suffix(int product, const T* a, int64_t a_stride, const T* w,     \
                                                  int64_t w_stride, const T* bias, T* c, int64_t c_stride,   \
                                                  int64_t m, int64_t k, int64_t n, int64_t rows) {           \
    return chronode::test_gemm(product, a, a_stride, w, w_stride, bias, c, c_stride, m, k, n, rows);         \
  }                                                                                                          \
  CHRONODE_EXPORT int chronode_test_pool_##suffix(const T* d, int64_t m, int64_t n, int64_t block_rows,      \
                                                  int num_threads, int own_pool, int64_t fail_block,         \
                                                  T* sums, int32_t* visits) {                                \
    return chronode::test_pool(d, m, n, block_rows, num_threads, own_pool, fail_block, sums, visits);        \
  }

CHRONODE_TEST_TYPE(float, f32)
CHRONODE_TEST_TYPE(double, f64)
