// Convolutions of channels-last images as matrix products whose rows are gathered on the fly: an item computes a block
// of pixels by channels in registers. Also depthwise convolutions, and unfolding.
#include <algorithm>

#include "backend/gpu/blocks.h"
#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"

namespace fb::gpu {
namespace {

using device::ConvShape;
constexpr int64_t block_rows = 4, block_columns = 32;

bool computes(DType d) { return uses_kernels() && is_floating(d); }

// The shape as members of g: sizes have three entries each.
Work& describe(Work& work, const ConvShape& s) {
    return work.numbers("in", s.in, 3)
        .numbers("out", s.out, 3)
        .numbers("window", s.kernel, 3)
        .numbers("stride", s.stride, 3)
        .numbers("padding", s.padding, 3)
        .numbers("dilation", s.dilation, 3)
        .number("pixels", s.pixels())
        .number("places", s.places())
        .number("taps", s.taps())
        .number("groups", s.groups)
        .number("ci", s.in_channels)
        .number("co", s.out_channels)
        .number("gi", s.per_group())
        .number("go", s.out_channels / s.groups);
}

// The pixel that window `place` reads through tap (t0, t1, t2), or -1; and the inverse, the place that reads a pixel.
constexpr const char* geometry = R"(
FN ix seen(ix c0, ix c1, ix c2, ix t0, ix t1, ix t2, Params g) {
    const ix z = c0 * g.stride[0] + t0 * g.dilation[0] - g.padding[0];
    const ix y = c1 * g.stride[1] + t1 * g.dilation[1] - g.padding[1];
    const ix x = c2 * g.stride[2] + t2 * g.dilation[2] - g.padding[2];
    if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1] || x < 0 || x >= g.in[2]) return -1;
    return (z * g.in[1] + y) * g.in[2] + x;
}
FN ix seen_from(ix c0, ix c1, ix c2, ix t0, ix t1, ix t2, Params g) {
    const ix z = c0 + g.padding[0] - t0 * g.dilation[0];
    const ix y = c1 + g.padding[1] - t1 * g.dilation[1];
    const ix x = c2 + g.padding[2] - t2 * g.dilation[2];
    if (z < 0 || y < 0 || x < 0) return -1;
    const ix a = DIVIDE(z, g.stride[0]), b = DIVIDE(y, g.stride[1]), c = DIVIDE(x, g.stride[2]);
    if (a * g.stride[0] != z || b * g.stride[1] != y || c * g.stride[2] != x) return -1;
    if (a >= g.out[0] || b >= g.out[1] || c >= g.out[2]) return -1;
    return (a * g.out[1] + b) * g.out[2] + c;
}
)";

// Macros for the side being computed and the side it is computed from.
void describe_direction(Work& work, bool backward) {
    work.define("SEEN", backward ? "seen_from" : "seen").define("TO", backward ? "g.in" : "g.out");
    work.define("FROM_PIXELS", backward ? "g.places" : "g.pixels")
        .define("TO_PIXELS", backward ? "g.pixels" : "g.places");
    work.define("FROM_ALL", backward ? "g.co" : "g.ci").define("FROM_GROUP", backward ? "g.go" : "g.gi");
    work.define("TO_ALL", backward ? "g.ci" : "g.co").define("TO_GROUP", backward ? "g.gi" : "g.go");
}

