// Gradients of matrix products: matrix products with one factor transposed, as a view.
#include "ops/table/gradient.h"

namespace fb {
namespace {

// The conjugate transpose of the last two dimensions.
Var adjoint(const Var& x) { return conj(transpose(x, -2, -1)); }

// g * conj(factor), and g itself for a factor of one.
Var scaled(const Var& g, const Scalar& factor) {
    if (factor.kind != Kind::Complex && factor.re == 1) return g;
    Scalar conjugate = factor;
    conjugate.im = -conjugate.im;
    return g * Var(conjugate);
}

// (…, r, n) as a matrix of all rows, and as r rows, each joined over the batch.
Var all_rows(const Var& x) {
    if (x.dim() == 2) return x;
    int64_t count = 1;
    for (int64_t d = 0; d + 1 < x.dim(); d++) count *= x.shape()[d];
    return reshape(x, Dims{count, x.size(-1)});
}
Var joined_rows(const Var& x) {
    if (x.dim() == 2) return x;
    int64_t n = x.dim(), count = x.size(-1);
    Dims order{n - 2};
    for (int64_t d = 0; d < n - 2; d++) {
        order.push_back(d);
        count *= x.shape()[d];
    }
    order.push_back(n - 1);
    return reshape(permute(x, order), Dims{x.size(-2), count});
}

// The gradient of the second factor of x · y. If that is a transposed view, like a layer's weight, the transposed
// product is computed: then the gradient of the tensor behind the view has that tensor's layout.
bool is_transposed(const Var& y) { return y.dim() == 2 && !y.tensor.is_contiguous() && y.tensor.strides()[0] == 1; }
Var second_gradient(const Var& x, const Var& g, bool transposed) {
    return transposed ? transpose(mm(transpose(g, 0, 1), conj(x)), 0, 1) : mm(adjoint(x), g);
}

// One product per wanted gradient, with vectors as thin matrices. A factor without a batch sums over the other's batch
// inside its product.
void matmul_gradient(GradCall& c) {
    int64_t m = c.dim(0), n = c.dim(1);
    Var g = c.g();
    if (m == 1 && n == 1) {
        if (c.needs(0)) c.set(0, g * conj(c.in(1)));
        if (c.needs(1)) c.set(1, g * conj(c.in(0)));
        return;
    }
    if (m == 2 && n == 1) {
        if (c.needs(0)) c.set(0, call<"outer">(g, conj(c.in(1))));
        if (c.needs(1)) c.set(1, call<"mv">(adjoint(c.in(0)), g));
        return;
    }
    if (m == 1 && n == 2) {
        if (c.needs(0)) c.set(0, call<"mv">(conj(c.in(1)), g));
        if (c.needs(1)) c.set(1, call<"outer">(conj(c.in(0)), g));
        return;
    }
    bool transposed = false;
    if (m == 2 && n == 2) {
        if (c.needs(0)) {
            Var y = c.in(1);
            transposed = is_transposed(y);
            c.set(0, mm(g, adjoint(y)));
        }
        if (c.needs(1)) c.set(1, second_gradient(c.in(0), g, transposed));
        return;
    }
    if (n == 1) g = unsqueeze(g, -1);
    if (m == 1) g = unsqueeze(g, -2);
    if (c.needs(0)) {
        Var y = n == 1 ? unsqueeze(c.in(1), 1) : c.in(1);
        transposed = is_transposed(y);
        Var gradient = m <= 2 ? mm(joined_rows(g), adjoint(joined_rows(y))) : matmul(g, adjoint(y));
        c.set(0, m == 1 ? reshape(gradient, c.shape(0)) : gradient);
    }
    if (c.needs(1)) {
        Var x = m == 1 ? unsqueeze(c.in(0), 0) : c.in(0);
        Var gradient = n <= 2 ? second_gradient(all_rows(x), all_rows(g), transposed) : matmul(adjoint(x), g);
        c.set(1, n == 1 ? reshape(gradient, c.shape(1)) : gradient);
    }
}

}  // namespace

GRAD("matmul|linalg.matmul|mm|mv|dot", IN(1), IN(0)) { matmul_gradient(c); }
GRAD("bmm", IN(1), IN(0)) {
    if (c.needs(0)) c.set(0, bmm(c.g(), adjoint(c.in(1))));
    if (c.needs(1)) c.set(1, bmm(adjoint(c.in(0)), c.g()));
}
GRAD("vdot", IN(1), IN(0)) {
    if (c.needs(0)) c.set(0, conj(c.g()) * c.in(1));
    if (c.needs(1)) c.set(1, c.g() * c.in(0));
}
GRAD("inner", IN(1), IN(0)) {
    // Two matrices with rows of the same length; a 0-d tensor makes them rows of one.
    bool scalars = c.dim(0) == 0 || c.dim(1) == 0;
    auto matrix = [&](const Var& x) {
        return scalars ? reshape(x, Dims{x.numel(), 1}) : x.dim() == 1 ? unsqueeze(x, 0) : all_rows(x);
    };
    auto height = [&](int arg) {
        int64_t count = 1;
        for (int64_t d = 0; d < c.dim(arg) - (scalars ? 0 : 1); d++) count *= c.shape(arg)[d];
        return count;
    };
    Var g = reshape(c.g(), Dims{height(0), height(1)});
    if (c.needs(0)) c.set(0, reshape(mm(g, conj(matrix(c.in(1)))), c.shape(0)));
    if (c.needs(1)) c.set(1, reshape(mm(transpose(g, 0, 1), conj(matrix(c.in(0)))), c.shape(1)));
}
GRAD("outer", IN(1), IN(0)) {
    Var g = c.g();
    if (c.needs(0)) c.set(0, call<"mv">(g, conj(cast(c.in(1), g.dtype()))));
    if (c.needs(1)) c.set(1, call<"mv">(transpose(g, 0, 1), conj(cast(c.in(0), g.dtype()))));
}

// ---- beta * input + alpha * product ---------------------------------------------------------------------------------

GRAD("addmm", 0, IN(2), IN(1)) {
    Var g = c.g();
    bool transposed = false;
    if (c.needs(0)) c.set(0, scaled(g, c.scalar(3)));
    if (c.needs(1)) {
        Var y = c.in(2);
        transposed = is_transposed(y);
        c.set(1, scaled(mm(g, adjoint(y)), c.scalar(4)));
    }
    if (c.needs(2)) c.set(2, scaled(second_gradient(c.in(1), g, transposed), c.scalar(4)));
}
GRAD("addmv", 0, IN(2), IN(1)) {
    Var g = c.g();
    if (c.needs(0)) c.set(0, scaled(g, c.scalar(3)));
    if (c.needs(1)) c.set(1, scaled(call<"outer">(g, conj(c.in(2))), c.scalar(4)));
    if (c.needs(2)) c.set(2, scaled(call<"mv">(adjoint(c.in(1)), g), c.scalar(4)));
}
GRAD("addr", 0, IN(2), IN(1)) {
    Var g = c.g();
    if (c.needs(0)) c.set(0, scaled(g, c.scalar(3)));
    if (c.needs(1)) c.set(1, scaled(call<"mv">(g, conj(cast(c.in(2), g.dtype()))), c.scalar(4)));
    if (c.needs(2)) c.set(2, scaled(call<"mv">(transpose(g, 0, 1), conj(cast(c.in(1), g.dtype()))), c.scalar(4)));
}
GRAD("baddbmm", 0, IN(2), IN(1)) {
    Var g = c.g();
    if (c.needs(0)) c.set(0, scaled(g, c.scalar(3)));
    if (c.needs(1)) c.set(1, scaled(bmm(g, adjoint(c.in(2))), c.scalar(4)));
    if (c.needs(2)) c.set(2, scaled(bmm(adjoint(c.in(1)), g), c.scalar(4)));
}
GRAD("addbmm", 0, IN(2), IN(1)) {
    if (c.needs(0)) c.set(0, scaled(c.g(), c.scalar(3)));
    // Every product of the batch gets the same gradient.
    if (c.needs(1)) c.set(1, scaled(matmul(c.g(), adjoint(c.in(2))), c.scalar(4)));
    if (c.needs(2)) c.set(2, scaled(matmul(adjoint(c.in(1)), c.g()), c.scalar(4)));
}

}  // namespace fb
