// Reductions: kernels made from the rows of formulas/reduction.def. An item takes 16 accumulators through a part of
// what is reduced: for 16 neighbouring results, or side by side through one row. On processors these are vectors where
// the text allows it (blocks.h). Long sums are cut into chunks, whose states a second kernel joins.
#include <algorithm>
#include <bit>

#include "backend/gpu/blocks.h"
#include "backend/gpu/families.h"
#include "backend/gpu/work.h"
#include "device/reduction.h"

namespace fb::gpu {
namespace {

using device::Reduction;
constexpr int64_t lanes = 16, least_chunk = 16384, most_chunk = 65536, wanted_items = 8;
// Bytes that are still in a cache when they are read again, and whose pages are still known.
constexpr int64_t second_cache = 256 << 10, known_pages = 2 << 20;

const ReductionRow* row_named(const std::string& name) {
    for (const ReductionRow& row : reduction_rows()) {
        if (name == row.name) return &row;
    }
    return nullptr;
}
const ReductionRow* row_of(Reduction how) {
    static constexpr const char* names[] = {
#define REDUCTION(name, ...) #name,
#define STATES REDUCTION
#define PLACES(...)
#define SCAN(...)
#include "device/formulas/reduction.def"
#undef REDUCTION
#undef STATES
#undef PLACES
#undef SCAN
    };
    return row_named(names[static_cast<int>(how)]);
}

}  // namespace

// The parts of a state as text: "parts(…)" or a single expression.
std::vector<std::string> parts_of(const char* text, DType compute) {
    Expression tree = parse_formula(text);
    std::vector<std::string> all;
    bool several = tree.type == Expression::Type::Call && tree.name == "parts";
    for (const Expression& part : several ? tree.arguments : std::vector<Expression>{tree}) {
        std::optional<std::string> one = expression(part, compute);
        if (!one) return {};
        all.push_back(*one);
    }
    return all;
}

namespace {

struct Dim {
    int64_t size, in, out[2];
};
// Merges dimensions that can be iterated as one, and drops dimensions of size one.
void merge(std::vector<Dim>& dims) {
    std::vector<Dim> merged;
    for (const Dim& d : dims) {
        if (d.size == 1) continue;
        if (!merged.empty()) {
            Dim& last = merged.back();
            if (d.in == last.in * last.size && d.out[0] == last.out[0] * last.size &&
                d.out[1] == last.out[1] * last.size) {
                last.size *= d.size;
                continue;
            }
        }
        merged.push_back(d);
    }
    dims = merged;
}

// The types and texts of a state's parts.
struct Rule {
    enum class Way { Combine, Moments, LogSumExp } way = Way::Combine;
    DType compute;
    bool ordered = false;  // elements must come in order, and the second part is an index
    std::vector<std::string> identity, element, combine, finish;
    // Elements may depend on y, the element of a tensor with the strides of the reduced one, and on tensors with a
    // number for each result, by their names.
    Tensor other;
    std::vector<std::pair<std::string, Tensor>> of_result;
    size_t parts() const { return identity.size(); }
    std::string type(size_t part) const { return ordered && part == 1 ? "ix" : "T"; }
};

// Joins the state u, v, w into lane `l`.
std::string joined(const Rule& rule, const std::string& lane) {
    std::string text = "{ ", assign;
    static constexpr const char* names[] = {"a", "b", "c"};
    for (size_t p = 0; p < rule.parts(); p++) {
        std::string array = std::string(1, "ABC"[p]) + "[" + lane + "]";
        text += "const " + rule.type(p) + " " + names[p] + " = " + array + "; ";
        assign += array + " = (" + rule.type(p) + ")(" + rule.combine[p] + "); ";
    }
    // All parts are computed from the old values, which the constants hold.
    return text + assign + "}";
}

std::string accumulators(const Rule& rule) {
    std::string text;
    for (size_t p = 0; p < rule.parts(); p++) {
        std::string array(1, "ABC"[p]);
        text += "    " + rule.type(p) + " " + array + "[L];\n    for (int l = 0; l < L; l++) " + array + "[l] = (" +
                rule.type(p) + ")(" + rule.identity[p] + ");\n";
    }
    return text;
}

// Walks the runs of the elements [begin, end) of what is reduced: `count` elements from number n on, which begin `at`.
constexpr const char* walk_runs = R"(
    for (ix n = begin; n < end;) {
        ix left = DIVIDE(n, g.run);
        const ix k = n - left * g.run, rest = g.run - k, count = rest < end - n ? rest : end - n;
        ix at = from + k * g.step[0];
        for (int d = 1; d < NR; d++) {
            const ix next = DIVIDE(left, g.size[d]);
            at += (left - next * g.size[d]) * g.step[d];
            left = next;
        }
)";
// Iterates over the reduced elements [begin, end); `visit` sees lane l, the element x and its index i.
std::string walk(bool columns, const std::string& visit) {
    const std::string place = columns ? "at + l" : "at + l * STEP";
    std::string text = walk_runs;
    std::string lane = "{ const ix p = " + place + "; const X x = LOAD_in(p); " + visit + " }";
    if (columns)
        text += R"(        for (ix j = 0; j < count; j++, at += g.step[0]) {
            const ix i = n + j;
            (void)i;
            if (width == L) {
                for (int l = 0; l < L; l++) )" +
                lane + "\n            } else {\n                for (int l = 0; l < width; l++) " + lane +
                "\n            }\n        }\n";
    else
        text += R"(        ix j = 0;
        for (; j + L <= count; j += L, at += L * STEP) {
            for (int l = 0; l < L; l++) { const ix i = n + j + l; (void)i; )" +
                lane + R"( }
        }
        for (; j < count; j++, at += STEP) { const ix i = n + j; const int l = 0; (void)i; )" +
                lane + " }\n";
    return text + "        n += count;\n    }\n";
}

std::string join_lanes(const Rule& rule) {
    std::string text = "    for (int half_ = L / 2; half_ > 0; half_ /= 2) for (int l = 0; l < half_; l++) { ";
    for (size_t p = 0; p < rule.parts(); p++)
        text += "const " + rule.type(p) + " " + "uvw"[p] + " = " + "ABC"[p] + "[l + half_]; ";
    return text + joined(rule, "l") + " }\n";
}
// The same for one array of numbers.
std::string join_lanes(const std::string& array, bool largest) {
    const std::string one = array + "[l]", two = array + "[l + half_]";
    return "    for (int half_ = L / 2; half_ > 0; half_ /= 2) for (int l = 0; l < half_; l++) " + one + " = " +
           (largest ? "m_max(" + one + ", " + two + ");\n" : one + " + " + two + ";\n");
}

// ---- vectors, on processors
// ------------------------------------------------------------------------------------------

// Whether the rule's text means the same with vectors of elements.
bool takes_vectors(const Rule& rule, const Tensor& in) {
    bool plain = rule.way == Rule::Way::Moments || rule.other.defined();
    if (!plain && rule.way == Rule::Way::Combine) {
        plain = true;
        for (const std::string& element : rule.element) plain &= element == "x" || element == "m_squared_modulus(x)";
    }
    return plain && !rule.ordered && is_floating(rule.compute) && in.dtype() == rule.compute &&
           (!rule.other || rule.other.dtype() == in.dtype());
}
// The words of such text, as macros that take numbers and vectors.
constexpr const char* vector_words = R"(
#define m_add(x, y) ((x) + (y))
#define m_mul(x, y) ((x) * (y))
#define m_squared_modulus(x) ((x) * (x))
#define m_max(x, y) ((((x) > (y)) | ((x) != (x))) ? (x) : (y))
#define m_min(x, y) ((((x) < (y)) | ((x) != (x))) ? (x) : (y))
)";

// An element, or a vector of them, taken into accumulator `lane` of the arrays A, B and C with `prefix`.
std::string taken(const Rule& rule, const std::string& type, const std::string& prefix, const std::string& lane,
                  const std::string& visit) {
    const bool vector = type != "T";
    auto load = [&](const std::string& name, const std::string& at) {
        return vector ? type + "_load(" + name + " + " + at + ")" : name + "[" + at + "]";
    };
    std::string text = "const " + type + " x = " + load("in", "p") + "; ";
    if (!visit.empty()) return text + visit;
    text += "const " + type + " zero = " + (vector ? type + "_of((T)0)" : "(T)0") + "; (void)zero; ";
    if (rule.other) text += "const " + type + " y = " + load("other", "p") + "; ";
    std::string old, assign;
    for (size_t p = 0; p < rule.parts(); p++) {
        const std::string array = prefix + "ABC"[p] + "[" + lane + "]";
        text += "const " + type + " " + "uvw"[p] + " = " + rule.element[p] + "; ";
        old += "const " + type + " " + "abc"[p] + " = " + array + "; ";
        assign += array + " = " + rule.combine[p] + "; ";
    }
    return text + old + assign;
}

// The states as above, by vectors V: VECTORS of them for neighbouring results, or through one row, whose rest is taken
// one by one.
std::string vector_states(const Rule& rule, bool columns, const std::string& v) {
    std::string of_results, text;
    for (const auto& [name, tensor] : rule.of_result)
        of_results += "const " + (columns ? v : "T") + " of_" + name + " = " +
                      (columns ? v + "_load(" + name + " + result + own * LANES); " : name + "[result]; ");
    auto walk = [&](const std::string& visit, const std::string& single) {
        std::string loop = walk_runs;
        const std::string each = "UNROLL for (int own = 0; own < VECTORS; own++) { const ix p = at + own * LANES; ";
        if (columns)
            return loop + "        for (ix j = 0; j < count; j++, at += g.step[0]) { " + each + of_results +
                   taken(rule, v, "V", "own", visit) + "} }\n        n += count;\n    }\n";
        return loop + "        ix j = 0;\n        " + of_results +
               "\n        for (; j + VECTORS * LANES <= count; j += VECTORS * LANES, at += VECTORS * LANES) { " + each +
               taken(rule, v, "V", "own", visit) + "} }\n        for (; j < count; j++, at++) { const ix p = at; " +
               taken(rule, "T", "", "0", single) + "}\n        n += count;\n    }\n";
    };
    auto begin = [&](size_t part, const std::string& value) {
        const std::string name(1, "ABC"[part]);
        text += "    T " + name + "[L]; " + v + " V" + name + "[VECTORS];\n    for (int l = 0; l < L; l++) " + name +
                "[l] = " + value + ";\n    UNROLL for (int own = 0; own < VECTORS; own++) V" + name + "[own] = " + v +
                "_of(" + value + ");\n";
    };
    // Vectors become one, and its lanes are joined with what was taken one by one.
    auto sum = [&](const std::string& name) {
        return "    UNROLL for (int own = 1; own < VECTORS; own++) V" + name + "[0] = V" + name + "[0] + V" + name +
               "[own];\n    " + name + "[0] += " + v + "_sum(V" + name + "[0]);\n";
    };
    auto store = [&](const std::string& name) {
        return "    UNROLL for (int own = 0; own < VECTORS; own++) " + v + "_store(" + name + " + own * LANES, V" +
               name + "[own]);\n";
    };
    if (rule.way == Rule::Way::Moments) {
        text = "    T A[L];\n    for (int l = 0; l < L; l++) A[l] = (T)(end - begin);\n";
        begin(1, "(T)0");
        begin(2, "(T)0");
        text += walk("VB[own] = VB[own] + x; ", "B[0] += x; ");
        if (columns)
            text += "    UNROLL for (int own = 0; own < VECTORS; own++) VB[own] = VB[own] / " + v + "_of(A[0]);\n";
        else
            text += sum("B") + "    B[0] /= A[0];\n    UNROLL for (int own = 0; own < VECTORS; own++) VB[own] = " + v +
                    "_of(B[0]);\n";
        text += walk("const " + v + " away = x - VB[own]; VC[own] = VC[own] + away * away; ",
                     "const T away = x - B[0]; C[0] += away * away; ");
        return text + (columns ? store("B") + store("C") : sum("C"));
    }
    for (size_t p = 0; p < rule.parts(); p++) begin(p, "(T)(" + rule.identity[p] + ")");
    text += walk("", "");
    if (columns) {
        for (size_t p = 0; p < rule.parts(); p++) text += store(std::string(1, "ABC"[p]));
        return text;
    }
    std::string vectors, arrays, lanes_of;
    for (size_t p = 0; p < rule.parts(); p++) {
        const std::string name(1, "ABC"[p]), u(1, "uvw"[p]);
        vectors +=
            "const " + v + " " + u + " = V" + name + "[own]; const " + v + " " + "abc"[p] + " = V" + name + "[0]; ";
        arrays += "    T lane" + name + "[LANES]; " + v + "_store(lane" + name + ", V" + name + "[0]);\n";
        lanes_of += "const T " + u + " = lane" + name + "[l]; ";
    }
    for (size_t p = 0; p < rule.parts(); p++)
        vectors += std::string("V") + "ABC"[p] + "[0] = " + rule.combine[p] + "; ";
    return text + "    UNROLL for (int own = 1; own < VECTORS; own++) { " + vectors + "}\n" + arrays +
           "    for (int l = 0; l < LANES; l++) { " + lanes_of + joined(rule, "0") + " }\n";
}

// ---- on any device
// ---------------------------------------------------------------------------------------------------

// Code that leaves the states of elements [begin, end) in A, B and C.
std::string states(const Rule& rule, bool columns) {
    std::string text;
    switch (rule.way) {
        case Rule::Way::Combine: {
            std::string element;
            if (rule.other) element += "const T y = LOAD_other(p), zero = (T)0; (void)zero; ";
            for (const auto& [name, tensor] : rule.of_result)
                element += "const T of_" + name + " = LOAD_" + name + "(result" + (columns ? " + l); " : "); ");
            for (size_t p = 0; p < rule.parts(); p++)
                element +=
                    "const " + rule.type(p) + " " + "uvw"[p] + " = (" + rule.type(p) + ")(" + rule.element[p] + "); ";
            text = accumulators(rule) + walk(columns, element + joined(rule, "l"));
            return columns ? text : text + join_lanes(rule);
        }
        case Rule::Way::Moments:
            // The mean first, then the deviations from it.
            text = "    T A[L], B[L], C[L];\n    for (int l = 0; l < L; l++) B[l] = C[l] = (T)0;\n";
            text += walk(columns, "B[l] += (T)x;");
            if (!columns) text += join_lanes("B", false) + "    for (int l = 1; l < L; l++) B[l] = B[0];\n";
            text += "    for (int l = 0; l < L; l++) { A[l] = (T)(end - begin); B[l] /= A[l]; }\n";
            if (!columns) text += "    for (int l = 1; l < L; l++) B[l] = B[0];\n";
            text += walk(columns, "const T away = (T)x - B[l]; C[l] += away * away;");
            return columns ? text : text + join_lanes("C", false);
        case Rule::Way::LogSumExp:
            text = "    T A[L], B[L];\n    for (int l = 0; l < L; l++) { A[l] = -INF; B[l] = (T)0; }\n";
            text += walk(columns, "A[l] = m_isfinite(x) && x > A[l] ? (T)x : A[l];");
            if (!columns) text += join_lanes("A", true) + "    for (int l = 1; l < L; l++) A[l] = A[0];\n";
            text += "    for (int l = 0; l < L; l++) A[l] = A[l] == -INF ? (T)0 : A[l];\n";
            text += walk(columns, "B[l] += exp((T)x - A[l]);");
            return columns ? text : text + join_lanes("B", false);
    }
    return text;
}

// Writes the result of lane l, or its state.
std::string finish(const Rule& rule, const Tensor* outs, size_t results, bool chunked, const std::string& offset0,
                   const std::string& offset1, const std::string& state) {
    std::string text;
    if (chunked) {
        for (size_t p = 0; p < rule.parts(); p++)
            text += std::string("state") + "abc"[p] + "[" + state + "] = " + "ABC"[p] + "[l]; ";
        return text;
    }
    for (size_t p = 0; p < rule.parts(); p++)
        text += "const " + rule.type(p) + " " + "abc"[p] + " = " + "ABC"[p] + "[l]; ";
    for (size_t p = 0; p < rule.parts(); p++) text += std::string("(void)") + "abc"[p] + "; ";
    for (size_t r = 0; r < results; r++) {
        if (!outs[r].defined()) continue;
        std::string name = "out" + std::to_string(r), value = rule.finish[r];
        DType computed = rule.ordered && r == 1 ? DType::I64 : rule.compute;
        if (!(rule.ordered && r == 1)) value = "(T)(" + value + ")";
        text += name + "[" + (r ? offset1 : offset0) + "] = " + converted(computed, outs[r].dtype(), value) + "; ";
    }
    return text;
}

bool run_rule(const Rule& rule, const Tensor& in, const Dims& reduced, const Tensor* outs, size_t results,
              const double* numbers, int count) {
    const Tensor& shaped = outs[0].defined() ? outs[0] : outs[1];
    if (rule.identity.empty() || rule.finish.empty() || rule.combine.empty() || rule.element.empty()) return false;
    for (size_t r = 0; r < results; r++) {
        if (outs[r].defined() && (!stored_type(outs[r].dtype()) || outs[r].device() != in.device())) return false;
        if (outs[r].defined() && is_floating(rule.compute) && !is_floating(outs[r].dtype()) &&
            outs[r].dtype() != DType::Bool && !rule.ordered)
            return false;
    }
    if (shaped.numel() == 0) return true;
    std::vector<Dim> kept, inner;
    bool keeps = shaped.dim() == in.dim();
    int64_t total = 1, own = shaped.dim() - 1;
    for (int64_t d = in.dim() - 1; d >= 0; d--) {
        Dim dim{in.shape()[d], in.strides()[d], {0, 0}};
        if (reduced[d]) {
            inner.push_back(dim);
            total *= dim.size;
            own -= keeps;
            continue;
        }
        for (size_t r = 0; r < results; r++) {
            if (outs[r].defined()) dim.out[r] = outs[r].strides()[own];
        }
        own--;
        kept.push_back(dim);
    }
    auto nearer = [](const Dim& a, const Dim& b) { return std::abs(a.in) < std::abs(b.in); };
    if (!rule.ordered) std::stable_sort(inner.begin(), inner.end(), nearer);
    std::stable_sort(kept.begin(), kept.end(), nearer);
    merge(inner);
    merge(kept);
    if (inner.empty()) inner.push_back({total, 1, {0, 0}});
    bool columns = !kept.empty() && kept[0].in == 1 && kept[0].size >= 4 && inner[0].in != 1;
    int64_t results_count = shaped.numel(), side = columns || !rule.ordered ? lanes : 1;
    const int64_t along = columns ? kept[0].size : inner[0].in == 1 ? inner[0].size : 0;
    const BlockShape vector = block_for(rule.compute, 1, 1);
    int64_t vectors = 0;
    if (driver(in.device()).is_processor() && takes_vectors(rule, in) && along >= (columns ? 1 : 4) * vector.lanes) {
        vectors = columns ? std::min<int64_t>(std::bit_floor(static_cast<uint64_t>(along / vector.lanes)), 8) : 4;
        side = columns ? vectors * vector.lanes : vector.lanes;
    }
    int64_t width = columns ? (kept[0].size + side - 1) / side : 1;
    int64_t blocks = columns ? results_count / kept[0].size * width : results_count;
    int64_t cost = total * (columns ? side : 1), chunks = (total + most_chunk - 1) / most_chunk;
    if (vectors && columns) {
        if (rule.way != Rule::Way::Combine) chunks = std::max(chunks, cost * in.itemsize() / second_cache);
        chunks = std::max(chunks, std::min(total / 64, total * std::abs(inner[0].in) * in.itemsize() / known_pages));
    }
    if (blocks < wanted_items) chunks = std::max(chunks, std::min(wanted_items / blocks, cost / least_chunk));
    chunks = std::max<int64_t>(chunks, 1);
    int64_t length = std::max<int64_t>((total + chunks - 1) / chunks, 1);
    chunks = std::max<int64_t>((total + length - 1) / length, 1);

    Tensor memory[3];
    Work work(in.device());
    work.compute(rule.compute).tensor("in", in).tensor("other", rule.other);
    for (const auto& [name, tensor] : rule.of_result) work.tensor(name, tensor);
    for (size_t r = 0; r < results && chunks == 1; r++) work.tensor("out" + std::to_string(r), outs[r]);
    for (size_t p = 0; p < rule.parts() && chunks > 1; p++) {
        bool place = rule.ordered && p == 1;
        DType d = place ? (in.numel() >= (int64_t(1) << 30) ? DType::I64 : DType::I32) : rule.compute;
        memory[p] = empty({chunks, results_count}, d, in.device());
        work.tensor(std::string("state") + "abc"[p], memory[p]);
    }
    int64_t sizes[max_dims], steps[max_dims], shape[max_dims], from[max_dims], to[2][max_dims];
    for (size_t d = 0; d < inner.size(); d++) sizes[d] = inner[d].size, steps[d] = inner[d].in;
    for (size_t d = 0; d < kept.size(); d++) {
        shape[d] = kept[d].size, from[d] = kept[d].in;
        for (int r = 0; r < 2; r++) to[r][d] = kept[d].out[r];
    }
    auto nk = static_cast<int64_t>(kept.size()), nr = static_cast<int64_t>(inner.size());
    work.number("blocks", blocks)
        .number("length", length)
        .number("total", total)
        .number("run", std::max<int64_t>(inner[0].size, 1));
    work.numbers("size", sizes, nr).numbers("step", steps, nr);
    work.numbers("shape", shape, nk).numbers("from", from, nk).numbers("to", to[0], nk).numbers("too", to[1], nk);
    if (columns) work.number("width", width);
    if (chunks > 1) work.number("results", results_count);
    for (int n = 0; n < count; n++) work.real(std::string(1, "abc"[n]), numbers[n]);
    if (vectors || (side > 1 && length * (columns ? side : 1) >= 256)) work.large_items();
    if (vectors) work.define("VECTORS", vectors).define("LANES", vector.lanes).text(vector_words);
    work.define("NK", nk).define("NR", nr).define("L", side);
    work.define("STEP", inner[0].in == 1 ? "1" : "g.step[0]");
    work.text(std::string("typedef ") + (in.dtype() == DType::Bool ? "u8" : compute_type(in.dtype())) + " X;\n");

    std::string body = R"(    const ix chunk = DIVIDE(item, g.blocks), block = item - chunk * g.blocks;
    const ix begin = chunk * g.length, end = begin + g.length < g.total ? begin + g.length : g.total;
    ix from = 0, to = 0, too = 0;
)";
    if (columns)
        body += R"(    ix left = DIVIDE(block, g.width);
    ix first = (block - left * g.width) * L;
    const ix width = g.shape[0] - first < L ? g.shape[0] - first : L;
    FIRST
    const ix result = left * g.shape[0] + first;
    from = first;
    to = first * g.to[0];
    too = first * g.too[0];
    for (int d = 1; d < NK; d++) {
)";
    else body += "    ix left = block;\n    const ix result = block;\n    for (int d = 0; d < NK; d++) {\n";
    body += R"(        const ix next = DIVIDE(left, g.shape[d]), place = left - next * g.shape[d];
        left = next;
        from += place * g.from[d];
        to += place * g.to[d];
        too += place * g.too[d];
    }
    (void)to; (void)too; (void)result;
)";
    // Vectors are never cut: the last ones make some results once more.
    if (columns) work.define("FIRST", vectors ? "first += width - L;" : "");
    body += vectors ? vector_states(rule, columns, vector.vector()) : states(rule, columns);
    std::string write = finish(rule, outs, results, chunks > 1, columns ? "to + l * g.to[0]" : "to",
                               columns ? "too + l * g.too[0]" : "too", "chunk * g.results + result + l");
    body += columns ? std::string("    for (int l = 0; l < ") + (vectors ? "L" : "width") + "; l++) { " + write + "}"
                    : "    { const int l = 0; " + write + "}";
    if (!work.run(body, blocks * chunks)) return false;
    if (chunks == 1) return true;

    // Joins the states of all chunks of a result. Results are numbered like the kept dimensions.
    Work last(in.device());
    last.compute(rule.compute);
    for (size_t p = 0; p < rule.parts(); p++) last.tensor(std::string("state") + "abc"[p], memory[p]);
    for (size_t r = 0; r < results; r++) last.tensor("out" + std::to_string(r), outs[r]);
    last.number("chunks", chunks).number("results", results_count);
    last.numbers("shape", shape, nk).numbers("to", to[0], nk).numbers("too", to[1], nk);
    for (int n = 0; n < count; n++) last.real(std::string(1, "abc"[n]), numbers[n]);
    last.define("NK", nk).define("L", 1);
    std::string text = accumulators(rule) + "    const int l = 0;\n    for (ix n = 0; n < g.chunks; n++) { ";
    for (size_t p = 0; p < rule.parts(); p++)
        text += "const " + rule.type(p) + " " + "uvw"[p] + " = state" + "abc"[p] + "[n * g.results + item]; ";
    text += joined(rule, "0") + " }\n" + R"(    ix left = item, to = 0, too = 0;
    for (int d = 0; d < NK; d++) {
        const ix next = DIVIDE(left, g.shape[d]), place = left - next * g.shape[d];
        left = next;
        to += place * g.to[d];
        too += place * g.too[d];
    }
    (void)too;
    )" + finish(rule, outs, results, false, "to", "too", "");
    return last.run(text, results_count);
}

