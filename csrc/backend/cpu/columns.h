// Batches of column-major matrices, as LAPACK expects them.
#pragma once
#include <algorithm>

#include "base/parallel.h"
#include "device/linalg.h"

namespace fb::cpu {

// A batch of column-major matrices.
struct Columns {
    const Tensor& tensor;
    int rows, cols;
    int64_t count;

    explicit Columns(const Tensor& t) : tensor(t), count(1) {
        const Dims& shape = t.shape();
        int64_t batch = t.dim() - 2;
        rows = static_cast<int>(shape[batch]), cols = static_cast<int>(shape[batch + 1]);
        for (int64_t d = 0; d < batch; d++) count *= shape[d];
    }
    template <class T>
    T* at(int64_t i) const {
        return tensor.data<T>() + i * rows * cols;
    }
    int ld() const { return std::max(1, rows); }
};

// Calls f(i) for every matrix of a batch, on several threads if the work per matrix is large enough.
template <class F>
void each_matrix(int64_t count, double work, F&& f) {
    int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(20000 / std::max(work, 1.0)));
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) f(i);
    });
}

// Parts of device::Decomposing implemented in other files.
void set_identity(const Tensor& a);
void eigenvalues(const Tensor& a, const Tensor& values, const Tensor& vectors, const Tensor& info);
void symmetric_eigenvalues(const Tensor& a, bool upper, bool vectors, const Tensor& values, const Tensor& info);
void singular_values(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh, bool full,
                     const Tensor& info);

void qr(const Tensor& a, const Tensor& tau);
void form_q(const Tensor& q, const Tensor& tau);
void multiply_q(const Tensor& reflectors, const Tensor& tau, bool left, bool adjoint, const Tensor& c);
void zero_below_diagonal(const Tensor& a);
void least_squares(device::LeastSquares routine, const Tensor& a, const Tensor& y, std::optional<double> rcond,
                   const Tensor& values, const Tensor& ranks, const Tensor& info);
void sums_of_squares(const Tensor& y, int64_t first, int64_t rows, const Tensor& out);

void lu(const Tensor& a, const Tensor& pivots, const Tensor& info);
void lu_solve(const Tensor& lu, const Tensor& pivots, const std::vector<int64_t>& map, const Tensor& b, char trans);
void lu_invert(const Tensor& lu, const Tensor& pivots, const Tensor& info);
void lu_determinant(const Tensor& lu, const Tensor& pivots, const Tensor& out);
void lu_log_determinant(const Tensor& lu, const Tensor& pivots, const Tensor& sign, const Tensor& log);
void lu_permutation(const Tensor& pivots, const Tensor& p);
void lu_parts(const Tensor& lu, const Tensor& l, const Tensor& u);
void check_pivots(const Tensor& pivots, int64_t rows);

}  // namespace fb::cpu
