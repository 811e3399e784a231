// matmul and related ops: checks, broadcasting of batches, output; the arithmetic is the device's.
#include "ops/linear/matmul.h"

#include "base/wording.h"

namespace fb {

Dims leading(const Tensor& t, int64_t keep) { return Dims(t.shape().begin(), t.shape().begin() + (t.dim() - keep)); }

void check_same_dtype(const Tensor& x, const Tensor& y) {
    check(x.dtype() == y.dtype(), "expected m1 and m2 to have the same dtype, but got: ", c_type(x.dtype()),
          " != ", c_type(y.dtype()), " (", x.dtype(), " and ", y.dtype(), "); convert one with .to(dtype)");
}

Tensor product_target(Args& a, const Dims& shape, DType dtype, Tensors inputs, bool converts) {
    if (!a.out || (converts && a.out.dtype() != dtype)) return empty(shape, dtype, common_device(inputs));
    if (a.out.dtype() != dtype) fail_type(OutDType{dtype, a.out.dtype()});
    for (const Tensor& t : inputs) {
        if (t.is_same(a.out) || share_memory(a.out, t)) return empty(shape, dtype, t.device());
    }
    return output(a, shape, dtype, {});
}

void multiply_add(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias) {
    if (bias && device::multiplying(out).gemm_bias(out, a, b, bias)) return;
    if (bias) copy_into(out, expand(bias, out.shape()));
    gemm(out, a, b, Scalar(1), Scalar(bias ? 1 : 0));
}

namespace {

bool one(const Scalar& s) { return s.is_integral() ? s.i == 1 : s.re == 1 && s.im == 0; }
bool zero(const Scalar& s) { return s.is_integral() ? s.i == 0 : s.re == 0 && s.im == 0; }

void check_dim(const Tensor& t, int64_t dim, const char* which) {
    check(t.dim() == dim, which, " must be ",
          dim == 1   ? "a vector (1-d)"
          : dim == 2 ? "a matrix (2-d)"
                     : "a batch of matrices (3-d)",
          ", got shape ", t.shape());
}
void check_inner(const Tensor& x, const Tensor& y, int64_t left, int64_t right) {
    if (left == right) return;
    if (x.dim() == 2 && y.dim() == 2)
        fail_value("mat1 and mat2 shapes cannot be multiplied (", x.shape()[0], "x", x.shape()[1], " and ",
                   y.shape()[0], "x", y.shape()[1], "): inner sizes ", left, " and ", right, " differ");
    fail_value("shapes ", x.shape(), " and ", y.shape(), " cannot be multiplied: inner sizes ", left, " and ", right,
               " differ");
}
void check_scalars(DType dtype, const Scalar& beta, const Scalar& alpha) {
    if (!is_complex(dtype))
        check(beta.kind != Kind::Complex && alpha.kind != Kind::Complex, "beta and alpha must be real for dtype ",
              dtype);
}

Tensor matmul_args(Args& args, const Tensor& x, const Tensor& y) {
    check(x.dim() > 0 && y.dim() > 0, "both arguments need at least 1 dimension, got ", x.dim(), "-d and ", y.dim(),
          "-d; use mul for scalars");
    check_same_dtype(x, y);
    DType dtype = x.dtype();
    if (x.dim() == 1 && y.dim() == 1) {
        check_inner(x, y, x.shape()[0], y.shape()[0]);
        Tensor out = product_target(args, {}, dtype, {x, y});
        device::multiplying(out).dot(out, x, y, false);
        return out;
    }
    if (x.dim() == 2 && y.dim() == 2) {
        check_inner(x, y, x.shape()[1], y.shape()[0]);
        Tensor out = product_target(args, {x.shape()[0], y.shape()[1]}, dtype, {x, y});
        gemm(out, x, y);
        return out;
    }
    Tensor a = x.dim() == 1 ? unsqueeze(x, 0) : x, b = y.dim() == 1 ? unsqueeze(y, 1) : y;
    check_inner(x, y, a.shape().back(), b.shape()[b.dim() - 2]);
    Dims batch = broadcast_shapes(leading(a, 2), leading(b, 2));
    int64_t m = a.shape()[a.dim() - 2], n = b.shape().back(), k = a.shape().back();
    Dims shape = batch, left = batch, right = batch;
    if (x.dim() > 1) shape.push_back(m);
    if (y.dim() > 1) shape.push_back(n);
    left.push_back(m);
    left.push_back(k);
    right.push_back(k);
    right.push_back(n);
    Tensor out = product_target(args, shape, dtype, {x, y}), full = out;
    if (x.dim() == 1) full = unsqueeze(full, full.dim() - 1);
    if (y.dim() == 1) full = unsqueeze(full, full.dim());
    gemm(full, expand(a, left), expand(b, right));
    return out;
}

void check_batch_dtypes(const Tensor& input, const Tensor& x, const Tensor& y) {
    check(input.dtype() == x.dtype() && x.dtype() == y.dtype(), "Input dtypes must be the same, got: input ",
          c_type(input.dtype()), ", batch1: ", c_type(x.dtype()), ", batch2: ", c_type(y.dtype()));
}

// Shared by addmm, addmv and baddbmm: checks a and b; `shape` is that of the product.
Tensor add_product(Args& args, const Tensor& input, const Tensor& a, const Tensor& b, const Dims& shape,
                   const Scalar& beta, const Scalar& alpha, bool converts = false) {
    if (b.dim() == 3) check_batch_dtypes(input, a, b);
    check_same_dtype(input, a);
    check_same_dtype(a, b);
    check_scalars(a.dtype(), beta, alpha);
    Tensor start = expand(input, shape);
    Tensor out;
    if (args.out && args.out.is_same(input) && input.shape() == shape && !share_memory(input, a) &&
        !share_memory(input, b) && !may_overlap_itself(input)) {
        out = output(args, shape, a.dtype(), {input});
    } else {
        out = product_target(args, shape, a.dtype(), {input, a, b}, converts);
        if (input.dim() == 1 && b.dim() == 2 && one(beta) && one(alpha) && out.is_contiguous()) {
            multiply_add(out, a, b, input);
            return out;
        }
        if (!zero(beta)) copy_into(out, start);
    }
    bool vector = b.dim() == 1;
    gemm(vector ? unsqueeze(out, 1) : out, a, vector ? unsqueeze(b, 1) : b, alpha, beta);
    return out;
}

Tensor addmm_args(Args& args, const Tensor& input, const Tensor& x, const Tensor& y, const Scalar& beta,
                  const Scalar& alpha) {
    check_dim(x, 2, "mat1");
    check_dim(y, 2, "mat2");
    check_inner(x, y, x.shape()[1], y.shape()[0]);
    return add_product(args, input, x, y, {x.shape()[0], y.shape()[1]}, beta, alpha);
}

void check_batches(const Tensor& x, const Tensor& y, const char* first, const char* second) {
    check_dim(x, 3, first);
    check_dim(y, 3, second);
    check(x.shape()[0] == y.shape()[0], "expected batches of the same size, got shapes ", x.shape(), " and ",
          y.shape());
    check_inner(x, y, x.shape()[2], y.shape()[1]);
}

Tensor addbmm(Args& args, const Tensor& input, const Tensor& x, const Tensor& y, const Scalar& beta,
              const Scalar& alpha) {
    check_batches(x, y, "batch1", "batch2");
    check_batch_dtypes(input, x, y);
    check_scalars(x.dtype(), beta, alpha);
    Dims shape = {x.shape()[1], y.shape()[2]};
    Tensor start = expand(input, shape);
    // Half types are summed in float: the batch is one long sum.
    Tensor sum = is_half(x.dtype()) || !args.out ? empty(shape, compute_dtype(x.dtype()), x.device())
                                                 : product_target(args, shape, x.dtype(), {input, x, y});
    if (zero(beta) || x.shape()[0] == 0) fill(sum, Scalar(0));
    if (!zero(beta)) copy_into(sum, start);
    if (x.shape()[0] == 0) {
        Tensor none = empty({shape[0], 0}, sum.dtype(), sum.device());
        gemm(sum, none, empty({0, shape[1]}, sum.dtype(), sum.device()), alpha, beta);
    }
    for (int64_t i = 0; i < x.shape()[0]; i++) {
        gemm(sum, to_dtype(select(x, 0, i), sum.dtype()), to_dtype(select(y, 0, i), sum.dtype()), alpha,
             i ? Scalar(1) : beta);
    }
    return to_dtype(sum, x.dtype());
}

Tensor outer(Args& args, const Tensor& x, const Tensor& y) {
    check(x.dim() == 1 && y.dim() == 1, "expected two 1-d tensors, got shapes ", x.shape(), " and ", y.shape());
    DType dtype = result_type({x, y});
    Tensor out = product_target(args, {x.numel(), y.numel()}, dtype, {x, y}, true);
    Tensor left = to_dtype(x, dtype), right = to_dtype(y, dtype);
    device::multiplying(out).outer(out, left, right);
    return out;
}

// Half types are rounded after every operation here, as in elementwise ops.
Tensor addr_half(const Tensor& input, const Tensor& x, const Tensor& y, const Dims& shape, DType dtype,
                 const Scalar& beta, const Scalar& alpha) {
    Tensor start = contiguous(expand(to_dtype(input, dtype), shape)), out = empty(shape, dtype, input.device());
    Tensor left = contiguous(to_dtype(x, dtype)), right = contiguous(to_dtype(y, dtype));
    device::multiplying(out).add_outer_half(out, start, left, right, beta, alpha);
    return out;
}

Tensor addr(Args& args, const Tensor& input, const Tensor& x, const Tensor& y, const Scalar& beta,
            const Scalar& alpha) {
    check(x.dim() == 1 && y.dim() == 1, "expected two 1-d tensors, got shapes ", x.shape(), " and ", y.shape());
    DType dtype = result_type({input, x, y});
    for (auto [value, name] : {std::pair(&beta, "beta"), std::pair(&alpha, "alpha")})
        check(dtype == DType::Bool || value->kind != Kind::Bool, "Boolean ", name,
              " only supported for Boolean results, the dtype is ", dtype);
    // Fractional parts would be lost silently.
    if (is_integral_or_bool(dtype))
        check(beta.is_integral() && alpha.is_integral(), "For integral input tensors, argument ",
              beta.is_integral() ? "alpha" : "beta", " must not be a floating point number. The dtype is ", dtype);
    Dims shape = {x.numel(), y.numel()};
    if (is_half(dtype)) return addr_half(input, x, y, shape, dtype, beta, alpha);
    Tensor a = unsqueeze(to_dtype(x, dtype), 1), b = unsqueeze(to_dtype(y, dtype), 0);
    return add_product(args, input.dtype() == dtype ? input : to_dtype(input, dtype), a, b, shape, beta, alpha, true);
}

Tensor dot_args(Args& args, const Tensor& x, const Tensor& y, bool conjugate) {
    check(x.dim() == 1 && y.dim() == 1, "1D tensors expected, but got shapes ", x.shape(), " and ", y.shape());
    check(x.dtype() == y.dtype(), "dot : expected both vectors to have same dtype, but found ", scalar_type(x.dtype()),
          " and ", scalar_type(y.dtype()), "; convert one with .to(dtype)");
    check(x.numel() == y.numel(), "inconsistent tensor size, expected vectors of the same size, got ", x.numel(),
          " and ", y.numel(), " elements");
    Tensor out = product_target(args, {}, x.dtype(), {x, y});
    device::multiplying(out).dot(out, x, y, conjugate);
    return out;
}

Tensor inner(Args& args, const Tensor& x, const Tensor& y) {
    check_same_dtype(x, y);
    Tensor a = x.dim() ? x : unsqueeze(x, 0), b = y.dim() ? y : unsqueeze(y, 0);
    bool scalars = x.dim() == 0 || y.dim() == 0;
    int64_t k = scalars ? 1 : a.shape().back();
    check(scalars || k == b.shape().back(),
          "inner() the last dimension must match on both input tensors but got shapes ", Bracketed{x.shape()}, " and ",
          Bracketed{y.shape()});
    Dims shape = scalars ? x.shape() : leading(a, 1);
    for (int64_t size : scalars ? y.shape() : leading(b, 1)) shape.push_back(size);
    int64_t m = 1, n = 1;
    for (int64_t size : scalars ? x.shape() : leading(a, 1)) m *= size;
    for (int64_t size : scalars ? y.shape() : leading(b, 1)) n *= size;
    Tensor out = product_target(args, shape, x.dtype(), {x, y}, true);
    Tensor flat = out.is_contiguous() ? view(out, {m, n}) : empty({m, n}, x.dtype(), x.device());
    gemm(flat, reshape(a, {m, k}), transpose(reshape(b, {n, k}), 0, 1));
    return out.is_contiguous() ? out : view(flat, shape);
}

}  // namespace

Tensor matmul(const Tensor& x, const Tensor& y) {
    Args none;
    return matmul_args(none, x, y);
}
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    Args none;
    return addmm_args(none, input, a, b, beta, alpha);
}

