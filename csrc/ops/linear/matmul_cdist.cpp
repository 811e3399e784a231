// cdist: distances between all pairs of rows.
#include <cmath>

#include "ops/linear/matmul.h"

namespace fb {
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
    Tensor out = empty(shape, wide, x1.device());
    if (out.numel() == 0) return to_dtype(out, dtype);
    if (k == 0) return zeros(shape, dtype, x1.device());
    Tensor x = contiguous(expand(to_dtype(x1, wide), left)), y = contiguous(expand(to_dtype(x2, wide), right));
    bool by_product = p == 2 && (always || (by_need && (m > 25 || n > 25)));
    device::multiplying(out).distances(out, x, y, p, by_product);
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
    int64_t n = x.shape()[0];
    Tensor out = empty({n < 2 ? 0 : n * (n - 1) / 2}, x.dtype(), x.device());
    device::multiplying(out).pair_distances(out, x, p);
    return to_dtype(out, input.dtype());
}

}  // namespace fb
