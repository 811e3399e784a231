// Matrix products on the CPU: OpenBLAS for large float and complex matrices, own kernels for integers, bool, and small
// or thin matrices. Every element is summed in an order that depends on the shapes alone, never on the thread count.
#pragma once
#include "tensor/tensor.h"

namespace fb::cpu {

// Threads are ours: OpenBLAS must not start its own inside a parallel region. To be called before any BLAS or LAPACK.
void prepare_blas();

// c = beta * c + alpha * a @ b. The last two dims are the matrices; leading dims are the batch, of the same sizes in
// all three (stride 0 allowed in a and b). All have one dtype; c overlaps nothing. With beta = 0, c is only written.
void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha = Scalar(1),
          const Scalar& beta = Scalar(0));

// Σ x[i] * y[i] (conj(x[i]) when `conjugate`) of two 1-d tensors of the same size and dtype into the 0-d tensor `out`.
void dot(const Tensor& out, const Tensor& x, const Tensor& y, bool conjugate);

// One block by our own kernels, on the calling thread. Strides in elements; c's columns are adjacent, ldc apart by
// rows.
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
};
// float32, float64, integers and bool.
void own_gemm(const OwnGemm& g);

}  // namespace fb::cpu