OP("matmul(Tensor input, Tensor other) -> Tensor", COMMON, R"(Matrix product of two tensors.

Vectors, matrices and batches of matrices are accepted; leading dimensions broadcast. Two vectors give their dot
product, a matrix and a vector the matrix-vector product. Also written ``input @ other``.

Args:
    input: the left factor, at least 1-d.
    other: the right factor, of the same dtype.

Example:
    >>> fb.matmul(fb.tensor([[1, 2], [3, 4]]), fb.tensor([10, 1]))
    tensor([12, 34])
)") {
    return matmul_args(a, a.tensor(0), a.tensor(1));
}

OP("linalg.matmul(Tensor input, Tensor other) -> Tensor", FUNCTION | OUT, R"(The same as :func:`flambeau.matmul`.

Example:
    >>> fb.linalg.matmul(fb.tensor([[1, 2], [3, 4]]), fb.tensor([10, 1]))
    tensor([12, 34])
)") {
    return matmul_args(a, a.tensor(0), a.tensor(1));
}

OP("mm(Tensor input, Tensor mat2) -> Tensor", COMMON, R"(Product of two matrices, without broadcasting.

Args:
    input: the left factor, of shape (n, m).
    mat2: the right factor, of shape (m, p).

Example:
    >>> fb.mm(fb.tensor([[1, 2], [3, 4]]), fb.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
)") {
    check_dim(a.tensor(0), 2, "input");
    check_dim(a.tensor(1), 2, "mat2");
    return matmul_args(a, a.tensor(0), a.tensor(1));
}

