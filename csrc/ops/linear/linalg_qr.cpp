// QR decompositions, Householder products and least squares.
#include "device/linalg.h"
#include "device/move.h"
#include "ops/linear/linalg.h"

namespace fb {

namespace {

struct Reflectors {
    Columns matrix;
    Tensor tau;
};

Reflectors geqrf(const Tensor& a) {
    check_matrices(a);
    Reflectors r;
    r.matrix = to_columns(a);
    int k = std::min(r.matrix.rows, r.matrix.cols);
    r.tau = empty(with(batch_of(a), {k}), a.dtype(), a.device());
    if (k == 0) return r;
    device::decomposing(a).qr(r.matrix.tensor, r.tau);
    return r;
}

// The first `cols` columns of Q, from reflectors in the columns of a (rows × ≥ k).
Tensor householder(const Tensor& a, const Tensor& tau, int64_t cols) {
    Dims batch = batch_of(a);
    int64_t m = a.size(-2), have = std::min(a.size(-1), cols);
    Columns q = empty_columns(batch, m, cols, a.dtype(), a.device());
    if (have) device::moving(a).copy(narrow(q.tensor, -1, 0, have), narrow(a, -1, 0, have));
    if (m == 0 || cols == 0) return q.tensor;
    Tensor factors = contiguous(tau);
    device::decomposing(a).form_q(q.tensor, factors);
    return q.tensor;
}

// Upper triangle of the first `rows` rows.
Tensor upper_part(const Tensor& a, int64_t rows) {
    Columns r = to_columns(narrow(a, -2, 0, rows));
    device::decomposing(a).zero_below_diagonal(r.tensor);
    return r.tensor;
}

std::vector<Tensor> qr(const Tensor& a, const std::string& mode) {
    check_matrices(a);
    check(mode == "reduced" || mode == "complete" || mode == "r", "qr received unrecognized mode '", mode,
          "'; expected 'reduced', 'complete' or 'r'");
    int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    Reflectors r = geqrf(a);
    if (mode == "r") return {empty({0}, a.dtype(), a.device()), upper_part(r.matrix.tensor, k)};
    bool full = mode == "complete" && m > n;
    if (n == 0 && mode == "complete") {
        Tensor eye = zeros(with(batch_of(a), {m, m}), a.dtype(), a.device());
        Dims batch = batch_of(a), strides = eye.strides();
        strides.erase(strides.size() - 1);
        strides.back() += 1;
        fill(view_of(eye, with(batch, {m}), strides, eye.offset()), Scalar(1));
        return {eye, empty(with(batch, {m, 0}), a.dtype(), a.device())};
    }
    return {householder(r.matrix.tensor, r.tau, full ? m : k), upper_part(r.matrix.tensor, full ? m : k)};
}

void check_reflectors(const Tensor& a, const Tensor& tau) {
    check_matrices(a, "input");
    check(a.dtype() == tau.dtype(), "the reflectors and tau must have the same dtype, got ", a.dtype(), " and ",
          tau.dtype());
    check(tau.dim() == a.dim() - 1, "tau must have one dimension less than the reflectors, got shapes ", tau.shape(),
          " and ", a.shape());
    check(Dims(tau.shape().begin(), tau.shape().end() - 1) == batch_of(a),
          "tau and the reflectors must have the same batch, got shapes ", tau.shape(), " and ", a.shape());
    check(a.size(-2) >= a.size(-1), "the reflectors must have at least as many rows as columns, got shape ", a.shape());
    check(tau.size(-1) <= a.size(-1), "input.shape[-1] must be greater than or equal to tau.shape[-1], got shapes ",
          a.shape(), " and ", tau.shape());
}

Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other, bool left, bool transpose) {
    if (a.dim() >= 2 && other.dim() >= 2 && tau.dim() >= 1) {
        int64_t most = std::min(left ? other.size(-2) : other.size(-1), a.size(-1));
        check(tau.size(-1) <= most, "tau.shape[-1] must be equal to min(other.shape[", left ? -2 : -1,
              "], input.shape[-1]): tau has ", tau.size(-1), " reflectors, there can be ", most);
    }
    check_matrices(a, "input");
    check_matrices(other, "other");
    check(a.dtype() == tau.dtype() && a.dtype() == other.dtype(), "all tensors must have the same dtype, got ",
          a.dtype(), ", ", tau.dtype(), " and ", other.dtype());
    check(tau.dim() == a.dim() - 1 && other.dim() == a.dim(),
          "expected tau with one dimension less than input and other with as many, got shapes ", a.shape(), ", ",
          tau.shape(), " and ", other.shape());
    check(batch_of(other) == batch_of(a) && Dims(tau.shape().begin(), tau.shape().end() - 1) == batch_of(a),
          "Expected batch dimensions of tau to be equal to input.shape[:-2], and those of other too, got shapes ",
          a.shape(), ", ", tau.shape(), " and ", other.shape());
    int64_t side = left ? other.size(-2) : other.size(-1);
    check(a.size(-2) == side, "other.shape[", left ? -2 : -1, "] must be equal to input.shape[-2], got shapes ",
          other.shape(), " and ", a.shape());
    Columns q = to_columns(a), c = to_columns(other);
    Tensor factors = contiguous(tau);
    if (c.rows == 0 || c.cols == 0) return c.tensor;
    device::decomposing(a).multiply_q(q.tensor, factors, left, transpose, c.tensor);
    return c.tensor;
}

std::vector<Tensor> lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond, const std::string& driver) {
    check_matrices(a, "input");
    check(a.dtype() == b.dtype(), "A and B must have the same dtype, got ", a.dtype(), " and ", b.dtype());
    check(b.dim() >= 1, "other must have at least 1 dimension, got a 0-d B");
    check(driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss", "unknown driver '", driver,
          "'; expected gels, gelsy, gelsd or gelss");
    check(a.dim() - b.dim() <= 1 && a.dim() >= b.dim(), "B must have as many dimensions as A or one less, got shapes ",
          a.shape(), " and ", b.shape());
    bool vector = a.dim() - 1 == b.dim();
    Tensor right = vector ? unsqueeze(b, -1) : b;
    int64_t m = a.size(-2), n = a.size(-1), k = right.size(-1);
    check(m == right.size(-2), "A and B must have the same number of rows, got shapes ", a.shape(), " and ", b.shape());
    check_finite(a, "A");
    check_finite(b, "B");
    Dims batch = broadcast_shapes(batch_of(a), batch_of(right));
    Columns x = to_columns(a, batch), y = empty_columns(batch, std::max(m, n), k, a.dtype(), a.device());
    fill(y.tensor, Scalar(0));
    if (m && k) device::moving(a).copy(narrow(y.tensor, -2, 0, m), expand(right, with(batch, {m, k})));
    DType real = real_of(a.dtype());
    bool values = driver == "gelsd" || driver == "gelss", ranks = driver != "gels";
    Tensor s = values ? zeros(with(batch, {std::min(m, n)}), real, a.device()) : empty({0}, real, a.device());
    Tensor rank = ranks ? zeros(batch, DType::I64, a.device()) : empty({0}, DType::I64, a.device());
    Tensor info = zeros(batch, DType::I32, a.device());
    bool trivial = m == 0 || n == 0 || k == 0;
    device::LeastSquares routine = driver == "gels"    ? device::LeastSquares::Gels
                                   : driver == "gelsy" ? device::LeastSquares::Gelsy
                                   : driver == "gelsd" ? device::LeastSquares::Gelsd
                                                       : device::LeastSquares::Gelss;
    if (!trivial)
        device::decomposing(a).least_squares(routine, x.tensor, y.tensor, rcond, values ? s : Tensor(),
                                             ranks ? rank : Tensor(), info);
    check_info(info, driver == "gels" ? "the least squares solution could not be computed because A does not have full "
                                        "rank (diagonal element # of its factor is zero)"
                                      : "the singular value decomposition did not converge (code #)");
    Tensor solution = narrow(y.tensor, -2, 0, n);
    if (trivial) fill(solution, Scalar(0));
    // Residual sums of squares are stored below the solution of an overdetermined system of full rank.
    Tensor residuals = empty({0}, real, a.device());
    if (m > n && driver != "gelsy" && (!ranks || device::decomposing(rank).all_ranks(rank, n))) {
        residuals = zeros(with(batch, {k}), real, a.device());
        device::decomposing(a).sums_of_squares(y.tensor, n, m, residuals);
    }
    if (vector) solution = squeeze(solution, -1);
    return {solution, residuals, rank, s};
}

}  // namespace