// Rows are pixels of `to`, columns its channels. `from` has the pixel of a tap, or none; `w` has shape (groups, taps,
// channels of a group of `from`, channels of a group of `to`).
bool gathered(const ConvShape& s, const Tensor& to, const Tensor& from, const Tensor& w, const Tensor& bias,
              bool backward) {
    int64_t to_group = backward ? s.per_group() : s.out_channels / s.groups;
    int64_t rows = s.batch * (backward ? s.pixels() : s.places());
    int64_t width = std::min(block_columns, (to_group + 3) / 4 * 4);
    int64_t row_blocks = (rows + block_rows - 1) / block_rows, column_blocks = (to_group + width - 1) / width;
    Work work(to.device());
    work.compute(compute_dtype(to.dtype())).tensor("to", to).tensor("from", from).tensor("w", w).tensor("bias", bias);
    describe(work, s).number("rows", rows).number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    work.define("R", block_rows).define("C", width);
    describe_direction(work, backward);
    work.functions(geometry);
    std::string text = R"(    ix left = item / g.row_blocks;
    const ix r0 = (item - left * g.row_blocks) * R, group = left / g.column_blocks;
    const ix c0 = (left - group * g.column_blocks) * C, width = TO_GROUP - c0 < C ? TO_GROUP - c0 : C;
    const ix height = g.rows - r0 < R ? g.rows - r0 : R;
    ix image[R], z[R], y[R], x[R];
    for (int r = 0; r < R; r++) {
        const ix row = r0 + (r < height ? r : 0), place = row % TO_PIXELS, line = place / TO[2];
        image[r] = row / TO_PIXELS * FROM_PIXELS;
        x[r] = place - line * TO[2];
        z[r] = line / TO[1];
        y[r] = line - z[r] * TO[1];
    }
)";
    for (int64_t r = 0; r < block_rows; r++) {
        std::string n = std::to_string(r);
        text += "    T s" + n + "[C];\n    UNROLL for (int j = 0; j < C; j++) s" + n + "[j] = (T)0;\n";
    }
    text += R"(    ix tap = 0;
    for (ix t0 = 0; t0 < g.window[0]; t0++)
    for (ix t1 = 0; t1 < g.window[1]; t1++)
    for (ix t2 = 0; t2 < g.window[2]; t2++, tap++) {
        ix at[R];
        int some = 0;
        for (int r = 0; r < R; r++) {
            const ix pixel = SEEN(z[r], y[r], x[r], t0, t1, t2, g);
            at[r] = pixel < 0 ? -1 : (image[r] + pixel) * FROM_ALL + group * FROM_GROUP;
            some |= pixel >= 0;
        }
        if (!some) continue;
        ix weight = ((group * g.taps + tap) * FROM_GROUP) * TO_GROUP + c0;
        for (ix k = 0; k < FROM_GROUP; k++, weight += TO_GROUP) {
)";
    std::string products;
    for (int64_t r = 0; r < block_rows; r++) {
        std::string n = std::to_string(r);
        text += "            const T x" + n + " = at[" + n + "] < 0 ? (T)0 : LOAD_from(at[" + n + "] + k);\n";
        products += "s" + n + "[j] += x" + n + " * v; ";
    }
    text += "            if (width == C) { UNROLL for (int j = 0; j < C; j++) { const T v = LOAD_w(weight + j); " +
            products + "} }\n            else for (int j = 0; j < width; j++) { const T v = LOAD_w(weight + j); " +
            products +
            "}\n        }\n    }\n    for (int j = 0; j < width; j++) {\n        const ix channel = group * TO_GROUP + "
            "c0 + "
            "j;\n        const T b = " +
            std::string(bias.defined() ? "LOAD_bias(channel)" : "(T)0") + ";\n";
    for (int64_t r = 0; r < block_rows; r++) {
        std::string n = std::to_string(r);
        text += "        if (" + n + " < height) STORE_to((r0 + " + n + ") * TO_ALL + channel, s" + n + "[j] + b);\n";
    }
    return work.run(text + "    }", row_blocks * column_blocks * s.groups);
}

// ---- on processors --------------------------------------------------------------------------------------------------

// A tensor that is dense in memory, as the compute type.
Tensor as_computed(const Tensor& t, DType compute) {
    if (t.dtype() == compute) return t;
    Tensor made = empty_strided(t.shape(), t.strides(), compute, t.device());
    return run_copy(made, t) ? made : Tensor();
}
// A weight (out, in / groups, taps) as (groups, taps, channels of `from`, channels of `to`).
Tensor weight_view(const ConvShape& s, const Tensor& weight, bool backward) {
    int64_t go = s.out_channels / s.groups, gi = s.per_group(), taps = s.taps();
    Dims shape = backward ? Dims{s.groups, taps, go, gi} : Dims{s.groups, taps, gi, go};
    Dims strides = backward ? Dims{go * gi * taps, 1, gi * taps, taps} : Dims{go * gi * taps, 1, taps, gi * taps};
    return view_of(weight, shape, strides, weight.offset());
}