OP("bmm(Tensor input, Tensor mat2) -> Tensor", COMMON, R"(Product of two batches of matrices, pair by pair.

Args:
    input: shape (b, n, m).
    mat2: shape (b, m, p).

Example:
    >>> fb.bmm(fb.ones(1, 2, 3), fb.ones(1, 3, 2))
    tensor([[[3., 3.],
             [3., 3.]]])
)") {
    check_batches(a.tensor(0), a.tensor(1), "input", "mat2");
    check_same_dtype(a.tensor(0), a.tensor(1));
    const Tensor &x = a.tensor(0), &y = a.tensor(1);
    Tensor out = product_target(a, {x.shape()[0], x.shape()[1], y.shape()[2]}, x.dtype(), {x, y});
    gemm(out, x, y);
    return out;
}

OP("mv(Tensor input, Tensor vec) -> Tensor", COMMON, R"(Product of a matrix and a vector.

Args:
    input: the matrix, of shape (n, m).
    vec: the vector, of size m.

Example:
    >>> fb.mv(fb.tensor([[1, 2], [3, 4]]), fb.tensor([1, 1]))
    tensor([3, 7])
)") {
    check_dim(a.tensor(0), 2, "input");
    check_dim(a.tensor(1), 1, "vec");
    return matmul_args(a, a.tensor(0), a.tensor(1));
}

