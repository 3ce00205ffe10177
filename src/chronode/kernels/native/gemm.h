// The three matrix products of a recurrent layer, register-blocked, for a few rows of A at a time and weights that are
// packed once per call and then stay in cache:
//
//   gemm, gemm_map, gemm_add, gemm_emit: C[m x n] = A[m x k] W[k x n] + bias, f of it, added, or handed to a functor
//   gemm_gradient: dW[k x n] += A[m x k]^T D[m x n], weight gradients, over many rows at once
//
// All matrices are row-major with a leading dimension (elements between rows). Any m, n, k >= 0.
//
// Bits. In gemm an element of C is one chain of FMAs over k, in order, started at the bias: it depends on its own row of
// A and its own column of W alone, not on m, on the other rows or on where the row stands in the block. In gemm_gradient
// an element is a chain over the rows of each group of kGradientRows rows, the groups being added to dW in order: it
// depends on how the caller cuts the rows into calls (cut by the problem's shape, never by the number of threads).
#pragma once

#include <algorithm>
#include <type_traits>

#include "buffer.h"
#include "simd.h"

namespace chronode {

// A register tile is kTileRows x (kTileVectors vectors): accumulators, one row of W and one broadcast fill 16 registers.
// With 32 registers 8 rows keep the FMA units busy; 12 would only double the time to compile.
constexpr int kTileVectors = 2;
constexpr int kTileRows = kVectorRegisters == 32 ? 8 : 6;
constexpr int kGradientRows = 128;

template <class T>
constexpr int kPanelColumns = kTileVectors * Vec<T>::kLanes;

// W (k x n) as panels of kPanelColumns columns: first the panel's bias (zeros without one), then its k rows, columns
// beyond n filled with zeros.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // W[i][j] = weights[i * stride + j]. bias: n elements or null.
  static PackedMatrix pack(const T* weights, int64_t stride, int64_t k, int64_t n, const T* bias = nullptr) {
    return PackedMatrix(weights, stride, 1, k, n, bias);
  }
  // W[i][j] = weights[j * stride + i]: `weights` is n x k, as torch keeps a Linear(k, n).
  static PackedMatrix pack_transposed(const T* weights, int64_t stride, int64_t k, int64_t n, const T* bias = nullptr) {
    return PackedMatrix(weights, 1, stride, k, n, bias);
  }
  // W[i][j] = weights[i * row_stride + j * column_stride].
  static PackedMatrix pack_strided(const T* weights, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n,
                                   const T* bias = nullptr) {
    return PackedMatrix(weights, row_stride, column_stride, k, n, bias);
  }

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t panels() const { return (n_ + kPanelColumns<T> - 1) / kPanelColumns<T>; }
  const T* panel(int64_t p) const { return data_.data() + p * panel_size(); }
  int64_t panel_size() const { return (k_ + 1) * kPanelColumns<T>; }

 private:
  PackedMatrix(const T* weights, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n, const T* bias)
      : k_(k), n_(n), data_(panels() * panel_size()) {
    for (int64_t p = 0; p < panels(); ++p) {
      const int64_t first = p * kPanelColumns<T>;
      const int64_t columns = std::min<int64_t>(kPanelColumns<T>, n - first);
      T* out = data_.data() + p * panel_size();
      for (int64_t j = 0; j < kPanelColumns<T>; ++j) out[j] = bias != nullptr && j < columns ? bias[first + j] : T(0);
      for (int64_t i = 0; i < k; ++i) {
        out += kPanelColumns<T>;
        const T* row = weights + i * row_stride + first * column_stride;
        for (int64_t j = 0; j < columns; ++j) out[j] = row[j * column_stride];
        for (int64_t j = columns; j < kPanelColumns<T>; ++j) out[j] = T(0);
      }
    }
  }

  int64_t k_ = 0, n_ = 0;
  Buffer<T> data_;
};

// One tile: Rows rows of A times Panels neighbouring panels. emit(row, column, values, lanes) receives every vector of
// the result; columns holds how many columns of the tile exist.
template <class T, int Rows, int Panels, class Emit>
CHRONODE_INLINE void gemm_tile(const T* a, int64_t a_stride, const T* panel, int64_t panel_size, int64_t k,
                               int64_t first_row, int64_t first_column, int64_t columns, Emit& emit) {
  constexpr int kLanes = Vec<T>::kLanes;
  constexpr int kVectors = Panels * kTileVectors;
  Vec<T> sums[Rows][kVectors];
  const T* b[Panels];
#pragma GCC unroll 16
  for (int p = 0; p < Panels; ++p) b[p] = panel + p * panel_size;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) sums[r][j] = Vec<T>::load(b[j / kTileVectors] + (j % kTileVectors) * kLanes);

  for (int64_t i = 0; i < k; ++i) {
    Vec<T> w[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j)
      w[j] = Vec<T>::load(b[j / kTileVectors] + (i + 1) * kPanelColumns<T> + (j % kTileVectors) * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec<T> x = a[r * a_stride + i];
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) sums[r][j] = fma(x, w[j], sums[r][j]);
    }
  }
  if (columns >= kVectors * kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        emit(first_row + r, first_column + j * kLanes, opaque(sums[r][j]), kLanes);
  } else {
    // The right edge goes through memory, so that emit is not compiled another Rows * kVectors times. (For whole tiles
    // that would cost 10-25 % of the speed.)
    T out[Rows][kVectors * kLanes];
    for (int r = 0; r < Rows; ++r)
      for (int j = 0; j < kVectors; ++j) opaque(sums[r][j]).store(out[r] + j * kLanes);
#pragma GCC unroll 1
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 1
      for (int64_t j = 0; j < columns; j += kLanes)
        emit(first_row + r, first_column + j, Vec<T>::load(out[r] + j), lanes_within<T>(columns - j));
  }
}

