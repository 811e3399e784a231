// Sorting: short runs are sorted by insertion, then merged in passes in which every element computes its own position.
// Sorts are stable; NaN counts as the largest number.
#include <algorithm>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

using device::Distinct;
using device::Select;
constexpr int64_t first_run = 16;

constexpr const char* order_words = R"(
FN int before(T a, T b) { return DESCENDING ? (a > b || (m_isnan(a) && !m_isnan(b))) : (a < b || (m_isnan(b) && !m_isnan(a))); }
)";

bool takes(const Tensor& t) { return uses_kernels() && compute_type(t.dtype()); }
int64_t row_length(const Tensor& t) { return t.dim() ? t.shape().back() : 1; }
Tensor make(const Tensor& like, DType d, int64_t n) { return empty({n}, d, like.device()); }

// Rows of n elements.
bool sort_rows(const Tensor& in, int64_t n, bool descending, const Tensor& values, const Tensor& indices) {
    int64_t total = in.numel(), passes = 0;
    for (int64_t width = first_run; width < n; width *= 2) passes++;
    Tensor other_values = passes ? make(in, values.dtype(), total) : Tensor();
    Tensor other_indices = passes ? make(in, DType::I64, total) : Tensor();
    bool swapped = passes % 2;
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", in);
    work.tensor("to", swapped ? other_values : values).tensor("at", swapped ? other_indices : indices);
    int64_t runs = (n + first_run - 1) / first_run;
    work.number("n", n).number("runs", runs).number("width", first_run).define("DESCENDING", descending);
    work.functions(order_words);
    if (!work.run(R"(    const ix row = item / g.runs, begin = (item - row * g.runs) * g.width;
    const ix end = begin + g.width < g.n ? begin + g.width : g.n, base = row * g.n;
    for (ix i = begin; i < end; i++) {
        const T v = LOAD_x(base + i);
        ix k = i;
        for (; k > begin && before(v, (T)LOAD_to(base + k - 1)); k--) {
            to[base + k] = to[base + k - 1];
            at[base + k] = at[base + k - 1];
        }
        STORE_to(base + k, v);
        at[base + k] = (i64)i;
    })",
                  total / n * runs))
        return false;
    for (int64_t width = first_run; width < n; width *= 2, swapped = !swapped) {
        Work merge(in.device());
        merge.compute(compute_dtype(in.dtype()));
        merge.tensor("x", swapped ? other_values : values).tensor("from", swapped ? other_indices : indices);
        merge.tensor("to", swapped ? values : other_values).tensor("at", swapped ? indices : other_indices);
        merge.number("n", n).number("width", width).define("DESCENDING", descending).functions(order_words);
        if (!merge.run(R"(    const ix row = item / g.n, p = item - row * g.n, base = row * g.n;
    const ix begin = p / (g.width + g.width) * (g.width + g.width);
    const ix middle = begin + g.width < g.n ? begin + g.width : g.n, end = middle + g.width < g.n ? middle + g.width : g.n;
    const T v = LOAD_x(item);
    const int left = p < middle;
    // Number of elements of the other run that come before: smaller ones, and for elements of the right run equal ones
    // too.
    ix low = left ? middle : begin, high = left ? end : middle;
    const ix start = low;
    while (low < high) {
        const ix mid = low + (high - low) / 2;
        const T w = LOAD_x(base + mid);
        if (left ? before(w, v) : !before(v, w)) low = mid + 1;
        else high = mid;
    }
    const ix target = base + (left ? p : p - middle + begin) + (low - start);
    to[target] = x[item];
    at[target] = from[item];)",
                       total))
            return false;
    }
    return true;
}

}  // namespace

bool run_sort(const Tensor& in, bool descending, const Tensor& values, const Tensor& indices) {
    if (!takes(in)) return false;
    return in.numel() == 0 || sort_rows(in, row_length(in), descending, values, indices);
}

