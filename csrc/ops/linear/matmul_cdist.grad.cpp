// Gradients of distances between rows. All formulas here are made of the derivative of |d|_p along one coordinate,
// sign(d) (|d| / distance)^(p-1); it is zero where the distance is.
#include <cmath>
#include <vector>

#include "device/move.h"
#include "ops/linear/matmul.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

Tensor cdist_backward(const Tensor& g, const Tensor& x1, const Tensor& x2, double p, const Tensor& distances) {
    DType dtype = g.dtype(), wide = compute_dtype(dtype);
    Dims left = leading(g, 2), right = left;
    int64_t m = x1.size(-2), n = x2.size(-2), k = x1.size(-1);
    for (int64_t size : {m, k}) left.push_back(size);
    for (int64_t size : {n, k}) right.push_back(size);
    Tensor out = zeros(left, wide, g.device());
    if (p == 0 || out.numel() == 0 || n == 0) return to_dtype(out, dtype);
    auto prepared = [&](const Tensor& t, const Dims& shape) { return contiguous(expand(to_dtype(t, wide), shape)); };
    Tensor x = prepared(x1, left), y = prepared(x2, right), a = prepared(g, g.shape()),
           d = prepared(distances, g.shape());
    device::multiplying(out).distance_slopes(out, a, x, y, p, d);
    return to_dtype(out, dtype);
}

Var transposed(const Var& x) { return transpose(x, -2, -1); }

}  // namespace

// Σ_j grad[i, j] * derivative of |x1[i] - x2[j]|: the gradient of the distances for x1.
OP("_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor distances) -> Tensor", 0) {
    return cdist_backward(a.tensor(0), a.tensor(1), a.tensor(2), a.number(3), a.tensor(4));
}

constexpr uint32_t points = IN(1) | IN(2) | IN(4);
GRAD("_cdist_backward", points, IN(0) | points, IN(0) | points, IN(0) | points) {
    double p = c.number(3);
    if (p == 0) return;
    Var x = c.in(1), y = c.in(2), r = unsqueeze(c.in(4), -1), h = unsqueeze(c.g(), -2);
    Var d = unsqueeze(x, -2) - unsqueeze(y, -3), size = abs(d), zero = r == 0, corner = size == 0;
    if (p == 1 || std::isinf(p)) {
        Var slope = p == 1 ? sgn(d) : sgn(d) * (size == r);
        return c.set(0, sum(h * slope, Dims{-1}));
    }
    Var safe = masked_fill(r, zero, 1), ratio = masked_fill(size, corner, 1) / safe;
    Var slope = masked_fill(sgn(d) * pow(ratio, p - 1), logical_or(zero, corner), 0);
    if (c.needs(0)) c.set(0, sum(h * slope, Dims{-1}));
    if (!c.needs(1) && !c.needs(2) && !c.needs(4)) return;
    // The derivatives of that derivative, for the coordinate and for the distance.
    Var weight = h * unsqueeze(c.in(0), -1);
    Var bend = masked_fill(pow(ratio, p - 2) * ((p - 1) / safe), p == 2 ? zero : logical_or(zero, corner), 0);
    Var along = weight * bend;
    if (c.needs(1)) c.set(1, sum(along, Dims{-2}));
    if (c.needs(2)) c.set(2, -sum(along, Dims{-3}));
    if (c.needs(4)) c.set(4, sum(weight * slope * ((1 - p) / safe), Dims{-1}));
}

GRAD("cdist", IN(0) | IN(1) | RESULT(0), IN(0) | IN(1) | RESULT(0)) {
    double p = c.number(2);
    std::string mode = c.given(3) ? c.text(3) : "use_mm_for_euclid_dist_if_necessary";
    Var x = cast(c.in(0), c.out_dtype()), y = cast(c.in(1), c.out_dtype()), g = c.g(), r = c.out();
    bool large = x.size(-2) > 25 || y.size(-2) > 25;
    if (p == 2 && (mode == "use_mm_for_euclid_dist" || (large && mode != "donot_use_mm_for_euclid_dist"))) {
        // Σ_j w (x - y[j]) as matrix products, like the distances.
        Var w = masked_fill(g / r, r == 0, 0);
        if (c.needs(0)) c.set(0, x * sum(w, Dims{-1}, true) - matmul(w, y));
        if (c.needs(1)) c.set(1, y * unsqueeze(sum(w, Dims{-2}), -1) - matmul(transposed(w), x));
        return;
    }
    if (c.needs(0)) c.set(0, call<"_cdist_backward">(g, x, y, p, r));
    if (c.needs(1)) c.set(1, call<"_cdist_backward">(transposed(g), y, x, p, transposed(r)));
}

GRAD("pdist", IN(0) | RESULT(0)) {
    int64_t n = c.shape(0)[0];
    if (n < 2) return c.set(0, zeros_of(c.shape(0), c.dtype(0), c.device()));
    // The pairs as a full, symmetric matrix.
    std::vector<int64_t> at;
    at.reserve(static_cast<size_t>(n * (n - 1) / 2));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) at.push_back(i * n + j);
    }
    Tensor places = empty({n * (n - 1) / 2}, DType::I64, c.g().tensor.device());
    device::moving(places).write(places, at.data());
    auto square = [&](const Var& pairs) {
        Var half = reshape(call<"_place">(pairs, Var(places), 0, n * n, false), Dims{n, n});
        return half + transposed(half);
    };
    c.set(0, call<"_cdist_backward">(square(c.g()), c.in(0), c.in(0), c.number(1), square(c.out())));
}

}  // namespace fb
