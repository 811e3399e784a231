// LU decompositions and what is based on them.
#include <cmath>
#include <utility>

#include "backend/cpu/columns.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/lapack.h"
#include "backend/cpu/lapack_own.h"

namespace fb::cpu {
namespace {

template <class T>
int getrf(int m, int n, T* a, int lda, int* pivots) {
    if constexpr (is_complex_type<T>) return lapack::getrf(m, n, a, lda, pivots);
    else return lapack::factor_lu<T>(m, n, a, lda, pivots);
}

// right-hand sides solved together; fixed, so that results do not depend on the number of threads
constexpr int column_group = 64;

// Solves op(A) X = B in place for columns of B; `map` gives the factor of each batch element.
template <class T>
void solve_columns(const Columns& lu, const Tensor& pivots, const std::vector<int64_t>& map, const Columns& b,
                   char trans) {
    int64_t groups = std::max(1, (b.cols + column_group - 1) / column_group);
    if (b.cols == 0 || b.rows == 0) return;
    each_matrix(b.count * groups, double(b.rows) * b.rows * std::min(b.cols, column_group), [&](int64_t t) {
        int64_t i = t / groups;
        int first = static_cast<int>(t % groups) * column_group, cols = std::min(column_group, b.cols - first);
        const int* exchanges = pivots.data<int>() + map[i] * lu.rows;
        T* at = b.at<T>(i) + int64_t(first) * b.rows;
        if constexpr (!is_complex_type<T>) {
            if (trans == 'N')
                return lapack::solve_lu<T>(lu.rows, cols, lu.at<T>(map[i]), lu.ld(), exchanges, at, b.ld());
        }
        lapack::getrs(trans, lu.rows, cols, lu.at<T>(map[i]), lu.ld(), exchanges, at, b.ld());
    });
}

template <class T>
T unit(T x) {
    auto size = std::abs(x);
    return size == 0 ? T(0) : x / size;
}

// The row order after the pivots' exchanges, checked.
std::vector<int64_t> permutation(const int* pivots, int64_t count, int64_t rows) {
    std::vector<int64_t> order(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; i++) order[i] = i;
    for (int64_t i = 0; i < count; i++) {
        check(pivots[i] >= 1 && pivots[i] <= rows, "Pivots given to ", current_op ? current_op : "lu_solve",
              " must all be greater or equal to 1 and at most ", rows, ", as lu_factor returns them; got ", pivots[i]);
        std::swap(order[i], order[pivots[i] - 1]);
    }
    return order;
}

}  // namespace

void lu(const Tensor& a, const Tensor& pivots, const Tensor& info) {
    Columns c(a);
    int small = std::min(c.rows, c.cols);
    prepare_blas();
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto one = [&](int64_t i) { return std::pair(c.at<T>(i), pivots.data<int>() + i * small); };
        if (c.count < 4) {
            for (int64_t i = 0; i < c.count; i++) {
                auto [data, exchanges] = one(i);
                info.data<int>()[i] = getrf<T>(c.rows, c.cols, data, c.ld(), exchanges);
            }
            return;
        }
        each_matrix(c.count, double(c.rows) * c.cols * small, [&](int64_t i) {
            auto [data, exchanges] = one(i);
            info.data<int>()[i] = getrf<T>(c.rows, c.cols, data, c.ld(), exchanges);
        });
    });
}

void lu_solve(const Tensor& factors, const Tensor& pivots, const std::vector<int64_t>& map, const Tensor& b,
              char trans) {
    prepare_blas();
    dispatch_lapack(b.dtype(), [&](auto tag) {
        solve_columns<typename decltype(tag)::type>(Columns(factors), pivots, map, Columns(b), trans);
    });
}

void lu_invert(const Tensor& a, const Tensor& pivots, const Tensor& info) {
    Columns c(a);
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        each_matrix(c.count, double(c.rows) * c.rows * c.rows, [&](int64_t i) {
            if (info.data<int>()[i] == 0) lapack::getri(c.rows, c.at<T>(i), c.ld(), pivots.data<int>() + i * c.rows);
        });
    });
}

void lu_determinant(const Tensor& a, const Tensor& pivots, const Tensor& out) {
    Columns c(a);
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < c.count; i++) {
            T product(1);
            for (int d = 0; d < c.rows; d++) {
                product *= c.at<T>(i)[d + int64_t(d) * c.rows];
                if (pivots.data<int>()[i * c.rows + d] != d + 1) product = -product;
            }
            out.data<T>()[i] = product;
        }
    });
}

void lu_log_determinant(const Tensor& a, const Tensor& pivots, const Tensor& sign, const Tensor& log) {
    Columns c(a);
    dispatch_lapack(a.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = lapack::Real<T>;
        for (int64_t i = 0; i < c.count; i++) {
            T s(1);
            R sum = 0;
            for (int d = 0; d < c.rows; d++) {
                T x = c.at<T>(i)[d + int64_t(d) * c.rows];
                s *= unit(x);
                if (pivots.data<int>()[i * c.rows + d] != d + 1) s = -s;
                sum += std::log(std::abs(x));
            }
            sign.data<T>()[i] = s;
            log.data<R>()[i] = sum;
        }
    });
}

void lu_permutation(const Tensor& flat, const Tensor& p) {
    int64_t m = p.size(-1), k = flat.size(-1), count = checked_numel(Dims(p.shape().begin(), p.shape().end() - 2));
    dispatch_lapack(p.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < count; i++) {
            std::vector<int64_t> order = permutation(flat.data<int>() + i * k, k, m);
            for (int64_t r = 0; r < m; r++) p.data<T>()[(i * m + order[r]) * m + r] = T(1);
        }
    });
}

void lu_parts(const Tensor& source, const Tensor& l, const Tensor& u) {
    int64_t m = source.size(-2), n = source.size(-1), k = std::min(m, n),
            count = checked_numel(Dims(source.shape().begin(), source.shape().end() - 2));
    dispatch_lapack(source.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < count; i++) {
            const T* from = source.data<T>() + i * m * n;
            T *lower = l.data<T>() + i * m * k, *upper = u.data<T>() + i * k * n;
            for (int64_t r = 0; r < m; r++) {
                for (int64_t c = 0; c < std::min(r, k); c++) lower[r * k + c] = from[r * n + c];
                if (r < k) lower[r * k + r] = T(1);
                for (int64_t c = r; r < k && c < n; c++) upper[r * n + c] = from[r * n + c];
            }
        }
    });
}

void check_pivots(const Tensor& pivots, int64_t rows) {
    int64_t each = pivots.size(-1);
    for (int64_t i = 0; each && i < pivots.numel() / each; i++) permutation(pivots.data<int>() + i * each, each, rows);
}

}  // namespace fb::cpu
