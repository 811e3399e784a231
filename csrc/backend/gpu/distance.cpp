// Distances between rows, and their slopes: an item for each distance, and for each number of a slope.
#include <cmath>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

// The kinds of norms: text that adds `size`, which is |x - y|, to `sum`, and what becomes of the sum.
struct Norm {
    const char *add, *finish;
};
Norm norm_of(double p) {
    if (p == 0) return {"sum += size != 0 ? (T)1 : (T)0;", "sum"};  // NaN differs too
    if (p == 1) return {"sum += size;", "sum"};
    if (p == 2) return {"sum += size * size;", "sqrt(sum)"};
    if (std::isinf(p)) return {"if (sum == sum && (size > sum || size != size)) sum = size;", "sum"};
    return {"sum += pow(size, g.p);", "pow(sum, (T)1 / g.p)"};
}
// The distance of the rows of x that begins at `a` and of y at `b`, as `sum`.
std::string measure(const Norm& norm, const char* y) {
    return std::string(
               "T sum = (T)0;\n    for (ix i = 0; i < g.k; i++) {\n        const T size = fabs(LOAD_x(a + i) - ") +
           y + "(b + i));\n        " + norm.add + "\n    }\n";
}
// The share of one coordinate's difference d in the slope.
const char* slope_of(double p) {
    if (p == 1) return "d > 0 ? (T)1 : d < 0 ? (T)-1 : (T)0";
    if (p == 2) return "far == 0 ? (T)0 : d / far";
    if (std::isinf(p)) return "far == 0 || fabs(d) != far ? (T)0 : d > 0 ? (T)1 : (T)-1";
    return "far == 0 || d == 0 ? (T)0 : (d > 0 ? (T)1 : (T)-1) * pow(fabs(d), g.p - 1) / pow(far, g.p - 1)";
}

// |x|² + |y|² - 2 x·y, as on the CPU.
bool by_matrix_product(const Tensor& out, const Tensor& x, const Tensor& y) {
    auto squared_norms = [](const Tensor& t, const Dims& shape) {
        Tensor squares = empty(t.shape(), t.dtype(), t.device()), sums = empty(shape, t.dtype(), t.device());
        Dims reduced(t.dim(), 0);
        reduced[t.dim() - 1] = 1;
        Dims kept = t.shape();
        kept[t.dim() - 1] = 1;
        Tensor column = view_of(sums, kept, contiguous_strides(kept), 0);
        bool done = run_elements({{squares, "x * x", t.dtype()}}, t.dtype(), {t}) &&
                    run_reduction(device::Reduction::Sum, t.dtype(), squares, reduced, &column, nullptr);
        return done ? sums : Tensor();
    };
    Dims column = x.shape(), row = y.shape();
    column[x.dim() - 1] = 1;
    row[y.dim() - 1] = row[y.dim() - 2];
    row[y.dim() - 2] = 1;
    Tensor nx = squared_norms(x, column), ny = squared_norms(y, row);
    return nx && ny && run_product(out, x, transpose(y, -1, -2), Scalar(-2), Scalar(0)) &&
           run_elements({{out, "sqrt(m_max(x + y + z, (T)0))", out.dtype()}}, out.dtype(), {out, nx, ny});
}

}  // namespace

bool run_distances(const Tensor& out, const Tensor& x, const Tensor& y, double p, bool by_product) {
    if (!uses_kernels()) return false;
    if (by_product) return by_matrix_product(out, x, y);
    Norm norm = norm_of(p);
    Work work(out.device());
    work.compute(out.dtype()).tensor("x", x).tensor("y", y).tensor("out", out).real("p", p);
    work.number("m", x.size(-2)).number("n", y.size(-2)).number("k", x.size(-1));
    return work.run(
        "    const ix row = item / g.n, batch = row / g.m;\n    const ix a = row * g.k, b = (batch * g.n + "
        "item - row * g.n) * g.k;\n    " +
            measure(norm, "LOAD_y") + "    STORE_out(item, " + norm.finish + ");",
        out.numel());
}

bool run_pair_distances(const Tensor& out, const Tensor& x, double p) {
    if (!uses_kernels()) return false;
    if (out.numel() == 0) return true;
    Norm norm = norm_of(p);
    Work work(out.device());
    work.compute(out.dtype()).tensor("x", x).tensor("out", out).real("p", p);
    work.number("n", x.size(0)).number("k", x.size(1));
    // Row `item` with each that follows.
    return work.run(
        "    const ix a = item * g.k;\n    ix to = item * g.n - item * (item + 1) / 2;\n    for (ix j = "
        "item + 1; j < g.n; j++, to++) {\n    const ix b = j * g.k;\n    " +
            measure(norm, "LOAD_x") + "    STORE_out(to, " + norm.finish + ");\n    }",
        x.size(0) - 1);
}

bool run_distance_slopes(const Tensor& out, const Tensor& g, const Tensor& x, const Tensor& y, double p,
                         const Tensor& d) {
    if (!uses_kernels()) return false;
    Work work(out.device());
    work.compute(out.dtype()).tensor("x", x).tensor("y", y).tensor("out", out).tensor("by", g).tensor("far_of", d);
    work.real("p", p).number("m", x.size(-2)).number("n", y.size(-2)).number("k", x.size(-1));
    return work.run(std::string(R"(    const ix row = item / g.k, i = item - row * g.k, others = row / g.m * g.n;
    T sum = LOAD_out(item);
    for (ix j = 0; j < g.n; j++) {
        const T d = LOAD_x(item) - LOAD_y((others + j) * g.k + i), far = LOAD_far_of(row * g.n + j);
        (void)far;
        sum += LOAD_by(row * g.n + j) * ()") +
                        slope_of(p) + ");\n    }\n    STORE_out(item, sum);",
                    out.numel());
}

}  // namespace fb::gpu
