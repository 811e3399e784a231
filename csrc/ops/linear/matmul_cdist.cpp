// cdist: distances between all pairs of rows.
#include <cmath>

#include "backend/cpu/gemm.h"
#include "ops/linear/matmul.h"

namespace fb {
namespace {

template <class T>
T distance(const T* x, const T* y, int64_t n, double p) {
    T sum = 0;
    if (p == 0) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += x[i] != y[i] ? T(1) : T(0);
        return sum;
    }
    if (p == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += std::abs(x[i] - y[i]);
        return sum;
    }
    if (p == 2) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
        return std::sqrt(sum);
    }
    if (std::isinf(p)) {
        for (int64_t i = 0; i < n; i++) {
            T d = std::abs(x[i] - y[i]);
            if (d > sum || d != d) sum = d;
            if (sum != sum) break;
        }
        return sum;
    }
    for (int64_t i = 0; i < n; i++) sum += std::pow(std::abs(x[i] - y[i]), T(p));
    return std::pow(sum, T(1 / p));
}

template <class T>
void square_norms(T* to, const T* x, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++, x += cols) {
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < cols; j++) sum += x[j] * x[j];
        to[i] = sum;
    }
}

// |x|² + |y|² - 2 x·y: one matrix product, at the cost of cancellation for close points.
template <class T>
void euclid_by_product(const Tensor& out, const Tensor& x, const Tensor& y) {
    int64_t d = x.dim(), m = x.shape()[d - 2], n = y.shape()[d - 2], k = x.shape()[d - 1],
            batch = out.numel() / (m * n);
    cpu::gemm(out, x, transpose(y, -1, -2), Scalar(-2), Scalar(0));
    Tensor nx = empty({batch * m}, x.dtype()), ny = empty({batch * n}, x.dtype());
    square_norms(nx.data<T>(), x.data<T>(), batch * m, k);
    square_norms(ny.data<T>(), y.data<T>(), batch * n, k);
    parallel_for(batch * m, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
            T* to = out.data<T>() + row * n;
            const T* b = ny.data<T>() + row / m * n;
            T a = nx.data<T>()[row];
#pragma omp simd
            for (int64_t j = 0; j < n; j++) {
                T square = to[j] + a + b[j];
                to[j] = std::sqrt(square < 0 ? T(0) : square);
            }
        }
    });
}

}  // namespace

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, const std::string& mode) {
    bool by_need = mode == "use_mm_for_euclid_dist_if_necessary", always = mode == "use_mm_for_euclid_dist";
    check(by_need || always || mode == "donot_use_mm_for_euclid_dist", "\"", mode,
          "\" is not a valid compute_mode; expected use_mm_for_euclid_dist_if_necessary, use_mm_for_euclid_dist or "
          "donot_use_mm_for_euclid_dist");
    check(x1.dim() >= 2 && x2.dim() >= 2, "both inputs need at least 2 dimensions, got shapes ", x1.shape(), " and ",
          x2.shape());
    check(x1.shape().back() == x2.shape().back(), "both inputs must have the same number of columns, got shapes ",
          x1.shape(), " and ", x2.shape());
    check(is_floating(x1.dtype()) && is_floating(x2.dtype()), "needs floating point tensors, got ", x1.dtype(), " and ",
          x2.dtype());
    check(p >= 0, "p must not be negative, got ", p);
    DType dtype = result_type({x1, x2}), wide = compute_dtype(dtype);
    Dims batch = broadcast_shapes(leading(x1, 2), leading(x2, 2)), left = batch, right = batch, shape = batch;
    int64_t m = x1.size(-2), n = x2.size(-2), k = x1.size(-1);
    left.push_back(m);
    left.push_back(k);
    right.push_back(n);
    right.push_back(k);
    shape.push_back(m);
    shape.push_back(n);
    Tensor out = empty(shape, wide);
    if (out.numel() == 0) return to_dtype(out, dtype);
    if (k == 0) return zeros(shape, dtype);
    Tensor x = contiguous(expand(to_dtype(x1, wide), left)), y = contiguous(expand(to_dtype(x2, wide), right));
    dispatch<float, double>(wide, "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (p == 2 && (always || (by_need && (m > 25 || n > 25)))) return euclid_by_product<T>(out, x, y);
        int64_t rows = out.numel() / n;
        parallel_for(rows, std::max<int64_t>(1, parallel_grain / (n * k)), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; row++) {
                const T *a = x.data<T>() + row * k, *b = y.data<T>() + row / m * n * k;
                T* to = out.data<T>() + row * n;
                for (int64_t j = 0; j < n; j++) to[j] = distance(a, b + j * k, k, p);
            }
        });
    });
    return to_dtype(out, dtype);
}

OP("cdist(Tensor x1, Tensor x2, float p=2.0, str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor",
   FUNCTION,
   R"(Distances between every row of one batch of matrices and every row of another.

Args:
    x1: shape (..., m, k).
    x2: shape (..., n, k); leading dimensions broadcast.
    p: the norm, from 0 (count of differing entries) to infinity (largest difference).
    compute_mode: whether Euclidean distances come from a matrix product; by default when there are more than 25 rows.

Returns:
    A tensor of shape (..., m, n).

Example:
    >>> fb.cdist(fb.tensor([[0., 0.]]), fb.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
)") {
    return cdist(a.tensor(0), a.tensor(1), a.number(2), a.given(3) ? a.text(3) : "use_mm_for_euclid_dist_if_necessary");
}

OP("pdist(Tensor input, float p=2) -> Tensor", FUNCTION, R"(Distances between all pairs of different rows of a matrix.

Args:
    input: shape (n, k).
    p: the norm, from 0 to infinity.

Returns:
    A vector with the distances of the pairs (0, 1), (0, 2), ..., (n-2, n-1).

Example:
    >>> fb.pdist(fb.tensor([[0., 0.], [3., 4.], [0., 1.]]))
    tensor([5.0000, 1.0000, 4.2426])
)") {
    const Tensor& input = a.tensor(0);
    double p = a.number(1);
    check(input.dim() == 2, "expected a matrix, got shape ", input.shape());
    check(is_floating(input.dtype()), "needs a floating point tensor, got ", input.dtype());
    check(p >= 0, "p must not be negative, got ", p);
    Tensor x = contiguous(to_dtype(input, compute_dtype(input.dtype())));
    int64_t n = x.shape()[0], k = x.shape()[1];
    Tensor out = empty({n < 2 ? 0 : n * (n - 1) / 2}, x.dtype());
    dispatch<float, double>(x.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = out.data<T>();
        const T* rows = x.data<T>();
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = i + 1; j < n; j++) *to++ = distance(rows + i * k, rows + j * k, k, p);
        }
    });
    return to_dtype(out, input.dtype());
}

}  // namespace fb