// As `gathered`, in blocks. Pixels beyond the border are read from a row of zeros.
bool gathered_in_blocks(const ConvShape& s, const Tensor& to, const Tensor& given, const Tensor& weight,
                        const Tensor& bias, bool backward) {
    DType compute = compute_dtype(to.dtype());
    int64_t to_group = backward ? s.per_group() : s.out_channels / s.groups,
            from_group = backward ? s.out_channels / s.groups : s.per_group();
    int64_t rows = s.batch * (backward ? s.pixels() : s.places());
    BlockShape block = block_for(compute, rows, to_group);
    Tensor w = in_panels(weight_view(s, weight, backward), compute, block.width()), from = as_computed(given, compute);
    if (!w.defined() || !from.defined()) return false;
    Tensor zeros = empty({from_group}, compute, to.device());
    static constexpr char nothing[8] = {};
    fill(zeros, nothing);
    int64_t row_blocks = (rows + block.height - 1) / block.height,
            column_blocks = (to_group + block.width() - 1) / block.width();
    Work work(to.device());
    work.in_blocks().compute(compute).tensor("to", to).tensor("from", from).tensor("w", w).tensor("zeros", zeros);
    work.tensor("bias", bias);
    describe(work, s).number("rows", rows).number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    block.define(work);
    describe_direction(work, backward);
    work.functions(geometry);
    // Vectors are stored as they are where the result is of their type.
    std::string whole, v = block.vector();
    if (to.dtype() == compute && (!bias.defined() || bias.dtype() == compute)) {
        const std::string at = "group * TO_GROUP + c0 + COLUMN";
        whole = bias.defined() ? v + "_fma(" + v + "_of((T)1), SUMS, " + v + "_load(bias + " + at + "))" : "SUMS";
        whole = v + "_store(to + (r0 + ROW) * TO_ALL + " + at + ", " + whole + ");";
    }
    std::string text = R"(    ix left = DIVIDE(item, g.row_blocks);
    const ix r0 = (item - left * g.row_blocks) * R, group = DIVIDE(left, g.column_blocks), panel = left - group * g.column_blocks;
    const ix c0 = panel * W, width = TO_GROUP - c0 < W ? TO_GROUP - c0 : W;
    const ix height = g.rows - r0 < R ? g.rows - r0 : R;
    ix image[R], z[R], y_[R], x[R];
    for (int r = 0; r < R; r++) {
        const ix row = r0 + (r < height ? r : 0), which = DIVIDE(row, TO_PIXELS), place = row - which * TO_PIXELS;
        const ix line = DIVIDE(place, TO[2]);
        image[r] = which * FROM_PIXELS;
        x[r] = place - line * TO[2];
        z[r] = DIVIDE(line, TO[1]);
        y_[r] = line - z[r] * TO[1];
    }
    T row[W];
)" + block_sums(block) +
                       R"(    ix tap = 0;
    for (ix t0 = 0; t0 < g.window[0]; t0++)
    for (ix t1 = 0; t1 < g.window[1]; t1++)
    for (ix t2 = 0; t2 < g.window[2]; t2++, tap++) {
        int some = 0;
)";
    for (int64_t r = 0; r < block.height; r++) {
        std::string n = std::to_string(r), at = "[" + n + "]";
        text += "        const ix at" + n + " = SEEN(z" + at + ", y_" + at + ", x" + at + ", t0, t1, t2, g);\n" +
                "        some |= at" + n + " >= 0;\n        GLOBAL const T* const x" + n + " = at" + n +
                " < 0 ? zeros : from + ((image" + at + " + at" + n + ") * FROM_ALL + group * FROM_GROUP);\n";
    }
    text +=
        R"(        if (!some) continue;
        GLOBAL const T* y = w + ((group * g.taps + tap) * g.column_blocks + panel) * FROM_GROUP * W;
        for (ix k = 0; k < FROM_GROUP; k++, y += W) {
)" + block_products(block) +
        "        }\n    }\n" +
        block_ends(block,
                   std::string("const ix channel = group * TO_GROUP + c0 + j; STORE_to((r0 + ROW) * TO_ALL + "
                               "channel, row[j]") +
                       (bias.defined() ? " + LOAD_bias(channel));" : ");"),
                   whole);
    return work.run(text, row_blocks * column_blocks * s.groups);
}

