// Sequences, rearrangements of contiguous runs, and counting.
#include <algorithm>
#include <cmath>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "device/formula.h"

namespace fb::gpu {
namespace {

bool is_whole(DType d) { return is_integral(d); }

}  // namespace

// ---- sequences ------------------------------------------------------------------------------------------------------

bool run_progression(const Tensor& t, const device::Progression& p) {
    if (!compute_type(t.dtype())) return false;
    Work work(t.device());
    if (is_whole(t.dtype())) {
        work.compute(DType::I64).tensor("to", t).word("start", p.whole_start).word("step", p.whole_step);
        return work.run("    STORE_to(item, (i64)(g.start + (u64)item * g.step));", t.numel());
    }
    work.compute(DType::F64).tensor("to", t).real("start", p.start).real("step", p.step);
    return work.run("    STORE_to(item, g.start + g.step * (f64)item);", t.numel());
}

bool run_spaced(const Tensor& t, const Scalar& start, const Scalar& end, const double* base) {
    if (!compute_type(t.dtype()) || start.kind == Kind::Complex || end.kind == Kind::Complex) return false;
    auto number = [&](const Scalar& s) { return is_whole(t.dtype()) ? std::trunc(s.to<double>()) : s.to<double>(); };
    int64_t n = t.numel();
    double from = number(start), to = number(end), step = n > 1 ? (to - from) / static_cast<double>(n - 1) : 0;
    if (n == 1) to = from;
    Work work(t.device());
    work.compute(DType::F64).tensor("to", t).real("start", from).real("end", to).real("step", step).number("n", n);
    if (base) work.real("base", *base);
    return work.run(
        std::string("    const T v = item < g.n / 2 ? g.start + g.step * (f64)item : g.end - g.step * (f64)(g.n "
                    "- item - 1);\n    STORE_to(item, ") +
            (base ? "pow(g.base, v));" : "v);"),
        n);
}

bool run_triangle(const Tensor& t, int64_t first, int64_t last, int64_t columns, int64_t offset, bool upper) {
    if (!uses_kernels()) return false;
    if (t.numel() == 0) return true;
    std::vector<int64_t> starts;
    int64_t total = 0;
    auto edge = [&](int64_t i) { return std::clamp<int64_t>(i + offset + (upper ? 0 : 1), 0, columns); };
    for (int64_t i = first; i < last; i++) {
        starts.push_back(total);
        total += upper ? columns - edge(i) : edge(i);
    }
    Tensor before = empty({static_cast<int64_t>(starts.size())}, DType::I64, t.device());
    driver(t.device()).upload(current_stream(t.device()), before.raw(), starts.data(), starts.size() * 8);
    Work work(t.device());
    work.compute(t.dtype()).tensor("to", t).tensor("before", before).number("first", first).number("columns", columns);
    work.number("shift", offset + (upper ? 0 : 1)).number("count", t.numel() / 2).define("UPPER", upper);
    return work.run(
        R"(    const ix i = g.first + item, end = i + g.shift < 0 ? 0 : i + g.shift > g.columns ? g.columns : i + g.shift;
    ix k = (ix)before[item];
    for (ix j = UPPER ? end : 0; j < (UPPER ? g.columns : end); j++, k++) {
        to[k] = (T)i;
        to[g.count + k] = (T)j;
    })",
        last - first);
}

// ---- moving ---------------------------------------------------------------------------------------------------------

bool run_repeat(const Tensor& to, const Tensor& from, const Dims& repeats) {
    if (!uses_kernels() || 2 * from.dim() + 1 > max_dims) return false;
    Dims shape, to_strides, from_strides;
    for (int64_t d = 0; d < from.dim(); d++) {
        shape.push_back(repeats[d]), shape.push_back(from.shape()[d]);
        to_strides.push_back(from.shape()[d] * to.strides()[d]), to_strides.push_back(to.strides()[d]);
        from_strides.push_back(0), from_strides.push_back(from.strides()[d]);
    }
    return run_copy(view_of(to, shape, to_strides, to.offset()), view_of(from, shape, from_strides, from.offset()));
}

bool run_interleave(const Tensor& to, const Tensor& from, int64_t block, int64_t times) {
    if (!uses_kernels()) return false;
    if (to.numel() == 0) return true;
    Dims shape{from.numel() / block, times, block};
    return run_copy(view_of(to, shape, {times * block, block, 1}, to.offset()),
                    view_of(from, shape, {block, 0, 1}, from.offset()));
}

bool run_keep_triangle(const Tensor& to, const Tensor& from, int64_t diagonal, bool upper) {
    if (!uses_kernels() || !stored_type(to.dtype())) return false;
    if (to.numel() == 0) return true;
    int64_t columns = to.shape()[to.dim() - 1], rows = to.shape()[to.dim() - 2];
    Work work(to.device());
    work.tensor("to", to).tensor("from", from).number("columns", columns).number("rows", rows);
    work.number("diagonal", std::clamp(diagonal, -rows - 1, columns + 1));
    return work.run(
        std::string("    const ix row = item / g.columns, column = item - row * g.columns, away = column - row % "
                    "g.rows;\n    to[item] = away ") +
            (upper ? ">=" : "<=") + " g.diagonal ? from[item] : 0;",
        to.numel());
}

// ---- counting -------------------------------------------------------------------------------------------------------

