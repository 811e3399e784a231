// Matrix decompositions and the solvers based on them. A batch of matrices has shape (…, rows, columns), one matrix
// after another, each column-major; float32, float64, complex64 or complex128. `info`: one int32 code per matrix, 0 for
// success. `map`: for each right-hand side, the index of its factor.
#pragma once
#include <optional>
#include <vector>

#include "device/table.h"

namespace fb::device {

enum class LeastSquares { Gels, Gelsy, Gelsd, Gelss };  // LAPACK's routines

struct Decomposing {
    // Whether all values of a contiguous floating point or complex tensor are finite.
    bool (*all_finite)(const Tensor& t);
    // The index of the first nonzero code, or -1, and the code.
    int64_t (*first_code)(const Tensor& info, int& code);

    // a is overwritten by its factors; pivots: int32 (…, min(rows, columns)), counted from one.
    void (*lu)(const Tensor& a, const Tensor& pivots, const Tensor& info);
    // Solves op(A) X = B in place, with column-major B; trans: 'N', 'T' or 'C'.
    void (*lu_solve)(const Tensor& lu, const Tensor& pivots, const std::vector<int64_t>& map, const Tensor& b,
                     char trans);
    // Overwrites factors with the inverses, where info is 0.
    void (*lu_invert)(const Tensor& lu, const Tensor& pivots, const Tensor& info);
    void (*lu_determinant)(const Tensor& lu, const Tensor& pivots, const Tensor& out);
    // The sign (a unit number if complex) and the logarithm of the absolute value.
    void (*lu_log_determinant)(const Tensor& lu, const Tensor& pivots, const Tensor& sign, const Tensor& log);
    // P from contiguous pivots, and L and U from contiguous row-major factors; results are zero-initialised.
    void (*lu_permutation)(const Tensor& pivots, const Tensor& p);
    void (*lu_parts)(const Tensor& lu, const Tensor& l, const Tensor& u);
    // Raises an error for pivots that do not describe a permutation of `rows` rows.
    void (*check_pivots)(const Tensor& pivots, int64_t rows);

    // to: the lower factor of `from`, with zeros above the diagonal. `from` may have any strides; its lower triangle is
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

    // a is overwritten by reflectors below the diagonal and R above; tau: (…, min(rows, columns)).
    void (*qr)(const Tensor& a, const Tensor& tau);
    // Overwrites reflectors in the first columns of q with columns of Q.
    void (*form_q)(const Tensor& q, const Tensor& tau);
    // Overwrites c with Q c (left) or c Q, or the same with the adjoint of Q.
    void (*multiply_q)(const Tensor& reflectors, const Tensor& tau, bool left, bool adjoint, const Tensor& c);
    void (*zero_below_diagonal)(const Tensor& a);
    // y: the right-hand sides, with at least as many rows as a has columns; overwritten by the solutions. Singular
    // values and ranks may be undefined. a is overwritten.
    void (*least_squares)(LeastSquares routine, const Tensor& a, const Tensor& y, std::optional<double> rcond,
                          const Tensor& values, const Tensor& ranks, const Tensor& info);
    // Σ |y[r]|² over the rows from `first` on, for each column; and whether all ranks are `full`.
    void (*sums_of_squares)(const Tensor& y, int64_t first, int64_t rows, const Tensor& out);
    bool (*all_ranks)(const Tensor& ranks, int64_t full);

    // Singular values in descending order; u and vh have no rows if not wanted. a is overwritten.
    void (*svd)(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, bool full, const Tensor& info);
    // Complex eigenvalues and eigenvectors; the latter have no rows if not wanted. a is overwritten.
    void (*eig)(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info);
    // Eigenvalues in ascending order; a is overwritten by the eigenvectors if they are wanted.
    void (*eigh)(const Tensor& a, bool upper, bool vectors, const Tensor& values, const Tensor& info);

    // Conjugates a dense complex t in place.
    void (*conjugate)(const Tensor& t);
    void (*identity)(const Tensor& a);
};
inline const Decomposing& decomposing(const Tensor& on) { return device::on<Decomposing>(on.device()); }

}  // namespace fb::device