// Rows are output channels, columns input channels: for every tap, along lines of pixels. An item brings the pixels
// into tiles, which stay in the first cache while it takes them to several blocks.
bool weight_in_blocks(const ConvShape& s, const Tensor& sums, const Tensor& gy, const Tensor& x, int64_t chunks,
                      int64_t length) {
    constexpr int64_t blocks = 8, tile = 32;
    DType compute = compute_dtype(x.dtype());
    int64_t go = s.out_channels / s.groups, gi = s.per_group(), lines = s.batch * s.out[0] * s.out[1];
    BlockShape block = block_for(compute, go, gi);
    while (gi % block.width()) block.vectors /= 2;
    Tensor grads = as_computed(gy, compute), from = as_computed(x, compute);
    if (!grads.defined() || !from.defined()) return false;
    const int64_t height = block.height * blocks, row_blocks = (go + height - 1) / height,
                  column_blocks = gi / block.width();
    Work work(x.device());
    work.in_blocks().compute(compute).tensor("to", sums).tensor("grad", grads).tensor("x", from);
    describe(work, s).number("lines", lines).number("length", length).number("size", s.groups * go * gi * s.taps());
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    block.define(work);
    work.define("BLOCKS", blocks).define("HEIGHT", height).define("TILE", tile).define("VECTORS", block.vectors);
    const std::string v = block.vector();
    // S: the sums of all blocks; X: n rows of W numbers; G: n rows of HEIGHT numbers.
    std::string loads, stores, rows;
    for (int64_t r = 0; r < block.height; r++) {
        const std::string n = std::to_string(r);
        rows += "        const T* const x" + n + " = G + i * R + " + n + ";\n";
        for (int64_t k = 0; k < block.vectors; k++) {
            const std::string sum = "s" + n + "_" + std::to_string(k), at = std::to_string(r * block.vectors + k);
            loads += "        " + v + " " + sum + " = S[" + at + "];\n";
            stores += "        S[" + at + "] = " + sum + ";\n";
        }
    }
    work.functions("FN void take_tile(" + v + "* S, const T* X, const T* G, int n, int blocks) {\n" +
                   "    for (int i = 0; i < blocks; i++, S += R * VECTORS) {\n        const T* y = X;\n" + rows +
                   loads + "        for (int k = 0; k < n * HEIGHT; k += HEIGHT, y += W) {\n" + block_products(block) +
                   "        }\n" + stores + "    }\n}\n");
    std::string text = R"(    ix left = DIVIDE(item, g.column_blocks);
    const ix c0 = (item - left * g.column_blocks) * W;
    ix next = DIVIDE(left, g.row_blocks);
    const ix r0 = (left - next * g.row_blocks) * HEIGHT, height = g.go - r0 < HEIGHT ? g.go - r0 : HEIGHT;
    left = DIVIDE(next, g.taps);
    const ix tap = next - left * g.taps, chunk = DIVIDE(left, g.groups), group = left - chunk * g.groups;
    const ix row_of = DIVIDE(tap, g.window[2]), t2 = tap - row_of * g.window[2];
    const ix t0 = DIVIDE(row_of, g.window[1]), t1 = row_of - t0 * g.window[1];
    const ix begin = chunk * g.length, end = begin + g.length < g.lines ? begin + g.length : g.lines;
    // The places of a line whose windows read a pixel through this tap.
    const ix shift = t2 * g.dilation[2] - g.padding[2];
    const ix low = shift < 0 ? (-shift + g.stride[2] - 1) / g.stride[2] : 0;
    const ix most = g.in[2] - 1 - shift < 0 ? 0 : (g.in[2] - 1 - shift) / g.stride[2] + 1;
    const ix high = most < g.out[2] ? most : g.out[2];
    const int blocks = (int)((height + R - 1) / R);
    VECTOR S[BLOCKS * R * VECTORS];
    T X[TILE * W], G[TILE * HEIGHT], row[W];
    int n = 0;
    for (int i = 0; i < blocks * R * VECTORS; i++) S[i] = VECTOR_OF((T)0);
    for (int i = 0; i < TILE * HEIGHT; i++) G[i] = (T)0;
    for (ix line = begin; line < end; line++) {
        const ix upper = DIVIDE(line, g.out[1]), b1 = line - upper * g.out[1], image = DIVIDE(upper, g.out[0]), b0 = upper - image * g.out[0];
        const ix z = b0 * g.stride[0] + t0 * g.dilation[0] - g.padding[0], y_ = b1 * g.stride[1] + t1 * g.dilation[1] - g.padding[1];
        if (z < 0 || z >= g.in[0] || y_ < 0 || y_ >= g.in[1]) continue;
        GLOBAL const T* pixel = x + ((image * g.pixels + (z * g.in[1] + y_) * g.in[2] + low * g.stride[2] + shift) * g.ci + group * g.gi + c0);
        GLOBAL const T* slope = grad + ((line * g.out[2] + low) * g.co + group * g.go + r0);
        for (ix k = low; k < high; k++, pixel += g.stride[2] * g.ci, slope += g.co) {
            for (int j = 0; j < W; j += LANES) VECTOR_STORE(X + (n * W + j), VECTOR_LOAD(pixel + j));
            int j = 0;
            for (; j + LANES <= height; j += LANES) VECTOR_STORE(G + (n * HEIGHT + j), VECTOR_LOAD(slope + j));
            for (; j < height; j++) G[n * HEIGHT + j] = slope[j];
            if (++n < TILE) continue;
            take_tile(S, X, G, TILE, blocks);
            n = 0;
        }
    }
    take_tile(S, X, G, n, blocks);
    for (int r = 0; r < height; r++) {
        for (int i = 0; i < VECTORS; i++) VECTOR_STORE(row + i * LANES, S[r * VECTORS + i]);
        const ix first = chunk * g.size + ((group * g.go + r0 + r) * g.gi + c0) * g.taps + tap;
        for (int j = 0; j < W; j++) STORE_to(first + j * g.taps, row[j]);
    })";
    work.define("VECTOR", v).define("VECTOR_OF", v + "_of").define("VECTOR_LOAD", v + "_load");
    work.define("VECTOR_STORE", v + "_store");
    return work.run(text, column_blocks * row_blocks * s.taps() * s.groups * chunks);
}