// Rows rows of A times all panels in [first, last). Few rows take several panels at once: with fewer than about eight
// accumulators the latency of the FMA would show.
template <class T, int Rows, class Emit>
CHRONODE_INLINE void gemm_rows(const T* a, int64_t a_stride, const PackedMatrix<T>& w, int64_t first, int64_t last,
                               int64_t first_row, Emit& emit) {
  constexpr int kPanels = Rows == 1 ? 4 : Rows <= 3 ? 2 : 1;
  int64_t p = first;
  for (; p + kPanels <= last; p += kPanels)
    gemm_tile<T, Rows, kPanels>(a, a_stride, w.panel(p), w.panel_size(), w.k(), first_row, p * kPanelColumns<T>,
                                w.n() - p * kPanelColumns<T>, emit);
  if constexpr (kPanels > 1)
    for (; p < last; ++p)
      gemm_tile<T, Rows, 1>(a, a_stride, w.panel(p), w.panel_size(), w.k(), first_row, p * kPanelColumns<T>,
                            w.n() - p * kPanelColumns<T>, emit);
}

// rows (at run time) -> f(integral_constant rows): picks the kernel compiled for that number of rows.
template <int Rows, class F>
CHRONODE_INLINE void with_rows(int64_t rows, F&& f) {
  if constexpr (Rows > 0) {
    if (rows == Rows) f(std::integral_constant<int, Rows>());
    else with_rows<Rows - 1>(rows, f);
  }
}

// The general product: emit(row, column, Vec<T> values, lanes) is called once for each vector of A W + bias, with
// lanes < kLanes at the right edge only. It stores, or does whatever the caller fuses here.
template <class T, class Emit>
inline void gemm_emit(const T* a, int64_t a_stride, int64_t m, const PackedMatrix<T>& w, Emit emit) {
  if (m <= 0 || w.n() == 0) return;
  // Even blocks (16 rows as 6 + 5 + 5): a short last block would wait on FMA latency.
  const int64_t blocks = (m + kTileRows - 1) / kTileRows;
  // Panels outside: a panel stays in L1 while the rows pass. With few rows there is one block, which takes them all.
  const int64_t step = m < 4 ? w.panels() : 1;
  for (int64_t p = 0; p < w.panels(); p += step)
    for (int64_t block = 0, row = 0; block < blocks; ++block) {
      const int64_t rows = (m - row) / (blocks - block);
      const T* first = a + row * a_stride;
      with_rows<kTileRows>(rows, [&](auto count) {
        gemm_rows<T, decltype(count)::value>(first, a_stride, w, p, p + step, row, emit);
      });
      row += rows;
    }
}

// C = f(A W + bias), f a function of a Vec<T>.
template <class T, class F>
inline void gemm_map(const T* a, int64_t a_stride, int64_t m, const PackedMatrix<T>& w, T* c, int64_t c_stride, F f) {
  gemm_emit(a, a_stride, m, w, [=](int64_t row, int64_t column, Vec<T> values, int lanes) CHRONODE_LAMBDA_INLINE {
    f(values).store(c + row * c_stride + column, lanes);
  });
}

// C = A W + bias.
template <class T>
inline void gemm(const T* a, int64_t a_stride, int64_t m, const PackedMatrix<T>& w, T* c, int64_t c_stride) {
  gemm_map(a, a_stride, m, w, c, c_stride, [](Vec<T> values) { return values; });
}

// C += A W + bias.
template <class T>
inline void gemm_add(const T* a, int64_t a_stride, int64_t m, const PackedMatrix<T>& w, T* c, int64_t c_stride) {
  gemm_emit(a, a_stride, m, w, [=](int64_t row, int64_t column, Vec<T> values, int lanes) CHRONODE_LAMBDA_INLINE {
    T* out = c + row * c_stride + column;
    (Vec<T>::load(out, lanes) + values).store(out, lanes);
  });
}