Rule rule_of(const ReductionRow& row, DType compute) {
    Rule rule;
    rule.compute = compute;
    rule.identity = parts_of(row.identity, compute);
    rule.element = parts_of(row.element, compute);
    rule.combine = parts_of(row.combine, compute);
    rule.finish = parts_of(row.finish, compute);
    return rule;
}

}  // namespace

bool run_sums(const Tensor& in, const Tensor& other, const Dims& reduced, const Tensor (&outs)[2],
              const std::string (&elements)[2], const std::vector<std::pair<std::string, Tensor>>& of_result) {
    Rule rule;
    rule.compute = compute_dtype(in.dtype());
    rule.identity = {"0", "0"};
    rule.element = {elements[0], elements[1]};
    rule.combine = {"a + u", "b + v"};
    rule.finish = {"a", "b"};
    rule.other = other;
    rule.of_result = of_result;
    return run_rule(rule, in, reduced, outs, 2, nullptr, 0);
}

bool run_reduction(Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
                   const double* numbers) {
    const ReductionRow* row = row_of(how);
    if (!uses_kernels() || !row || !compute_type(in.dtype()) || !compute_type(read)) return false;
    DType compute = compute_dtype(read);
    if (is_floating(in.dtype()) && !is_floating(compute)) return false;
    switch (row->lanes) {
        case Lanes::Sums:
            if (!is_floating(compute)) compute = DType::I64;
            break;
        case Lanes::Counts:
            compute = DType::I64;
            break;
        case Lanes::Flags:
            compute = DType::I32;
            break;
        default:
            break;
    }
    if (row->lanes == Lanes::Moduli && !is_floating(compute)) return false;
    Rule rule = rule_of(*row, compute);
    if (how == Reduction::Moments) rule.way = Rule::Way::Moments;
    if (how == Reduction::LogSumExp) rule.way = Rule::Way::LogSumExp;
    bool extreme = how == Reduction::Largest || how == Reduction::Smallest || how == Reduction::Extremes;
    if (in.numel() == 0 && (extreme || how == Reduction::Moments)) return false;
    bool two = how == Reduction::Extremes || how == Reduction::Moments;
    return run_rule(rule, in, reduced, outs, two ? 2 : 1, numbers, row->numbers);
}

bool run_extreme_along(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
    DType compute = compute_dtype(in.dtype());
    if (!uses_kernels() || !compute_type(compute)) return false;
    Rule rule = rule_of(*row_named(largest ? "FirstLargest" : "FirstSmallest"), compute);
    rule.ordered = true;
    Dims reduced = in.shape();
    for (int64_t& d : reduced) d = 0;
    reduced[dim] = 1;
    const Tensor outs[] = {values, indices};
    return run_rule(rule, in, reduced, outs, 2, nullptr, 0);
}

}  // namespace fb::gpu