namespace {

// Adds `amount` at bin `where` for every element: each item counts a part in a separate table. The text sets `where`,
// or -1.
bool count(Work& work, const Tensor& in, const Tensor& out, DType table_type, const std::string& place,
           const std::string& amount) {
    int64_t n = in.numel(), bins = out.numel();
    int64_t parts =
        std::clamp<int64_t>(n / 4096, 1, std::clamp<int64_t>((int64_t(1) << 22) / std::max<int64_t>(bins, 1), 1, 64));
    Tensor tables = empty({parts, bins}, table_type, in.device());
    work.tensor("table", tables).number("bins", bins).number("n", n).number("length", (n + parts - 1) / parts);
    if (!work.run(R"(    const ix base = item * g.bins, begin = item * g.length;
    const ix end = begin + g.length < g.n ? begin + g.length : g.n;
    for (ix b = 0; b < g.bins; b++) table[base + b] = 0;
    for (ix i = begin; i < end; i++) {
)" + place +
                      "        if (where >= 0) table[base + where] += " + amount + ";\n    }",
                  parts))
        return false;
    return run_reduction(device::Reduction::Sum, table_type, tables, {1, 0}, &out, nullptr);
}

// The position of v between low and high, in bins. Neither the width of the range nor the product may overflow.
constexpr const char* bin_words = R"(
FN ix bin_between(T v, T low, T high, ix bins) {
    const T width = high - low, scale = (T)bins, plain = (v - low) * scale / width;
    const T part = m_isfinite(width * scale) ? plain : (v / 2 - low / 2) / (high / 2 - low / 2) * scale;
    const i64 at = i64_of(part);
    return part >= 0 ? (at < bins ? (ix)at : bins - 1) : 0;
}
)";

}  // namespace

bool run_bins(const Tensor& in, double low, double high, const Tensor& out) {
    if (!uses_kernels() || !is_floating(in.dtype())) return false;
    Work work(in.device());
    work.compute(in.dtype()).tensor("x", in).real("low", low).real("high", high).functions(bin_words);
    return count(work, in, out, DType::I64,
                 "        const T v = LOAD_x(i);\n        const ix where = v >= g.low && v <= g.high ? bin_between(v, "
                 "g.low, g.high, g.bins) : -1;\n",
                 "1");
}

bool run_count_integers(const Tensor& in, const Tensor& weights, const Tensor& out) {
    if (!uses_kernels()) return false;
    Work work(in.device());
    work.compute(out.dtype()).tensor("x", in).tensor("w", weights);
    return count(work, in, out, out.dtype(),
                 "        const i64 given = x[i];\n        const ix where = given >= 0 && given < g.bins ? (ix)given : "
                 "-1;\n",
                 weights.defined() ? "LOAD_w(i)" : "1");
}

bool run_count_between(const Tensor& in, const Tensor& edges, const Tensor& weights, bool, const Tensor& out) {
    if (!uses_kernels() || !is_floating(in.dtype())) return false;
    Work work(in.device());
    work.compute(in.dtype()).tensor("x", in).tensor("edges", edges).tensor("w", weights);
    // The last edge that is not above v.
    return count(work, in, out, weights.defined() ? weights.dtype() : DType::I64,
                 R"(        const T v = LOAD_x(i);
        ix low = 0, high = g.bins + 1;
        while (low < high) {
            const ix mid = low + (high - low) / 2;
            if (LOAD_edges(mid) <= v) low = mid + 1;
            else high = mid;
        }
        const ix where = v >= LOAD_edges(0) && v <= LOAD_edges(g.bins) ? (low > g.bins ? g.bins - 1 : low - 1) : -1;
)",
                 weights.defined() ? "LOAD_w(i)" : "1");
}

// ---- small products -------------------------------------------------------------------------------------------------

bool run_outer(const Tensor& out, const Tensor& x, const Tensor& y) {
    Tensor column = view_of(x, {x.numel(), 1}, {x.strides()[0], 0}, x.offset());
    return run_multiply(out, column, y);
}
bool run_multiply(const Tensor& out, const Tensor& x, const Tensor& y) {
    const Tensor* in[] = {&x, &y};
    return run_loop(formulas::mul, out.dtype(), out, in, nullptr);
}
bool run_add_outer_half(const Tensor& out, const Tensor& start, const Tensor& x, const Tensor& y, const Scalar& beta,
                        const Scalar& alpha) {
    if (!is_half(out.dtype())) return false;
    std::string cut = out.dtype() == DType::F16 ? "m_as_half(" : "m_as_bfloat16(";
    Tensor column = view_of(x, {x.numel(), 1}, {x.strides()[0], 0}, x.offset());
    std::string product = cut + cut + "g.alpha * y) * z)",  // Without a share the start may be no number.
        old = beta.to<double>() == 0 ? "(T)0" : cut + "g.beta * x)";
    return run_elements({{out, old + " + " + product, DType::F32}}, DType::F32, {start, column, y},
                        {{"alpha", alpha.to<double>()}, {"beta", beta.to<double>()}});
}

bool run_absolute_power(const Tensor& in, const Tensor& out, double order) {
    if (!is_floating(in.dtype())) return false;
    return run_elements({{out, "pow(fabs(x), g.order)", DType::F64}}, DType::F64, {in}, {{"order", order}});
}
bool run_take_root(const Tensor& t, double order) {
    return run_elements({{t, "pow(x, g.order)", DType::F64}}, DType::F64, {t}, {{"order", 1 / order}});
}
bool run_sum_in_order(const Tensor& in, const Tensor& out) {
    DType d = out.dtype();
    if (!compute_type(d) || !compute_type(in.dtype())) return false;
    Work work(in.device());
    work.compute(d)
        .tensor("x", in)
        .tensor("to", out)
        .number("n", in.numel())
        .number("step", in.dim() ? in.strides()[0] : 0);
    return work.run(
        "    T sum = (T)0;\n    for (ix i = item; i < g.n; i++) sum += (T)LOAD_x(i * g.step);\n    STORE_to(0, sum);",
        1);
}

}  // namespace fb::gpu