bool run_topk(const Tensor& in, int64_t k, bool largest, bool, const Tensor& values, const Tensor& indices) {
    if (!takes(in)) return false;
    if (in.numel() == 0 || k == 0) return true;
    int64_t n = row_length(in), rows = in.numel() / n;
    Tensor all = make(in, in.dtype(), in.numel()), places = make(in, DType::I64, in.numel());
    if (!sort_rows(in, n, largest, all, places)) return false;
    auto head = [&](const Tensor& t) { return view_of(t, {rows, k}, {n, 1}, t.offset()); };
    auto flat = [&](const Tensor& t) { return view_of(t, {rows, k}, {k, 1}, t.offset()); };
    return run_copy(flat(values), head(all)) && run_copy(flat(indices), head(places));
}

bool run_select(const Tensor& in, Select what, int64_t k, const Tensor& values, const Tensor& indices) {
    if (!takes(in)) return false;
    if (in.numel() == 0) return true;
    int64_t n = row_length(in), rows = in.numel() / n;
    Tensor all = make(in, in.dtype(), in.numel()), places = make(in, DType::I64, in.numel());
    if (!sort_rows(in, n, false, all, places)) return false;
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", all).tensor("from", places).tensor("to", values);
    work.tensor("at", indices).number("n", n).number("k", k).define("KTH", what == Select::Kth);
    work.define("IGNORE", what == Select::NanMedian);
    return work.run(R"(    const ix base = item * g.n;
    ix low = 0, high = g.n, k = g.k;
    // NaNs come last.
    while (low < high) {
        const ix mid = low + (high - low) / 2;
        if (m_isnan(LOAD_x(base + mid))) high = mid;
        else low = mid + 1;
    }
    if (!KTH) {
        k = ((IGNORE ? low : g.n) - 1) / 2;
        if (low < g.n && (!IGNORE || low == 0)) k = low;
    }
    to[item] = x[base + k];
    at[item] = from[base + k];)",
                    rows);
}

bool run_mode(const Tensor& in, const Tensor& values, const Tensor& indices) {
    if (!takes(in)) return false;
    if (in.numel() == 0) return true;
    int64_t n = row_length(in), rows = in.numel() / n;
    Tensor all = make(in, in.dtype(), in.numel()), places = make(in, DType::I64, in.numel());
    if (!sort_rows(in, n, false, all, places)) return false;
    Work work(in.device());
    work.compute(compute_dtype(in.dtype())).tensor("x", all).tensor("from", places).tensor("to", values);
    work.tensor("at", indices).number("n", n);
    return work.run(R"(    const ix base = item * g.n;
    ix most = 0, best = 0;
    for (ix i = 0; i < g.n;) {
        ix end = i + 1;
        while (end < g.n && LOAD_x(base + end) == LOAD_x(base + i)) end++;
        if (end - i > most) {
            most = end - i;
            best = end - 1;
        }
        i = end;
    }
    STORE_to(item, LOAD_x(base + best));
    at[item] = from[base + best];)",
                    rows);
}

