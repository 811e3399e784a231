// Products of matrices: one item of the kernel makes a block of one result in registers. Where neither operand's
// columns lie side by side, an item takes one scalar product along both.
#include <algorithm>

#include "backend/gpu/families.h"
#include "backend/gpu/work.h"
#include "device/formula.h"

namespace fb::gpu {
namespace {

constexpr int64_t most_rows = 4, block_columns = 32, lanes = 16;

struct Matrix {
    const Tensor& tensor;
    int64_t row, column;  // strides
    Matrix transposed() const { return {tensor, column, row}; }
};

// c = beta c + alpha a b + bias
struct Problem {
    Matrix c, a, b;
    int64_t rows, columns, length;
    const Scalar& alpha;
    const Scalar& beta;
    const Tensor* bias;
    int64_t bias_row = 0, bias_column = 0;

    Problem transposed() const {
        return {c.transposed(), b.transposed(), a.transposed(), columns,     rows,    length,
                alpha,          beta,           bias,           bias_column, bias_row};
    }
};

bool is_one(const Scalar& s) { return s.kind != Kind::Complex && s.to<double>() == 1; }
bool is_zero(const Scalar& s) { return s.kind != Kind::Complex && s.to<double>() == 0; }

// The value `sum` of element (row, column) is stored.
std::string store(Work& work, const Problem& p, DType compute, const std::string& sum, const std::string& row,
                  const std::string& column) {
    auto number = [&](const char* name, const Scalar& s) {
        if (is_floating(compute)) work.real(name, s.to<double>());
        else work.word(name, static_cast<uint64_t>(s.to<int64_t>()));
        return std::string("(T)g.") + name;
    };
    std::string at = "pc + " + row + " * g.cr + " + column + " * g.cc", value = sum;
    if (!is_one(p.alpha)) value = number("alpha", p.alpha) + " * " + value;
    if (!is_zero(p.beta)) value += " + " + number("beta", p.beta) + " * (T)LOAD_c(" + at + ")";
    if (p.bias) {
        value += " + (T)LOAD_bias(" + row + " * g.br + " + column + " * g.bc)";
        work.tensor("bias", *p.bias).number("br", p.bias_row).number("bc", p.bias_column);
    }
    return "STORE_c(" + at + ", (T)(" + value + "));";
}

bool launch(const Problem& p) {
    const Tensor &c = p.c.tensor, &a = p.a.tensor, &b = p.b.tensor;
    DType compute = compute_dtype(c.dtype());
    int64_t batch = c.dim() - 2, matrices = 1;
    Work work(c.device());
    work.compute(compute).tensor("c", c).tensor("a", a).tensor("b", b);
    int64_t shape[max_dims], strides[3][max_dims];
    const Tensor* operands[] = {&c, &a, &b};
    for (int64_t i = 0; i < batch; i++) {
        int64_t d = batch - 1 - i;
        shape[i] = c.shape()[d];
        matrices *= shape[i];
        for (int k = 0; k < 3; k++) strides[k][i] = operands[k]->strides()[d];
    }
    work.numbers("shape", shape, batch).numbers("sc", strides[0], batch).numbers("sa", strides[1], batch);
    work.numbers("sb", strides[2], batch).define("NB", batch);
    work.number("rows", p.rows).number("columns", p.columns).number("length", p.length);
    work.number("cr", p.c.row).number("cc", p.c.column).number("ar", p.a.row).number("ak", p.a.column);
    work.number("bk", p.b.row).number("bn", p.b.column);
    bool dots = p.b.column != 1 && p.b.row == 1 && p.a.column == 1;
    int64_t height = dots ? 1 : p.rows >= most_rows ? most_rows : p.rows, width = dots ? 1 : block_columns;
    int64_t row_blocks = (p.rows + height - 1) / height, column_blocks = (p.columns + width - 1) / width;
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    std::string text = R"(    ix left = item / g.row_blocks;
    const ix r0 = (item - left * g.row_blocks) * R;
    ix rest = left / g.column_blocks, pa = 0, pb = 0, pc = 0;
    const ix c0 = (left - rest * g.column_blocks) * C;
    for (int d = 0; d < NB; d++) {
        const ix next = rest / g.shape[d], place = rest - next * g.shape[d];
        rest = next;
        pa += place * g.sa[d];
        pb += place * g.sb[d];
        pc += place * g.sc[d];
    }
    pa += r0 * g.ar;
    pb += c0 * g.bn;
)";
    work.define("R", height).define("C", width).define("L", lanes);
    if (dots) {
        text += R"(    T sum[L];
    UNROLL for (int l = 0; l < L; l++) sum[l] = (T)0;
    ix k = 0;
    for (; k + L <= g.length; k += L) {
        UNROLL for (int l = 0; l < L; l++) sum[l] += (T)LOAD_a(pa + k + l) * (T)LOAD_b(pb + k + l);
    }
    for (; k < g.length; k++) sum[0] += (T)LOAD_a(pa + k) * (T)LOAD_b(pb + k);
    for (int l = 1; l < L; l++) sum[0] += sum[l];
    )" + store(work, p, compute, "sum[0]", "r0", "c0");
        return work.run(text, matrices * row_blocks * column_blocks);
    }
    work.define("NEXT", p.b.column == 1 ? "1" : "g.bn");
    text +=
        "    const ix width = g.columns - c0 < C ? g.columns - c0 : C, height = g.rows - r0 < R ? g.rows - r0 : R;\n";
    std::string products, loads;
    for (int64_t r = 0; r < height; r++) {
        std::string n = std::to_string(r);
        text += "    T s" + n + "[C];\n    UNROLL for (int j = 0; j < C; j++) s" + n + "[j] = (T)0;\n";
        // Rows beyond the last are computed as the last, and not stored.
        text += "    const ix a" + n + " = pa + (" + n + " < height ? " + n + " : height - 1) * g.ar;\n";
        loads += "const T x" + n + " = (T)LOAD_a(a" + n + " + k * g.ak); ";
        products += "s" + n + "[j] += x" + n + " * y; ";
    }
    text += "    if (width == C) {\n        for (ix k = 0; k < g.length; k++) {\n            " + loads +
            "const ix at = pb + k * g.bk;\n            UNROLL for (int j = 0; j < C; j++) { const T y = (T)LOAD_b(at + "
            "j * NEXT); " +
            products + "}\n        }\n    } else {\n        for (ix k = 0; k < g.length; k++) {\n            " + loads +
            "const ix at = pb + k * g.bk;\n            for (int j = 0; j < width; j++) { const T y = (T)LOAD_b(at + j "
            "* NEXT); " +
            products + "}\n        }\n    }\n    for (int j = 0; j < width; j++) {\n";
    std::string last = store(work, p, compute, "SUM", "(r0 + ROW)", "(c0 + j)");
    for (int64_t r = 0; r < height; r++) {
        std::string n = std::to_string(r), one = last;
        one.replace(one.find("SUM"), 3, "s" + n + "[j]");
        for (size_t at; (at = one.find("ROW")) != std::string::npos;) one.replace(at, 3, n);
        text += "        if (" + n + " < height) " + one + "\n";
    }
    return work.run(text + "    }", matrices * row_blocks * column_blocks);
}