// ---- on any device --------------------------------------------------------------------------------------------------

// A weight with memory in this order.
Tensor reordered(const ConvShape& s, const Tensor& weight, bool backward) {
    Tensor from = weight_view(s, weight, backward), made = empty(from.shape(), weight.dtype(), weight.device());
    return run_copy(made, from) ? made : Tensor();
}

}  // namespace

bool run_conv_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (!computes(x.dtype())) return false;
    if (has_blocks(x.device(), x.dtype())) return gathered_in_blocks(s, y, x, weight, bias, false);
    Tensor w = reordered(s, weight, false);
    return w.defined() && gathered(s, y, x, w, bias, false);
}

bool run_conv_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    if (!computes(gy.dtype())) return false;
    if (has_blocks(gy.device(), gy.dtype())) return gathered_in_blocks(s, gx, gy, weight, Tensor(), true);
    Tensor w = reordered(s, weight, true);
    return w.defined() && gathered(s, gx, gy, w, Tensor(), true);
}

// Rows are output channels, columns input channels, for every tap; pixels are split into chunks, whose sums are added.
bool run_conv_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    if (!computes(x.dtype())) return false;
    int64_t go = s.out_channels / s.groups, gi = s.per_group(), rows = s.batch * s.places();
    bool blocks = has_blocks(x.device(), x.dtype()) && gi % block_for(compute_dtype(x.dtype()), 1, 1).lanes == 0;
    int64_t pieces = blocks ? s.batch * s.out[0] * s.out[1] : rows;  // lines of pixels, or pixels
    int64_t chunks = std::clamp<int64_t>(std::min(rows / 512, pieces), 1, 16), length = (pieces + chunks - 1) / chunks;
    chunks = (pieces + length - 1) / length;
    Tensor sums =
        chunks == 1 ? gweight : empty({chunks, gweight.numel()}, compute_dtype(gweight.dtype()), gweight.device());
    auto join = [&] {
        if (chunks == 1) return true;
        Tensor flat = view_of(gweight, {gweight.numel()}, {1}, gweight.offset());
        return run_reduction(device::Reduction::Sum, sums.dtype(), sums, {1, 0}, &flat, nullptr);
    };
    if (blocks) return weight_in_blocks(s, sums, gy, x, chunks, length) && join();
    int64_t width = std::min(block_columns, (gi + 3) / 4 * 4), row_blocks = (go + block_rows - 1) / block_rows,
            column_blocks = (gi + width - 1) / width;
    Work work(x.device());
    work.compute(compute_dtype(x.dtype())).tensor("to", sums).tensor("grad", gy).tensor("x", x);
    describe(work, s).number("rows", rows).number("length", length).number("size", gweight.numel());
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    work.define("R", block_rows).define("C", width).functions(geometry);
    std::string text = R"(    ix left = item / g.column_blocks;
    const ix c0 = (item - left * g.column_blocks) * C, width = g.gi - c0 < C ? g.gi - c0 : C;
    ix next = left / g.row_blocks;
    const ix r0 = (left - next * g.row_blocks) * R, height = g.go - r0 < R ? g.go - r0 : R;
    left = next / g.taps;
    const ix tap = next - left * g.taps, chunk = left / g.groups, group = left - chunk * g.groups;
    const ix line = tap / g.window[2], t2 = tap - line * g.window[2], t0 = line / g.window[1], t1 = line - t0 * g.window[1];
    const ix begin = chunk * g.length, end = begin + g.length < g.rows ? begin + g.length : g.rows;
)";
    std::string products, loads;
    for (int64_t r = 0; r < block_rows; r++) {
        std::string n = std::to_string(r);
        text += "    T s" + n + "[C];\n    UNROLL for (int j = 0; j < C; j++) s" + n + "[j] = (T)0;\n";
        loads += "        const T x" + n + " = LOAD_grad(from + (" + n + " < height ? " + n + " : 0));\n";
        products += "s" + n + "[j] += x" + n + " * v; ";
    }
    text += R"(    ix place = begin % g.places, image = begin / g.places;
    ix rest = place / g.out[2], b2 = place - rest * g.out[2], b0 = rest / g.out[1], b1 = rest - b0 * g.out[1];
    for (ix row = begin; row < end; row++) {
        const ix pixel = seen(b0, b1, b2, t0, t1, t2, g);
        const ix at = (image * g.pixels + pixel) * g.ci + group * g.gi + c0, from = row * g.co + group * g.go + r0;
        if (++b2 == g.out[2]) {
            b2 = 0;
            if (++b1 == g.out[1]) {
                b1 = 0;
                if (++b0 == g.out[0]) { b0 = 0; image++; }
            }
        }
        if (pixel < 0) continue;
)" + loads + "        if (width == C) { UNROLL for (int j = 0; j < C; j++) { const T v = LOAD_x(at + j); " +
            products + "} }\n        else for (int j = 0; j < width; j++) { const T v = LOAD_x(at + j); " + products +
            "}\n    }\n" +
            "    for (int j = 0; j < width; j++) {\n        const ix put = chunk * g.size + ((group * g.go + r0) * "
            "g.gi + c0 + "
            "j) * g.taps + tap;\n";
    for (int64_t r = 0; r < block_rows; r++) {
        std::string n = std::to_string(r);
        text += "        if (" + n + " < height) STORE_to(put + " + n + " * g.gi * g.taps, s" + n + "[j]);\n";
    }
    return work.run(text + "    }", column_blocks * row_blocks * s.taps() * s.groups * chunks) && join();
}

// ---- channel by channel ---------------------------------------------------------------------------------------------

namespace {

bool planes(const ConvShape& s, const Tensor& to, const Tensor& from, const Tensor& weight, const Tensor& bias,
            bool backward) {
    Work work(to.device());
    work.compute(compute_dtype(to.dtype()))
        .tensor("to", to)
        .tensor("from", from)
        .tensor("w", weight)
        .tensor("bias", bias);
    describe(work, s).functions(geometry);
    work.define("SEEN", backward ? "seen_from" : "seen").define("TO", backward ? "g.in" : "g.out");
    work.define("FROM_PIXELS", backward ? "g.places" : "g.pixels")
        .define("TO_PIXELS", backward ? "g.pixels" : "g.places");
    // Each input channel has several outputs: backward sums over them.
    std::string text = R"(    const ix plane = item / TO_PIXELS, place = item - plane * TO_PIXELS, line = place / TO[2];
    const ix b2 = place - line * TO[2], b0 = line / TO[1], b1 = line - b0 * TO[1];
)";
    text +=
        backward
            ? R"(    const ix n = plane / g.ci, channel = plane - n * g.ci;
    T sum = (T)0;
    for (ix k = 0; k < g.go; k++) {
        const ix other = channel * g.go + k, source = (n * g.co + other) * FROM_PIXELS;
)"
            : R"(    const ix n = plane / g.co, other = plane - n * g.co, source = (n * g.ci + other / g.go) * FROM_PIXELS;
    T sum = )" + std::string(bias.defined() ? "LOAD_bias(other)" : "(T)0") +
                  ";\n    {\n";
    text += R"(        ix tap = other * g.taps;
        for (ix t0 = 0; t0 < g.window[0]; t0++)
        for (ix t1 = 0; t1 < g.window[1]; t1++)
        for (ix t2 = 0; t2 < g.window[2]; t2++, tap++) {
            const ix at = SEEN(b0, b1, b2, t0, t1, t2, g);
            if (at >= 0) sum += LOAD_from(source + at) * LOAD_w(tap);
        }
    }
    STORE_to(item, sum);)";
    return work.run(text, to.numel());
}

}  // namespace

