// Cumulative sums, products and extremes, softmax, and cross entropy: an item processes one row.
#include <algorithm>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "base/error.h"

namespace fb::gpu {
namespace {

// Whether kernels support the dtypes and devices of all these.
bool known(std::initializer_list<Borrowed> tensors) {
    for (const Tensor& t : tensors) {
        if (t.defined() && !compute_type(t.dtype())) return false;
    }
    return uses_kernels();
}

}  // namespace

bool run_scan_sum(const Tensor& in, const Tensor& out, int64_t dim) {
    if (!known({in, out})) return false;
    if (in.numel() == 0) return true;
    DType d = compute_dtype(out.dtype());
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(d).tensor("x", in).tensor("y", out);
    row.describe(work);
    std::string text = RowShape::begin;
    // Compensated (Kahan) summation, unless the compensation is NaN.
    text += is_floating(d) ? R"(    T sum = (T)0, lost = (T)0;
    for (ix i = 0; i < g.n; i++) {
        const T v = (T)LOAD_x(at + i * g.inner), part = v - lost, next = sum + part, rest = (next - sum) - part;
        lost = m_isfinite(rest) ? rest : (T)0;
        sum = next;
        STORE_y(at + i * g.inner, sum);
    })"
                           : R"(    T sum = (T)0;
    for (ix i = 0; i < g.n; i++) {
        sum = m_add(sum, (T)LOAD_x(at + i * g.inner));
        STORE_y(at + i * g.inner, sum);
    })";
    return work.run(text, row.rows());
}

bool run_scan_product(const Tensor& in, const Tensor& out, int64_t dim) {
    if (!known({in, out})) return false;
    if (in.numel() == 0) return true;
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(compute_dtype(out.dtype())).tensor("x", in).tensor("y", out);
    row.describe(work);
    return work.run(std::string(RowShape::begin) + R"(    T product = (T)1;
    for (ix i = 0; i < g.n; i++) {
        product = m_mul(product, (T)LOAD_x(at + i * g.inner));
        STORE_y(at + i * g.inner, product);
    })",
                    row.rows());
}

bool run_scan_logsumexp(const Tensor& in, const Tensor& out, int64_t dim) {
    if (!known({in, out}) || !is_floating(in.dtype())) return false;
    if (in.numel() == 0) return true;
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", in).tensor("y", out);
    row.describe(work);
    return work.run(std::string(RowShape::begin) + R"(    T top = -INF, sum = (T)0;
    for (ix i = 0; i < g.n; i++) {
        const T v = LOAD_x(at + i * g.inner);
        if (v != v || top != top) top = INF - INF;
        else if (v == top) sum += (T)1;
        else if (v < top) sum += exp(v - top);
        else {
            sum = sum * exp(top - v) + (T)1;
            top = v;
        }
        STORE_y(at + i * g.inner, m_isinf(top) ? top : top + log(sum));
    })",
                    row.rows());
}

bool run_scan_extreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
    if (!known({in, values})) return false;
    if (in.numel() == 0) return true;
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", in).tensor("y", values).tensor("place", indices);
    row.describe(work).define("BETTER", largest ? ">=" : "<=");
    return work.run(std::string(RowShape::begin) + R"(    T best = LOAD_x(at);
    ix where = 0;
    for (ix i = 0; i < g.n; i++) {
        const T v = LOAD_x(at + i * g.inner);
        if (m_isnan(v) || (!m_isnan(best) && v BETTER best)) {
            best = v;
            where = i;
        }
        STORE_y(at + i * g.inner, best);
        place[at + i * g.inner] = (i64)where;
    })",
                    row.rows());
}

bool run_scan_linear(const Tensor& in, const Tensor& factor, const Tensor& out, int64_t dim, bool reverse) {
    if (!known({in, factor, out})) return false;
    if (in.numel() == 0) return true;
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(in.dtype()).tensor("x", in).tensor("f", factor).tensor("y", out);
    row.describe(work);
    std::string by = factor.defined() ? "LOAD_f(to) * " : "";
    std::string text = std::string(RowShape::begin) + "    T run = (T)0;\n    for (ix i = 0; i < g.n; i++) {\n";
    if (reverse) text += "        const ix k = at + (g.n - 1 - i) * g.inner, to = i ? k + g.inner : k;\n";
    else text += "        const ix k = at + i * g.inner, to = k;\n";
    return work.run(text + "        run = (T)LOAD_x(k) + " +
                        (factor.defined() ? "(i ? LOAD_f(to) * run : (T)0)" : "run") +
                        ";\n        (void)to;\n        STORE_y(k, run);\n    }",
                    row.rows());
}

bool run_softmax(const Tensor& in, const Tensor& out, int64_t dim, bool logarithm) {
    if (!known({in, out}) || !is_floating(in.dtype())) return false;
    if (in.numel() == 0) return true;
    RowShape row(in, dim);
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", in).tensor("y", out);
    if (row.n >= 256) work.large_items();
    row.describe(work).define("L", 16).define("NEXT", row.inner == 1 ? "1" : "g.inner");
    std::string text = std::string(RowShape::begin) + R"(    T lane[L], sum = (T)0;
    UNROLL for (int l = 0; l < L; l++) lane[l] = -INF;
    ix i = 0;
    for (; i + L <= g.n; i += L) {
        UNROLL for (int l = 0; l < L; l++) lane[l] = m_max(lane[l], LOAD_x(at + (i + l) * NEXT));
    }
    for (; i < g.n; i++) lane[0] = m_max(lane[0], LOAD_x(at + i * NEXT));
    for (int l = 1; l < L; l++) lane[0] = m_max(lane[0], lane[l]);
    const T top = lane[0];
    for (i = 0; i < g.n; i++) )";
    text += logarithm              ? R"(sum += exp(LOAD_x(at + i * NEXT) - top);
    const T away = log(sum);
    for (i = 0; i < g.n; i++) STORE_y(at + i * NEXT, (LOAD_x(at + i * NEXT) - top) - away);)"
            : is_half(out.dtype()) ? R"(sum += exp(LOAD_x(at + i * NEXT) - top);
    const T scale = (T)1 / sum;
    for (i = 0; i < g.n; i++) STORE_y(at + i * NEXT, exp(LOAD_x(at + i * NEXT) - top) * scale);)"
                                   : R"({
        const T v = exp(LOAD_x(at + i * NEXT) - top);
        sum += v;
        STORE_y(at + i * NEXT, v);
    }
    const T scale = (T)1 / sum;
    for (i = 0; i < g.n; i++) STORE_y(at + i * NEXT, LOAD_y(at + i * NEXT) * scale);)";
    return work.run(text, row.rows());
}