bool solve(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta,
           const Tensor* bias) {
    DType d = c.dtype();
    bool same = compute_dtype(a.dtype()) == compute_dtype(d) && compute_dtype(b.dtype()) == compute_dtype(d) &&
                a.device() == c.device() && b.device() == c.device();
    if (!uses_kernels() || !same || !compute_type(d) || d == DType::Bool || alpha.kind == Kind::Complex ||
        beta.kind == Kind::Complex)
        return false;
    if (c.numel() == 0) return true;
    int64_t batch = c.dim() - 2;
    auto matrix = [&](const Tensor& t) { return Matrix{t, t.strides()[batch], t.strides()[batch + 1]}; };
    Problem p{matrix(c), matrix(a), matrix(b), c.shape()[batch], c.shape()[batch + 1], a.shape()[batch + 1],
              alpha,     beta,      bias};
    if (bias) {
        p.bias_row = bias->strides()[0];
        p.bias_column = bias->strides()[1];
    }
    // A stride of a dimension with one element can be any.
    if (p.columns == 1 && p.b.column != 1 && p.rows > 1 && p.a.row == 1) return launch(p.transposed());
    if (p.b.column == 1 || (p.b.row == 1 && p.a.column == 1 && std::min(p.rows, p.columns) < 8)) return launch(p);
    if (p.a.row == 1) return launch(p.transposed());
    // Columns are brought side by side when enough rows use them.
    if (p.rows >= 8 && p.columns > 1) {
        Tensor side = empty(b.shape(), b.dtype(), b.device());
        if (!run_copy(side, b)) return false;
        Problem q{p.c,        p.a,          Matrix{side, side.strides()[batch], 1},
                  p.rows,     p.columns,    p.length,
                  alpha,      beta,         bias,
                  p.bias_row, p.bias_column};
        return launch(q);
    }
    return launch(p);
}

}  // namespace

bool run_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    return solve(c, a, b, alpha, beta, nullptr);
}

bool run_product_with_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias) {
    Tensor wide = expand(bias, out.shape());
    return solve(out, a, b, Scalar(1), Scalar(0), &wide);
}

bool run_dot(const Tensor& out, const Tensor& x, const Tensor& y) {
    if (!compute_type(x.dtype()) || x.numel() == 0) return false;
    DType compute = compute_dtype(x.dtype());
    Tensor products = empty(x.shape(), compute, x.device());
    const Tensor* in[] = {&x, &y};
    if (!run_loop(formulas::mul, compute, products, in, nullptr)) return false;
    return run_reduction(device::Reduction::Sum, compute, products, Dims{1}, &out, nullptr);
}

}  // namespace fb::gpu
