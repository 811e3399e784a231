// The gradient of attention.
#include <limits>

#include "autograd/mode.h"
#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb {

// With all scores at once: for higher-order gradients, and the gradient of the mask. Half types compute in float32.
static void composed_gradient(GradCall& c) {
    DType dtype = c.dtype(0), inside = compute_dtype(dtype);
    auto widened = [&](const Var& x) { return dtype == inside ? x : cast(x, inside); };
    auto set = [&](int i, const Var& x) { c.set(i, dtype == inside ? x : cast(x, dtype)); };
    Var g = widened(c.g(0)), q = widened(c.in(0)), k = widened(c.in(1)), v = widened(c.in(2));
    const Dims &qs = c.shape(0), &ks = c.shape(1), &vs = c.shape(2);
    int64_t shared = qs[1] / ks[1];
    auto repeat = [&](const Var& x) {
        if (shared == 1) return x;
        Dims wide{x.size(0), x.size(1), shared, x.size(2), x.size(3)};
        return reshape(expand(unsqueeze(x, 2), wide), Dims{qs[0], qs[1], x.size(2), x.size(3)});
    };
    auto gathered = [&](const Var& x, const Dims& shape) {
        if (shared == 1) return x;
        return sum(reshape(x, Dims{shape[0], shape[1], shared, shape[2], shape[3]}), Dims{2}, false);
    };
    Var scale(c.number(5)), scores = matmul(q * scale, transpose(repeat(k), -2, -1)), hidden;
    if (c.given(3) && c.dtype(3) == DType::Bool) hidden = logical_not(c.in(3));
    else if (c.given(3)) scores = scores + (c.dtype(3) == inside ? c.in(3) : cast(c.in(3), inside));
    if (c.flag(4)) hidden = logical_not(tril(Var(full({qs[2], ks[2]}, Scalar(true), DType::Bool, c.device()))));
    double lowest = -std::numeric_limits<double>::infinity();
    if (hidden.defined()) scores = masked_fill(scores, hidden, lowest);
    Var weights = masked_fill(call<"softmax">(scores, -1), all(scores == lowest, -1, true), 0);
    if (c.needs(2)) set(2, gathered(matmul(transpose(weights, -2, -1), g), vs));
    Var slope = matmul(g, transpose(repeat(v), -2, -1));
    slope = weights * (slope - sum(slope * weights, Dims{-1}, true));
    if (c.has(1)) slope = slope + weights * unsqueeze(c.g(1), -1);
    if (hidden.defined()) slope = masked_fill(slope, hidden, 0);
    if (c.needs(0)) set(0, matmul(slope, repeat(k)) * scale);
    if (c.needs(1)) set(1, gathered(matmul(transpose(slope, -2, -1), q), ks) * scale);
    if (c.given(3) && c.needs(3)) c.set(3, c.dtype(3) == inside ? slope : cast(slope, c.dtype(3)));
}

constexpr uint32_t kept = IN(0) | IN(1) | IN(2) | IN(3) | RESULT(0) | RESULT(1);
GRAD("_attention", kept, kept, kept, kept) {
    if (grad_enabled() || (c.given(3) && c.needs(3)) || c.has(1)) return composed_gradient(c);
    Var mask = c.given(3) ? c.in(3) : Var();
    auto all = call_all<"_attention_backward">(c.g(0), c.in(0), c.in(1), c.in(2), mask, c.flag(4), c.number(5),
                                               c.out(0), c.out(1));
    for (int i = 0; i < 3; i++) c.set(i, all[static_cast<size_t>(i)]);
}

}  // namespace fb
