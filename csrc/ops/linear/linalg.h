// Shared by the linear algebra ops: batches of column-major copies, errors, and factorisations for other families.
#pragma once
#include "ops/table/common.h"

namespace fb {

// One matrix after another, each column-major, as LAPACK expects. `tensor` has the logical shape (…, rows, cols).
struct Columns {
    Tensor tensor;
    int64_t count = 0;
    int rows = 0, cols = 0;
};
// Uninitialised, and a copy (broadcast to the batch if one is given).
Columns empty_columns(const Dims& batch, int64_t rows, int64_t cols, DType dtype, Device device);
Columns to_columns(const Tensor& a);
Columns to_columns(const Tensor& a, const Dims& batch);

// float32, float64, complex64, complex128 and at least two dims.
void check_matrices(const Tensor& a, const char* name = "A");
void check_square(const Tensor& a, const char* name = "A");
// Raises an error for values on which LAPACK may not terminate.
void check_finite(const Tensor& a, const char* name = "A");
Dims batch_of(const Tensor& a);
Dims with(Dims dims, std::initializer_list<int64_t> more);

// For every index of a batch, the index into another batch that broadcasts to it.
std::vector<int64_t> batch_map(const Dims& batch, const Dims& own);

// Raises a LinAlgError for the first matrix whose info is not zero; the text follows the op and the matrix, with #
// replaced by the info.
void check_info(const Tensor& info, const char* what);

// The conjugate of a complex tensor, as a new one; a real tensor itself.
Tensor conjugated(const Tensor& t);

struct LU {
    Columns factors;
    Tensor pivots, info;  // int32, from one
};
LU lu_factor(const Tensor& a);
// Cholesky factors, lower triangle; int32 info per matrix.
Tensor cholesky_lower(const Tensor& a, const Tensor& info);
struct Solved {
    Tensor result;
    LU lu;
};
// Solves A X = B (left) or X A = B.
Solved lu_solve(const Tensor& a, const Tensor& b, bool left);

// Singular values in descending order; U and Vh are empty tensors if not wanted.
struct SVD {
    Tensor u, s, vh;
};
SVD svd(const Tensor& a, bool vectors, bool full);
struct Eigen {
    Tensor values, vectors;
};
Eigen eigh(const Tensor& a, bool upper, bool vectors);

}  // namespace fb