bool run_softmax_backward(const Tensor& g, const Tensor& y, const Tensor& out, int64_t dim, bool logarithm) {
    if (!known({g, y, out}) || !is_floating(y.dtype())) return false;
    if (y.numel() == 0) return true;
    RowShape row(y, dim);
    Work work(y.device());
    work.compute(compute_dtype(y.dtype())).tensor("x", g).tensor("y", y).tensor("to", out);
    if (row.n >= 256) work.large_items();
    row.describe(work).define("L", 16).define("NEXT", row.inner == 1 ? "1" : "g.inner");
    std::string one =
        logarithm ? "LOAD_x(at + (i + l) * NEXT)" : "LOAD_x(at + (i + l) * NEXT) * LOAD_y(at + (i + l) * NEXT)";
    std::string text = std::string(RowShape::begin) + R"(    T lane[L];
    UNROLL for (int l = 0; l < L; l++) lane[l] = (T)0;
    ix i = 0;
    for (; i + L <= g.n; i += L) {
        UNROLL for (int l = 0; l < L; l++) lane[l] += )" +
                       one + R"(;
    }
    for (; i < g.n; i++) { const int l = 0; lane[0] += )" +
                       one + R"(; }
    for (int l = 1; l < L; l++) lane[0] += lane[l];
    for (i = 0; i < g.n; i++) {
        const T a = LOAD_x(at + i * NEXT), b = LOAD_y(at + i * NEXT);
        STORE_to(at + i * NEXT, )" +
                       (logarithm ? "a - exp(b) * lane[0]" : "b * (a - lane[0])") + ");\n    }";
    return work.run(text, row.rows());
}

constexpr Fault bad_class{ErrorKind::Index, "target {index} is out of bounds for {a} classes"};

// ---- cross entropy --------------------------------------------------------------------------------------------------

bool run_cross_entropy(const Tensor& input, const Tensor& target, int64_t ignored, double smoothing, const Tensor& loss,
                       const Tensor& logsumexp) {
    if (!known({input})) return false;
    Work work(input.device());
    work.compute(input.dtype()).tensor("x", input).tensor("target", target).tensor("loss", loss);
    work.tensor("lse", logsumexp).number("n", input.shape()[1]).word("ignored", static_cast<uint64_t>(ignored));
    work.real("smoothing", smoothing).real("rest", 1 - smoothing);
    work.real("share", 1.0 / double(std::max<int64_t>(input.shape()[1], 1)));
    work.on_fail(bad_class, input.shape()[1], 0);
    return work.run(R"(    const ix at = item * g.n;
    const i64 want = target[item];
    T top = -INF, total = (T)0, scores = (T)0, exact, spread;
    for (ix k = 0; k < g.n; k++) { const T v = LOAD_x(at + k); top = v > top ? v : top; }
    for (ix k = 0; k < g.n; k++) {
        const T v = LOAD_x(at + k) - top;
        total += exp(v);
        scores += v;
    }
    const T away = log(total);
    STORE_lse(item, top + away);
    if (want == (i64)g.ignored) {
        STORE_loss(item, (T)0);
        return;
    }
    if (want < 0 || want >= g.n) {
        FAIL(0, want);
        STORE_loss(item, (T)0);
        return;
    }
    exact = away - (LOAD_x(at + (ix)want) - top);
    spread = away - scores * g.share;
    STORE_loss(item, g.smoothing == 0 ? exact : g.rest * exact + g.smoothing * spread);)",
                    input.shape()[0]);
}

bool run_cross_entropy_backward(const Tensor& grad, const Tensor& input, const Tensor& target, const Tensor& lse,
                                int64_t ignored, double smoothing, const Tensor& out) {
    if (!known({input})) return false;
    Work work(input.device());
    work.compute(input.dtype()).tensor("grad", grad).tensor("x", input).tensor("target", target).tensor("lse", lse);
    work.tensor("to", out).number("n", input.shape()[1]).word("ignored", static_cast<uint64_t>(ignored));
    work.real("rest", 1 - smoothing).real("share", smoothing / double(std::max<int64_t>(input.shape()[1], 1)));
    return work.run(R"(    const ix at = item * g.n;
    const i64 want = target[item];
    const T by = want == (i64)g.ignored ? (T)0 : LOAD_grad(item), shift = LOAD_lse(item);
    for (ix k = 0; k < g.n; k++) {
        const T v = by * (exp(LOAD_x(at + k) - shift) - g.share - (k == want ? g.rest : (T)0));
        STORE_to(at + k, want == (i64)g.ignored ? (T)0 : v);
    })",
                    input.shape()[0]);
}

}  // namespace fb::gpu
