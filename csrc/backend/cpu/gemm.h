// Matrix products on the CPU: own kernels, and OpenBLAS for complex matrices and for vectors. The summation order of an
// element depends on the shapes alone, never on the thread count.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

// Limits OpenBLAS to one thread: it must not start its own inside a parallel region. Must be called before any BLAS or
// LAPACK.
void prepare_blas();

// c = beta * c + alpha * a @ b. The last two dims are the matrices; leading dims are the batch, with the same sizes in
// all three (stride 0 allowed in a and b). All have one dtype; c overlaps neither operand. With beta = 0, c is not
// read.
void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha = Scalar(1),
          const Scalar& beta = Scalar(0));

// out = a @ b + bias for matrices of a half type: out and bias (one element per column) are contiguous, k > 0.
void half_gemm_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias);

// Σ x[i] * y[i] (conj(x[i]) when `conjugate`) of two 1-d tensors of the same size and dtype into the 0-d tensor `out`.
void dot(const Tensor& out, const Tensor& x, const Tensor& y, bool conjugate);

// One product by our own kernels, on the calling thread. Strides in elements; the columns of c are contiguous, its rows
// ldc apart.
struct OwnGemm {
    DType dtype;
    int64_t m, n, k;
    const char* a;
    int64_t a_row, a_col;
    const char* b;
    int64_t b_row, b_col;
    char* c;
    int64_t c_row;
    Scalar alpha, beta;
    const char* bias = nullptr;  // large_gemm adds it to every row; alpha must be 1 and beta 0
};
// Large products of float32 and float64, on several threads where that pays.
void packed_gemm(const OwnGemm& g);
// Small or thin products of float32 and float64: `count` of them, with the operands a number of elements apart. On the
// calling thread, as is the next one.
void direct_gemm(const OwnGemm& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step);
bool direct_gemm_fits(DType dtype, int64_t n, int64_t k, int64_t b_col);
// For a few rows of a; rows of a and columns of b are contiguous along k. Nothing is packed.
void rows_gemm(const OwnGemm& g);
bool rows_gemm_fits(const OwnGemm& g);
// One of packed_gemm and rows_gemm.
void large_gemm(const OwnGemm& g);
// Chooses the fastest of the three.
void float_gemm(const OwnGemm& g);
// A float matrix that many others are multiplied with from the left, one after the other; packed only once.
class RightFactor {
  public:
    explicit RightFactor(const Tensor& b);
    // c = beta * c + a @ b; the columns of c are contiguous.
    void times(const Tensor& c, const Tensor& a, double beta) const;

  private:
    char* start() const;
    OwnGemm product(const char* a, int64_t m, int64_t a_row, int64_t a_col, char* c, int64_t c_row, double beta) const;
    Tensor b_, panels_;
};

// Products of packed operands, on the calling thread. b consists of consecutive panels of panel_columns<T> columns and
// k rows each; a remainder may be one panel of half that width. n is a multiple of the half width.
#ifdef __AVX512F__
inline constexpr int64_t panel_bytes = 128, panel_depth = 512, panel_tall = 14;
#else
inline constexpr int64_t panel_bytes = 64, panel_depth = 256, panel_tall = 6;
#endif
template <class T>
inline constexpr int64_t panel_columns = panel_bytes / sizeof(T);
template <class T>
inline constexpr int64_t panel_pitch = panel_depth + 64 / sizeof(T);
inline constexpr int64_t panel_wide = panel_columns<float>, panel_row = panel_pitch<float>;
template <class T>
struct PanelProduct {
    int64_t m, n, k;
    const T *a, *b;
    T* c;
    int64_t c_row;
    bool add = false;         // accumulates into c
    int64_t b_step = 0;       // distance between panels of b, if they are longer than k rows
    const T* bias = nullptr;  // added to every row if c is overwritten
};
using PanelGemm = PanelProduct<float>;
// Row i of a begins at a + i * panel_pitch<T>. T is float or double.
template <class T>
void panel_product(const PanelProduct<T>& g);
inline void panel_gemm(const PanelGemm& g) { panel_product(g); }
// a is transposed: its k rows of m numbers are a_row apart.
template <class T>
void panel_product_transposed(const PanelProduct<T>& g, int64_t a_row);
inline void panel_gemm_transposed(const PanelGemm& g, int64_t a_row) { panel_product_transposed(g, a_row); }

// Up to panel_tall rows of a times one panel. a is split into pieces along k: elements at, at + 1 … of row i of a piece
// begin at a + i * a_step.
template <class T>
struct LeftPiece {
    const T* a;
    int64_t a_step, at, k;
};
template <class T>
struct PiecedTile {
    int64_t m;
    bool narrow;  // the panel has half the width
    const LeftPiece<T>*first, *last;
    const T* b;
    T* c;
    int64_t c_row;
    bool add;
    const T* bias;
};
template <class T>
void pieced_tile(const PiecedTile<T>& g);

// Integers and bool.
void own_gemm(const OwnGemm& g);

}  // namespace fb::cpu