OP("linalg.qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", FUNCTION | OUT, R"(QR decomposition A = Q R.

Args:
    A: shape (..., m, n).
    mode: 'reduced' (Q has min(m, n) columns), 'complete' (Q is square) or 'r' (R alone).

Example:
    >>> fb.linalg.qr(fb.tensor([[3.], [4.]])).R.abs()
    tensor([[5.]])
)") {
    return qr(a.tensor(0), a.text(1));
}

OP("qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)", COMMON,
   R"(QR decomposition; :func:`flambeau.linalg.qr` is newer.

Args:
    input: shape (..., m, n).
    some: whether Q is reduced to min(m, n) columns.

Example:
    >>> fb.qr(fb.tensor([[3.], [4.]])).R.abs()
    tensor([[5.]])
)") {
    return qr(a.tensor(0), a.flag(1) ? "reduced" : "complete");
}

OP("geqrf(Tensor input) -> (Tensor a, Tensor tau)", COMMON | WIDER,
   R"(QR decomposition as LAPACK leaves it: R above, Householder vectors below the diagonal.

Args:
    input: shape (..., m, n).

Example:
    >>> fb.geqrf(fb.tensor([[3.], [4.]])).tau
    tensor([1.6000])
)") {
    Reflectors r = geqrf(a.tensor(0));
    return std::vector<Tensor>{r.matrix.tensor, r.tau};
}

