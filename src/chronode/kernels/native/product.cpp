// Products of matrices outside of the loops over time: of two weights, and of a whole sequence batch with a weight.
// torch's own product is not used for them because its bits depend on the number of threads.
//
// Here blocks depend on the sizes alone. An element of the product is one chain of FMAs, whatever the block (see gemm.h);
// a gradient of the weights sums over many rows, which are cut into a few pieces that are added in order.
#include "entry.h"
#include "gemm.h"
#include "pool.h"

namespace chronode {
namespace {

constexpr int64_t kBlockRows = 192;   // of a product, which pass a panel of the weights that is in L1 ...
constexpr int64_t kFewBlocks = 8;     // ... or fewer, so that there are that many blocks
constexpr int64_t kMostPieces = 16;   // of the rows of a gradient: bounds the memory of its sums
constexpr int64_t kPieceRows = 1024;  // at least, so that the sums cost little
constexpr int64_t kStripRows = 48;    // at least, of a gradient; with few pieces each is cut into strips, too

// c (m x n) = a (m x k) b (k x n) + bias.
template <class T>
void multiply(const T* a, const PackedMatrix<T>& b, T* c, int64_t m, int threads) {
  const Blocks blocks(m, std::clamp((m + kFewBlocks - 1) / kFewBlocks, kStripRows, kBlockRows));
  parallel_blocks(blocks.count, threads, [&](int64_t block, int) {
    const int64_t first = blocks.begin(block);
    gemm(a + first * b.k(), b.k(), blocks.rows(block), b, c + first * b.n(), b.n());
  });
}

// c (k x n) = a (m x k)^T d (m x n); sums (n), or null: the columns' sums of d.
template <class T>
void multiply_transposed(const T* a, const T* d, T* c, T* sums, int64_t m, int64_t k, int64_t n, int threads) {
  const Blocks pieces(m, std::max(kPieceRows, (m + kMostPieces - 1) / kMostPieces));
  const Blocks strips(k, std::max(kStripRows, (k * pieces.count + kMostPieces - 1) / kMostPieces));
  BlockSums<T> partial(pieces.count, (k + 1) * n);
  parallel_blocks(pieces.count * strips.count, threads, [&](int64_t block, int) {
    const int64_t piece = block / strips.count, strip = block % strips.count, columns = strips.rows(strip);
    const int64_t first = pieces.begin(piece), rows = pieces.rows(piece);
    T* const own = partial.buffer(piece);
    T* const out = own + strips.begin(strip) * n;
    GradientScratch<T> scratch(columns);
    std::fill_n(out, columns * n, T(0));
    gemm_gradient(a + first * k + strips.begin(strip), k, d + first * n, n, rows, columns, n, out, n, scratch);
    if (strip > 0 || sums == nullptr) return;
    std::fill_n(own + k * n, n, T(0));
    for (int64_t row = 0; row < rows; row += kGradientRows)
      add_column_sums(d + (first + row) * n, n, std::min<int64_t>(kGradientRows, rows - row), n, own + k * n);
  });
  partial.sum_into(c, 0, k * n, threads);
  if (sums != nullptr) partial.sum_into(sums, k * n, n, threads);
}

template <class T>
void product(Array<const T> a, Array<const T> b, Array<const T> bias, Array<T> c, int64_t m, int64_t k, int64_t n,
             int64_t threads) {
  require_array("a", a, {m, k});
  require_array("b", b, {k, n});
  allow_array("bias", bias, {n});
  require_array("c", c, {m, n});
  multiply<T>(a, PackedMatrix<T>::pack(b, n, k, n, bias), c, m, require_threads(threads));
}

// da and dbias may be null: not wanted.
template <class T>
void product_backward(Array<const T> a, Array<const T> b, Array<const T> dc, Array<T> da, Array<T> db, Array<T> dbias,
                      int64_t m, int64_t k, int64_t n, int64_t threads) {
  require_array("a", a, {m, k});
  require_array("b", b, {k, n});
  require_array("the gradient", dc, {m, n});
  allow_array("da", da, {m, k});
  require_array("db", db, {k, n});
  allow_array("dbias", dbias, {n});
  if (da != nullptr) multiply<T>(dc, PackedMatrix<T>::pack_transposed(b, n, n, k), da, m, require_threads(threads));
  multiply_transposed<T>(a, dc, db, dbias, m, k, n, require_threads(threads));
}

}  // namespace
}  // namespace chronode

using chronode::Array;

#define CHRONODE_PRODUCT(T, suffix)                                                                                \
  CHRONODE_EXPORT int chronode_product_##suffix(Array<const T> a, Array<const T> b, Array<const T> bias,           \
                                                Array<T> c, int64_t m, int64_t k, int64_t n, CHRONODE_CALL) {      \
    return chronode::guarded(failure, [&] { chronode::product(a, b, bias, c, m, k, n, threads); });                \
  }                                                                                                                \
  CHRONODE_EXPORT int chronode_product_backward_##suffix(Array<const T> a, Array<const T> b, Array<const T> dc,    \
                                                         Array<T> da, Array<T> db, Array<T> dbias, int64_t m,      \
                                                         int64_t k, int64_t n, CHRONODE_CALL) {                    \
    return chronode::guarded(failure,                                                                              \
                             [&] { chronode::product_backward(a, b, dc, da, db, dbias, m, k, n, threads); });      \
  }

CHRONODE_PRODUCT(float, f32)
CHRONODE_PRODUCT(double, f64)