bool run_search(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out) {
    if (!takes(rows)) return false;
    if (values.numel() == 0) return true;
    int64_t n = rows.shape().back(), per_row = rows.dim() == 1 ? values.numel() : values.shape().back();
    Work work(rows.device());
    work.compute(rows.dtype()).tensor("x", rows).tensor("sorter", sorter).tensor("v", values).tensor("to", out);
    work.number("n", n).number("step", rows.dim() == 1 ? 0 : n).number("per_row", per_row);
    work.define("AT(i)", sorter.defined() ? "(base + (ix)sorter[base + (i)])" : "(base + (i))");
    std::string stays = right ? "!(LOAD_x(AT(mid)) > value)" : "!(LOAD_x(AT(mid)) >= value)";
    std::string store = out.dtype() == DType::I32 ? "(i32)low" : "(i64)low";
    return work.run(R"(    const ix base = item / g.per_row * g.step;
    const T value = LOAD_v(item);
    ix low = 0, high = g.n;
    while (low < high) {
        const ix mid = low + (high - low) / 2;
        if ()" + stays +
                        ") low = mid + 1;\n        else high = mid;\n    }\n    to[item] = " + store + ";",
                    values.numel());
}

bool run_contains(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out) {
    if (!takes(x) || wanted.device() != x.device()) return false;
    if (x.numel() == 0) return true;
    int64_t m = wanted.numel();
    Tensor sorted = make(x, wanted.dtype(), m), places = make(x, DType::I64, m);
    if (m && !sort_rows(wanted, m, false, sorted, places)) return false;
    Work work(x.device());
    work.compute(x.dtype()).tensor("x", x).tensor("wanted", sorted).tensor("to", out).number("n", m);
    return work.run(std::string(R"(    const T value = LOAD_x(item);
    ix low = 0, high = g.n;
    while (low < high) {
        const ix mid = low + (high - low) / 2;
        if (LOAD_wanted(mid) < value) low = mid + 1;
        else high = mid;
    }
    to[item] = (u8)((low < g.n && LOAD_wanted(low) == value) )") +
                        (invert ? "== 0);" : "!= 0);"),
                    x.numel());
}

std::optional<Distinct> run_distinct(const Tensor& t, bool ordered, bool inverse, bool counts) {
    if (!takes(t)) return std::nullopt;
    int64_t n = t.numel();
    Distinct made;
    if (n == 0) {
        made.values = make(t, t.dtype(), 0);
        if (inverse) made.inverse = empty(t.shape(), DType::I64, t.device());
        if (counts) made.counts = make(t, DType::I64, 0);
        return made;
    }
    DType d = compute_dtype(t.dtype());
    Tensor row = t, places;
    if (ordered) {
        row = make(t, t.dtype(), n);
        places = make(t, DType::I64, n);
        if (!sort_rows(t, n, false, row, places)) return std::nullopt;
    }
    // The number of the run that each element belongs to.
    Tensor differs = make(t, DType::I64, n), run = make(t, DType::I64, n);
    Work flags(t.device());
    flags.compute(d).tensor("x", row).tensor("to", differs);
    if (!flags.run("    to[item] = item > 0 && !(LOAD_x(item) == LOAD_x(item - 1)) ? 1 : 0;", n)) return std::nullopt;
    if (!run_scan_sum(differs, run, 0)) return std::nullopt;
    int64_t last = 0;
    driver(t.device()).download(current_stream(t.device()), &last, run.raw() + (n - 1) * 8, 8);
    made.values = make(t, t.dtype(), last + 1);
    Tensor starts = make(t, DType::I64, last + 2);
    if (inverse) made.inverse = empty(t.shape(), DType::I64, t.device());
    Work work(t.device());
    work.compute(d).tensor("x", row).tensor("differs", differs).tensor("run", run).tensor("starts", starts);
    work.tensor("values", made.values).tensor("inverse", made.inverse).tensor("places", places).number("n", n);
    std::string text = R"(    const ix own = (ix)run[item];
    if (item == 0 || differs[item] != 0) {
        values[own] = x[item];
        starts[own] = (i64)item;
    }
    if (item == g.n - 1) starts[own + 1] = (i64)g.n;
)";
    if (inverse) text += std::string("    inverse[") + (ordered ? "places[item]" : "item") + "] = (i64)own;";
    if (!work.run(text, n)) return std::nullopt;
    if (counts) {
        made.counts = make(t, DType::I64, last + 1);
        Work count(t.device());
        count.compute(DType::I64).tensor("starts", starts).tensor("to", made.counts);
        if (!count.run("    to[item] = starts[item + 1] - starts[item];", last + 1)) return std::nullopt;
    }
    return made;
}

}  // namespace fb::gpu
