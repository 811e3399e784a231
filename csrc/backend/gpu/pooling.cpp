// Pooling: an item computes one element of the result.
#include <algorithm>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "base/error.h"

namespace fb::gpu {
namespace {

using device::PoolingShape;

// Tables of the windows of each dimension, three numbers each, one dimension after the other.
struct Tables {
    Tensor tensor;
    int64_t first[3];
};
Tables upload(Device device, const std::vector<int64_t> (&rows)[3]) {
    Tables t;
    std::vector<int64_t> all;
    for (int d = 0; d < 3; d++) {
        t.first[d] = static_cast<int64_t>(all.size());
        all.insert(all.end(), rows[d].begin(), rows[d].end());
    }
    t.tensor = empty({static_cast<int64_t>(all.size())}, DType::I64, device);
    if (!all.empty())
        driver(device).upload(current_stream(device), t.tensor.raw(), all.data(), all.size() * sizeof(int64_t));
    return t;
}
Tables spans_of(const PoolingShape& s, Device device) {
    std::vector<int64_t> rows[3];
    for (int d = 0; d < 3; d++) {
        for (const device::Span& span : s.spans[d])
            for (int64_t v : {span.begin, span.end, span.count}) rows[d].push_back(v);
    }
    return upload(device, rows);
}
// For each coordinate, the windows that contain it: the first, and one past the last.
Tables covers_of(const PoolingShape& s, Device device) {
    std::vector<int64_t> rows[3];
    for (int d = 0; d < 3; d++) {
        int64_t low = 0, high = 0;
        for (int64_t i = 0; i < s.in[d]; i++) {
            while (low < s.out[d] && s.spans[d][low].end <= i) low++;
            while (high < s.out[d] && s.spans[d][high].begin <= i) high++;
            rows[d].insert(rows[d].end(), {low, std::max(low, high), 0});
        }
    }
    return upload(device, rows);
}

bool takes(DType d) { return uses_kernels() && (d == DType::F32 || d == DType::F64 || d == DType::I64); }

Work& describe(Work& work, const PoolingShape& s) {
    return work.numbers("in", s.in, 3)
        .numbers("out", s.out, 3)
        .numbers("step", s.step, 3)
        .number("channels", s.channels)
        .number("pixels", s.pixels())
        .number("places", s.places())
        .define("LAST", s.last);
}
Work& describe(Work& work, const Tables& t, const char* name) {
    return work.tensor(name, t.tensor).numbers(std::string(name) + "_at", t.first, 3);
}

// For element `item` of (batch, channels, SIZES): its plane, its coordinates, and the start of the same plane in the
// other tensor, which has OTHER places; elements of a plane are NEXT apart.
constexpr const char* coordinates = R"(
#if LAST
    const ix pixel_ = item / g.channels, channel_ = item - pixel_ * g.channels, n_ = pixel_ / COUNT;
    const ix place = pixel_ - n_ * COUNT, other = n_ * OTHER * g.channels + channel_, next = g.channels;
#else
    const ix plane_ = item / COUNT, place = item - plane_ * COUNT, other = plane_ * OTHER, next = 1;
#endif
    const ix line_ = place / SIZES[2], c2 = place - line_ * SIZES[2], c0 = line_ / SIZES[1], c1 = line_ - c0 * SIZES[1];
)";
Work& of_places(Work& work) {
    return work.define("COUNT", "g.places").define("OTHER", "g.pixels").define("SIZES", "g.out");
}
Work& of_pixels(Work& work) {
    return work.define("COUNT", "g.pixels").define("OTHER", "g.places").define("SIZES", "g.in");
}

constexpr const char* window =
    R"(    const ix a0 = (ix)spans[g.spans_at[0] + 3 * c0], a1 = (ix)spans[g.spans_at[0] + 3 * c0 + 1];
    const ix b0 = (ix)spans[g.spans_at[1] + 3 * c1], b1 = (ix)spans[g.spans_at[1] + 3 * c1 + 1];
    const ix d0 = (ix)spans[g.spans_at[2] + 3 * c2], d1 = (ix)spans[g.spans_at[2] + 3 * c2 + 1];
)";
constexpr const char* each_tap = R"(    for (ix a = a0; a < a1; a += g.step[0])
    for (ix b = b0; b < b1; b += g.step[1])
    for (ix d = d0; d < d1; d += g.step[2]) {
        const ix p = (a * g.in[1] + b) * g.in[2] + d;
)";
constexpr const char* counts =
    "(T)(spans[g.spans_at[0] + 3 * k0 + 2] * spans[g.spans_at[1] + 3 * k1 + 2] * "
    "spans[g.spans_at[2] + 3 * k2 + 2])";
std::string divisor(Work& work, const PoolingShape& s, DType d) {
    if (s.divisor == 0) return counts;
    if (is_floating(d)) work.real("divisor", s.divisor);
    else work.word("divisor", static_cast<uint64_t>(static_cast<int64_t>(s.divisor)));
    return "(T)g.divisor";
}

}  // namespace

