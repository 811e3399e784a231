// Decompositions of matrices and the solutions that rest on them. A batch of matrices has shape (…, rows, columns), one
// matrix after another, each column-major; float32, float64, complex64 or complex128. `info`: one int32 code per
// matrix, 0 for success. `map`: for every right side, which factor it belongs to.
#pragma once
#include <optional>
#include <vector>

#include "device/table.h"

namespace fb::device {

enum class LeastSquares { Gels, Gelsy, Gelsd, Gelss };  // LAPACK's routines

struct Decomposing {
    // Whether all values are finite; of any contiguous floating point or complex tensor.
    bool (*all_finite)(const Tensor& t);
    // The first code that is not zero: its place, or -1, and the code.
    int64_t (*first_code)(const Tensor& info, int& code);

    // a becomes its factors; pivots: int32 (…, min(rows, columns)), from one.
    void (*lu)(const Tensor& a, const Tensor& pivots, const Tensor& info);
    // Solves op(A) X = B in place for columns of B; trans: 'N', 'T' or 'C'.
    void (*lu_solve)(const Tensor& lu, const Tensor& pivots, const std::vector<int64_t>& map, const Tensor& b,
                     char trans);
    // Factors become the inverses, where info is 0.
    void (*lu_invert)(const Tensor& lu, const Tensor& pivots, const Tensor& info);
    void (*lu_determinant)(const Tensor& lu, const Tensor& pivots, const Tensor& out);
    // A unit number, and the logarithm of the absolute value.
    void (*lu_log_determinant)(const Tensor& lu, const Tensor& pivots, const Tensor& sign, const Tensor& log);
    // P from contiguous pivots, and L and U from contiguous row-major factors; results are zeros before.
    void (*lu_permutation)(const Tensor& pivots, const Tensor& p);
    void (*lu_parts)(const Tensor& lu, const Tensor& l, const Tensor& u);
    // An error for pivots that are no permutation of `rows` rows.
    void (*check_pivots)(const Tensor& pivots, int64_t rows);

    // to: the lower factor, with zeros above the diagonal, of `from`, of any strides, of which the lower triangle is
    // read.
    void (*cholesky)(const Tensor& to, const Tensor& from, const Tensor& info);
    void (*cholesky_solve)(const Tensor& factor, bool upper, const std::vector<int64_t>& map, const Tensor& b);
    void (*cholesky_invert)(const Tensor& factor, bool upper, const Tensor& info);
    void (*triangular_solve)(const Tensor& a, bool upper, bool left, bool unit, char trans,
                             const std::vector<int64_t>& map, const Tensor& b);

    void (*ldl)(const Tensor& a, bool hermitian, const Tensor& pivots, const Tensor& info);
    // Pivots are checked.
    void (*ldl_solve)(const Tensor& factor, const Tensor& pivots, bool hermitian, const std::vector<int64_t>& map,
                      const Tensor& b);

    // a becomes reflectors below and R above the diagonal; tau: (…, min(rows, columns)).
    void (*qr)(const Tensor& a, const Tensor& tau);
    // Reflectors in the first columns of q become columns of Q.
    void (*form_q)(const Tensor& q, const Tensor& tau);
    // c becomes Q c (left) or c Q, or with the adjoint of Q.
    void (*multiply_q)(const Tensor& reflectors, const Tensor& tau, bool left, bool adjoint, const Tensor& c);
    void (*zero_below_diagonal)(const Tensor& a);
    // y: right sides, and at least as many rows as a has columns; becomes the solutions. Singular values and ranks may
    // be undefined. a is overwritten.
    void (*least_squares)(LeastSquares routine, const Tensor& a, const Tensor& y, std::optional<double> rcond,
                          const Tensor& values, const Tensor& ranks, const Tensor& info);
    // Σ |y[r]|² over the rows from `first` on, for every column; and whether all ranks are `full`.
    void (*sums_of_squares)(const Tensor& y, int64_t first, int64_t rows, const Tensor& out);
    bool (*all_ranks)(const Tensor& ranks, int64_t full);

    // Descending singular values; u and vh have no rows when not wanted. a is overwritten.
    void (*svd)(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, bool full, const Tensor& info);
    // Complex eigenvalues, and eigenvectors, which have no rows when not wanted. a is overwritten.
    void (*eig)(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info);
    // Ascending eigenvalues; a becomes the eigenvectors when they are wanted.
    void (*eigh)(const Tensor& a, bool upper, bool vectors, const Tensor& values, const Tensor& info);

    // Dense complex t becomes its conjugate.
    void (*conjugate)(const Tensor& t);
    void (*identity)(const Tensor& a);
};
inline const Decomposing& decomposing(const Tensor& on) { return device::on<Decomposing>(on.device()); }

}  // namespace fb::device