bool run_conv_planes_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight,
                             const Tensor& bias) {
    return computes(x.dtype()) && s.per_group() == 1 && planes(s, y, x, weight, bias, false);
}
bool run_conv_planes_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    return computes(gy.dtype()) && s.per_group() == 1 && planes(s, gx, gy, weight, Tensor(), true);
}
bool run_conv_planes_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    if (!computes(x.dtype()) || s.per_group() != 1) return false;
    Tensor sums = empty({s.batch, gweight.numel()}, compute_dtype(x.dtype()), x.device());
    Work work(x.device());
    work.compute(compute_dtype(x.dtype())).tensor("to", sums).tensor("grad", gy).tensor("x", x);
    describe(work, s).functions(geometry);
    if (!work.run(R"(    ix left = item / g.taps;
    const ix tap = item - left * g.taps, n = left / g.co, channel = left - n * g.co;
    const ix line = tap / g.window[2], t2 = tap - line * g.window[2], t0 = line / g.window[1], t1 = line - t0 * g.window[1];
    const ix source = (n * g.ci + channel / g.go) * g.pixels, from = (n * g.co + channel) * g.places;
    ix place = 0;
    T sum = (T)0;
    for (ix b0 = 0; b0 < g.out[0]; b0++)
    for (ix b1 = 0; b1 < g.out[1]; b1++)
    for (ix b2 = 0; b2 < g.out[2]; b2++, place++) {
        const ix at = seen(b0, b1, b2, t0, t1, t2, g);
        if (at >= 0) sum += LOAD_grad(from + place) * LOAD_x(source + at);
    }
    STORE_to(item, sum);)",
                  sums.numel()))
        return false;
    Tensor flat = view_of(gweight, {gweight.numel()}, {1}, gweight.offset());
    return run_reduction(device::Reduction::Sum, sums.dtype(), sums, {1, 0}, &flat, nullptr);
}