OP("dot(Tensor input, Tensor tensor) -> Tensor", COMMON, R"(Sum of the products of two vectors' elements.

Args:
    input: a 1-d tensor.
    tensor: another of the same size and dtype.

Example:
    >>> fb.dot(fb.tensor([2, 3]), fb.tensor([2, 1]))
    tensor(7)
)") {
    return dot_args(a, a.tensor(0), a.tensor(1), false);
}

OP("vdot(Tensor input, Tensor other) -> Tensor", COMMON, R"(Dot product with the complex conjugate of the first vector.

Args:
    input: a 1-d tensor; conjugated when complex.
    other: another of the same size and dtype.

Example:
    >>> fb.vdot(fb.tensor([1j, 2]), fb.tensor([1j, 1]))
    tensor(3.+0.j)
)") {
    return dot_args(a, a.tensor(0), a.tensor(1), true);
}

OP("inner(Tensor input, Tensor other) -> Tensor", COMMON, R"(Sums products over the last dimensions of both tensors.

Args:
    input: shape (..., k).
    other: shape (..., k); a 0-d tensor scales the other one.

Returns:
    A tensor of shape ``input.shape[:-1] + other.shape[:-1]``.

Example:
    >>> fb.inner(fb.tensor([1, 2, 3]), fb.tensor([0, 2, 1]))
    tensor(7)
)") {
    return inner(a, a.tensor(0), a.tensor(1));
}