// Memory of gemm_gradient for a dW of k rows; one per thread (or per block), reused over all calls.
template <class T>
class GradientScratch {
 public:
  explicit GradientScratch(int64_t k) : panel_(kGradientRows * kPanelColumns<T>), strips_(kGradientRows * k) {}
  T* panel() { return panel_.data(); }
  T* strips() { return strips_.data(); }

 private:
  Buffer<T> panel_, strips_;
};

// The columns of A that tile `tile` of `tiles` works on.
struct Strip {
  int64_t first, columns;
  Strip(int64_t k, int64_t tiles, int64_t tile)
      : first(k / tiles * tile + std::min(tile, k % tiles)), columns(k / tiles + (tile < k % tiles ? 1 : 0)) {}
};

// `count` rows of A, strip by strip, each strip contiguous.
template <class T>
inline void pack_strips(const T* a, int64_t a_stride, int64_t count, int64_t k, int64_t tiles, T* out) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const Strip strip(k, tiles, tile);
    with_rows<kTileRows>(strip.columns, [&](auto columns) {
      constexpr int kColumns = decltype(columns)::value;
      for (int64_t i = 0; i < count; ++i, out += kColumns)
        std::memcpy(out, a + i * a_stride + strip.first, kColumns * sizeof(T));
    });
  }
}

// Rows x (one panel) of dW: the sum over `count` rows of A and of a packed panel of D.
template <class T, int Rows>
CHRONODE_INLINE void gradient_tile(const T* a, int64_t a_stride, const T* d, int64_t count, T* out, int64_t stride,
                                   int64_t columns) {
  constexpr int kLanes = Vec<T>::kLanes;
  Vec<T> sums[Rows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kTileVectors; ++j) sums[r][j] = Vec<T>::zero();
  for (int64_t i = 0; i < count; ++i) {
    Vec<T> w[kTileVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kTileVectors; ++j) w[j] = Vec<T>::load(d + i * kPanelColumns<T> + j * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vec<T> x = a[i * a_stride + r];
#pragma GCC unroll 16
      for (int j = 0; j < kTileVectors; ++j) sums[r][j] = fma(x, w[j], sums[r][j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < kTileVectors; ++j)
      if (j * kLanes < columns) {
        const int lanes = lanes_within<T>(columns - j * kLanes);
        T* p = out + r * stride + j * kLanes;
        (Vec<T>::load(p, lanes) + sums[r][j]).store(p, lanes);
      }
}

// dW[k x n] += A^T D. For speed pass many rows at once: keep A and D of a chunk of time steps as rows [time][sample]
// and call once per chunk, with m = steps * samples >= 64 or so. For a gradient in torch's layout (out x in) let A be
// the gradient of the output and D the input.
template <class T>
inline void gemm_gradient(const T* a, int64_t a_stride, const T* d, int64_t d_stride, int64_t m, int64_t k, int64_t n,
                          T* dw, int64_t dw_stride, GradientScratch<T>& scratch) {
  const int64_t tiles = (k + kTileRows - 1) / kTileRows;
  // Rows a large power of two apart fall on the same few cache sets: then A is worth packing. D always is.
  const bool pack = a_stride * static_cast<int64_t>(sizeof(T)) >= 1024 && n > 2 * kPanelColumns<T>;
  for (int64_t start = 0; start < m; start += kGradientRows) {
    const int64_t count = std::min<int64_t>(kGradientRows, m - start);
    const T* rows = a + start * a_stride;
    if (pack) pack_strips(rows, a_stride, count, k, tiles, scratch.strips());
    for (int64_t column = 0; column < n; column += kPanelColumns<T>) {
      const int64_t columns = std::min<int64_t>(kPanelColumns<T>, n - column);
      for (int64_t i = 0; i < count; ++i)
        for (int j = 0; j < kPanelColumns<T>; j += Vec<T>::kLanes)
          Vec<T>::load(d + (start + i) * d_stride + column + j, lanes_within<T>(columns - j))
              .store(scratch.panel() + i * kPanelColumns<T> + j);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const Strip strip(k, tiles, tile);
        const T* first = pack ? scratch.strips() + strip.first * count : rows + strip.first;
        with_rows<kTileRows>(strip.columns, [&](auto size) {
          gradient_tile<T, decltype(size)::value>(first, pack ? strip.columns : a_stride, scratch.panel(), count,
                                                  dw + strip.first * dw_stride + column, dw_stride, columns);
        });
      }
    }
  }
}

// out[j] += sum over the m rows of d[i][j]: the gradient of a bias. A chain over the rows, in order.
template <class T>
inline void add_column_sums(const T* d, int64_t d_stride, int64_t m, int64_t n, T* out) {
  for (int64_t j = 0; j < n; j += Vec<T>::kLanes) {
    const int lanes = lanes_within<T>(n - j);
    Vec<T> total = Vec<T>::zero();
    for (int64_t i = 0; i < m; ++i) total += Vec<T>::load(d + i * d_stride + j, lanes);
    (Vec<T>::load(out + j, lanes) + total).store(out + j, lanes);
  }
}

}  // namespace chronode