// ---- unfolding ------------------------------------------------------------------------------------------------------

// columns: (batch, groups, channels per group * taps, positions), so channels count through the groups.
bool run_unfold(const ConvShape& s, const Tensor& columns, const Tensor& x) {
    if (!compute_type(x.dtype())) return false;
    Work work(x.device());
    work.compute(compute_dtype(x.dtype())).tensor("to", columns).tensor("x", x);
    describe(work, s).functions(geometry);
    return work.run(R"(    ix left = item / g.places;
    const ix place = item - left * g.places, next = left / g.taps, tap = left - next * g.taps;
    const ix line = tap / g.window[2], t2 = tap - line * g.window[2], t0 = line / g.window[1], t1 = line - t0 * g.window[1];
    const ix rest = place / g.out[2], b2 = place - rest * g.out[2], b0 = rest / g.out[1], b1 = rest - b0 * g.out[1];
    const ix at = seen(b0, b1, b2, t0, t1, t2, g);
    if (at >= 0) STORE_to(item, LOAD_x(next * g.pixels + at));)",
                    columns.numel());
}

bool run_fold(const ConvShape& s, const Tensor& x, const Tensor& columns) {
    if (!compute_type(x.dtype())) return false;
    Work work(x.device());
    work.compute(compute_dtype(x.dtype())).tensor("to", x).tensor("x", columns);
    describe(work, s).functions(geometry);
    return work.run(R"(    const ix plane = item / g.pixels, pixel = item - plane * g.pixels, line = pixel / g.in[2];
    const ix b2 = pixel - line * g.in[2], b0 = line / g.in[1], b1 = line - b0 * g.in[1];
    T sum = (T)0;
    ix tap = plane * g.taps;
    for (ix t0 = 0; t0 < g.window[0]; t0++)
    for (ix t1 = 0; t1 < g.window[1]; t1++)
    for (ix t2 = 0; t2 < g.window[2]; t2++, tap++) {
        const ix at = seen_from(b0, b1, b2, t0, t1, t2, g);
        if (at >= 0) sum = m_add(sum, LOAD_x(tap * g.places + at));
    }
    STORE_to(item, sum);)",
                    x.numel());
}

}  // namespace fb::gpu