OP("outer(Tensor input, Tensor vec2) -> Tensor", COMMON,
   R"(All products of an element of one vector with one of another.

Args:
    input: a vector of size n.
    vec2: a vector of size m.

Returns:
    A matrix of shape (n, m).

Example:
    >>> fb.outer(fb.tensor([1, 2]), fb.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
)") {
    return outer(a, a.tensor(0), a.tensor(1));
}
OP_ALIAS("ger", "outer");

OP("addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Matrix product added to a tensor: ``beta * input + alpha * (mat1 @ mat2)``.

Args:
    input: what is added to; broadcasts to the product's shape. Not read when ``beta`` is 0.
    mat1: the left factor, of shape (n, m).
    mat2: the right factor, of shape (m, p).
    beta: factor of ``input``.
    alpha: factor of the product.

Example:
    >>> fb.addmm(fb.tensor([1, 2]), fb.tensor([[1, 2], [3, 4]]), fb.tensor([[0, 1], [1, 0]]))
    tensor([[3, 3],
            [5, 5]])
)") {
    return addmm_args(a, a.tensor(0), a.tensor(1), a.tensor(2), a.scalar(3), a.scalar(4));
}

OP("addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Matrix-vector product added to a tensor: ``beta * input + alpha * (mat @ vec)``.

Args:
    input: what is added to; broadcasts to the product's shape. Not read when ``beta`` is 0.
    mat: shape (n, m).
    vec: size m.
    beta: factor of ``input``.
    alpha: factor of the product.

Example:
    >>> fb.addmv(fb.tensor([1, 2]), fb.tensor([[1, 2], [3, 4]]), fb.tensor([1, 1]))
    tensor([4, 9])
)") {
    const Tensor &x = a.tensor(1), &y = a.tensor(2);
    check_dim(x, 2, "mat");
    check_dim(y, 1, "vec");
    check_inner(x, y, x.shape()[1], y.shape()[0]);
    return add_product(a, a.tensor(0), x, y, {x.shape()[0]}, a.scalar(3), a.scalar(4));
}

OP("baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Batch of matrix products added to a tensor: ``beta * input + alpha * (batch1 @ batch2)``.

Args:
    input: what is added to; broadcasts to the product's shape. Not read when ``beta`` is 0.
    batch1: shape (b, n, m).
    batch2: shape (b, m, p).
    beta: factor of ``input``.
    alpha: factor of the product.

Example:
    >>> fb.baddbmm(fb.ones(1, 2), fb.ones(1, 1, 3), fb.ones(1, 3, 2))
    tensor([[[4., 4.]]])
)") {
    const Tensor &x = a.tensor(1), &y = a.tensor(2);
    check_batches(x, y, "batch1", "batch2");
    return add_product(a, a.tensor(0), x, y, {x.shape()[0], x.shape()[1], y.shape()[2]}, a.scalar(3), a.scalar(4));
}

OP("addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Sum of a batch of matrix products added to a tensor: ``beta * input + alpha * sum(batch1 @ batch2)``.

Args:
    input: what is added to; broadcasts to (n, p). Not read when ``beta`` is 0.
    batch1: shape (b, n, m).
    batch2: shape (b, m, p).
    beta: factor of ``input``.
    alpha: factor of the sum.

Example:
    >>> fb.addbmm(fb.ones(1, 2), fb.ones(2, 1, 3), fb.ones(2, 3, 2))
    tensor([[7., 7.]])
)") {
    return addbmm(a, a.tensor(0), a.tensor(1), a.tensor(2), a.scalar(3), a.scalar(4));
}

OP("addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", POINTWISE,
   R"(Outer product added to a tensor: ``beta * input + alpha * outer(vec1, vec2)``.

Args:
    input: what is added to; broadcasts to (n, m). Not read when ``beta`` is 0.
    vec1: a vector of size n.
    vec2: a vector of size m.
    beta: factor of ``input``.
    alpha: factor of the outer product.

Example:
    >>> fb.addr(fb.tensor([[1, 1]]), fb.tensor([2]), fb.tensor([1, 10]))
    tensor([[ 3, 21]])
)") {
    return addr(a, a.tensor(0), a.tensor(1), a.tensor(2), a.scalar(3), a.scalar(4));
}

}  // namespace fb