bool run_max_pool(const PoolingShape& s, const Tensor& y, const Tensor& indices, const Tensor& x) {
    if (!takes(x.dtype())) return false;
    if (y.numel() == 0) return true;
    Work work(x.device());
    work.compute(x.dtype()).tensor("y", y).tensor("indices", indices).tensor("x", x);
    describe(of_places(describe(work, s)), spans_of(s, x.device()), "spans");
    std::string text = std::string(coordinates) + window;
    text += "    T best = m_lowest((T)0);\n    ix where = (a0 * g.in[1] + b0) * g.in[2] + d0;\n";
    text += each_tap;
    text +=
        "        const T v = LOAD_x(other + p * next);\n        if (v > best || m_isnan(v)) { best = v; where = p; }\n "
        "   "
        "}\n    STORE_y(item, best);\n";
    if (indices.defined())
        text += indices.dtype() == DType::I64 ? "    indices[item] = (i64)where;" : "    indices[item] = (i32)where;";
    else text += "    (void)where;";
    return work.run(text, y.numel());
}

bool run_average_pool(const PoolingShape& s, const Tensor& y, const Tensor& x) {
    if (!takes(x.dtype()) || x.dtype() == DType::I64) return false;
    if (y.numel() == 0) return true;
    Work work(x.device());
    work.compute(x.dtype()).tensor("y", y).tensor("x", x);
    describe(of_places(describe(work, s)), spans_of(s, x.device()), "spans");
    std::string text =
        std::string(coordinates) + window + "    const ix k0 = c0, k1 = c1, k2 = c2;\n    T sum = (T)0;\n";
    text += each_tap;
    text +=
        "        sum += LOAD_x(other + p * next);\n    }\n    (void)k0; (void)k1; (void)k2;\n    STORE_y(item, sum / "
        "(" +
        divisor(work, s, x.dtype()) + "));";
    return work.run(text, y.numel());
}

bool run_average_pool_gradient(const PoolingShape& s, const Tensor& gx, const Tensor& g) {
    for (int64_t step : s.step) {
        if (step != 1) return false;
    }
    if (!takes(g.dtype()) || g.dtype() == DType::I64) return false;
    if (gx.numel() == 0) return true;
    Work work(g.device());
    work.compute(g.dtype()).tensor("to", gx).tensor("x", g);
    describe(of_pixels(describe(work, s)), spans_of(s, g.device()), "spans");
    describe(work, covers_of(s, g.device()), "covers");
    std::string text = coordinates;
    text += R"(    T sum = (T)0;
    for (ix k0 = (ix)covers[g.covers_at[0] + 3 * c0]; k0 < (ix)covers[g.covers_at[0] + 3 * c0 + 1]; k0++)
    for (ix k1 = (ix)covers[g.covers_at[1] + 3 * c1]; k1 < (ix)covers[g.covers_at[1] + 3 * c1 + 1]; k1++)
    for (ix k2 = (ix)covers[g.covers_at[2] + 3 * c2]; k2 < (ix)covers[g.covers_at[2] + 3 * c2 + 1]; k2++)
        sum += LOAD_x(other + ((k0 * g.out[1] + k1) * g.out[2] + k2) * next) / ()" +
            divisor(work, s, g.dtype()) + ");\n    STORE_to(item, sum);";
    return work.run(text, gx.numel());
}

namespace {

constexpr Fault bad_index{ErrorKind::Value, "found an invalid max index {index} for planes of {a} elements"};
Work& checked(Work& work, const PoolingShape& s) { return work.on_fail(bad_index, s.pixels(), 0); }

}  // namespace

// An item processes one plane: overlapping windows add to an element in order.
bool run_pool_scatter(const PoolingShape& s, const Tensor& big, const Tensor& small, const Tensor& indices, bool add) {
    if (!takes(big.dtype())) return false;
    if (big.numel() == 0 && small.numel() == 0) return true;
    Work work(big.device());
    work.compute(big.dtype()).tensor("to", big).tensor("x", small).tensor("indices", indices);
    describe(work, s);
    return checked(work, s).run(std::string(R"(
#if LAST
    const ix n = item / g.channels, channel = item - n * g.channels, next = g.channels;
    const ix from = n * g.places * g.channels + channel, at = n * g.pixels * g.channels + channel;
#else
    const ix from = item * g.places, at = item * g.pixels, next = 1;
#endif
    for (ix p = 0; p < g.pixels; p++) STORE_to(at + p * next, (T)0);
    for (ix k = 0; k < g.places; k++) {
        const i64 p = indices[from + k * next];
        if (p < 0 || p >= g.pixels) {
            FAIL(0, p);
            continue;
        }
        const ix place = at + (ix)p * next;
        STORE_to(place, )") + (add ? "LOAD_to(place) + " : "") +
                                    "LOAD_x(from + k * next));\n    }",
                                s.batch * s.channels);
}

bool run_pool_gather(const PoolingShape& s, const Tensor& small, const Tensor& big, const Tensor& indices) {
    if (!takes(big.dtype())) return false;
    if (small.numel() == 0) return true;
    Work work(big.device());
    work.compute(big.dtype()).tensor("to", small).tensor("x", big).tensor("indices", indices);
    of_places(describe(work, s));
    return checked(work, s).run(std::string(coordinates) + R"(    const i64 p = indices[item];
    (void)c0; (void)c1; (void)c2;
    if (p < 0 || p >= g.pixels) {
        FAIL(0, p);
        return;
    }
    STORE_to(item, LOAD_x(other + (ix)p * next));)",
                                small.numel());
}

}  // namespace fb::gpu