OP("linalg.householder_product(Tensor A, Tensor tau) -> Tensor", FUNCTION | OUT,
   R"(First columns of a product of Householder reflections.

Args:
    A: Householder vectors in its columns, of shape (..., m, n) with m >= n, as from geqrf.
    tau: their factors, of shape (..., k).

Example:
    >>> fb.linalg.householder_product(*fb.geqrf(fb.tensor([[3.], [4.]]))).abs()
    tensor([[0.6000],
            [0.8000]])
)") {
    check_reflectors(a.tensor(0), a.tensor(1));
    return householder(a.tensor(0), a.tensor(1), a.tensor(0).size(-1));
}
OP("orgqr(Tensor input, Tensor input2) -> Tensor", COMMON, R"(First columns of a product of Householder reflections.

Args:
    input: Householder vectors in its columns, as from geqrf.
    input2: their factors.

Example:
    >>> fb.orgqr(*fb.geqrf(fb.tensor([[3.], [4.]]))).abs()
    tensor([[0.6000],
            [0.8000]])
)") {
    check_reflectors(a.tensor(0), a.tensor(1));
    return householder(a.tensor(0), a.tensor(1), a.tensor(0).size(-1));
}

OP("ormqr(Tensor input, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", COMMON,
   R"(A matrix times the product of Householder reflections, without forming that product.

Args:
    input: Householder vectors in its columns, as from geqrf.
    input2: their factors.
    input3: the matrix.
    left: whether to multiply by the reflections from the left.
    transpose: whether their product is conjugated and transposed.

Example:
    >>> h, tau = fb.geqrf(fb.tensor([[3.], [4.]]))
    >>> fb.ormqr(h, tau, fb.tensor([[3.], [4.]]), transpose=True).abs().round(decimals=4)
    tensor([[5.],
            [0.]])
)") {
    return ormqr(a.tensor(0), a.tensor(1), a.tensor(2), a.flag(3), a.flag(4));
}

OP("linalg.lstsq(Tensor A, Tensor B, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, "
   "Tensor rank, Tensor singular_values)",
   FUNCTION | OUT | WIDER, R"(Least squares solution of A X = B.

Args:
    A: shape (..., m, n).
    B: right sides, of shape (..., m) or (..., m, k).
    rcond: singular values below rcond times the largest are treated as zero; machine precision times max(m, n) if not given.
    driver: the LAPACK routine: gelsy (default), gels (full rank only), gelsd or gelss.

Example:
    >>> fb.linalg.lstsq(fb.tensor([[1.], [1.]]), fb.tensor([[1.], [3.]])).solution
    tensor([[2.0000]])
)") {
    return lstsq(a.tensor(0), a.tensor(1), a.number_or_none(2), a.text_or_none(3).value_or("gelsy"));
}

}  // namespace fb
