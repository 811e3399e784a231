// Matrix products: an item computes a block of one result in registers. If neither operand's columns are contiguous, an
// item computes one dot product along both. On processors, large products are different: b is packed into panels as
// wide as a block, so that an item reads it sequentially.
#include <algorithm>

#include "backend/gpu/blocks.h"
#include "backend/gpu/families.h"
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

// Text that stores the value `sum` of element (row, column).
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

// The batch dimensions, iterated by `rest`; adds to pc, pa and pb.
int64_t describe_batch(Work& work, const Tensor& c, const Tensor& a, const Tensor& b, int64_t batch) {
    int64_t shape[max_dims], strides[3][max_dims], matrices = 1;
    const Tensor* operands[] = {&c, &a, &b};
    for (int64_t i = 0; i < batch; i++) {
        int64_t d = batch - 1 - i;
        shape[i] = c.shape()[d];
        matrices *= shape[i];
        for (int k = 0; k < 3; k++) strides[k][i] = operands[k]->strides()[d];
    }
    work.numbers("shape", shape, batch).numbers("sc", strides[0], batch).numbers("sa", strides[1], batch);
    work.numbers("sb", strides[2], batch).define("NB", batch);
    return matrices;
}
constexpr const char* walk_batch = R"(    for (int d = 0; d < NB; d++) {
        const ix next = DIVIDE(rest, g.shape[d]), place = rest - next * g.shape[d];
        rest = next;
        pa += place * g.sa[d];
        pb += place * g.sb[d];
        pc += place * g.sc[d];
    }
)";

// ---- on processors --------------------------------------------------------------------------------------------------

// `t` as contiguous rows of the compute type.
Tensor in_rows(const Matrix& m, int64_t rows, int64_t columns, DType compute) {
    Dims shape = m.tensor.shape(), strides = m.tensor.strides();
    int64_t batch = m.tensor.dim() - 2;
    shape[batch] = rows;  // what is given may be its transpose
    shape[batch + 1] = columns;
    strides[batch] = m.row;
    strides[batch + 1] = m.column;
    Tensor from = view_of(m.tensor, shape, strides, m.tensor.offset());
    if (m.column == 1 && m.tensor.dtype() == compute) return from;
    Tensor made = empty(shape, compute, m.tensor.device());
    return run_copy(made, from) ? made : Tensor();
}

// Blocks. If b is small or used by few rows, it is read in place; otherwise it is packed into panels.
bool launch_blocks(const Problem& p, bool in_place) {
    const Tensor& c = p.c.tensor;
    DType compute = compute_dtype(c.dtype());
    BlockShape block = block_for(compute, p.rows, p.columns);
    int64_t batch = c.dim() - 2;
    Tensor b = p.b.tensor, a = in_rows(p.a, p.rows, p.length, compute);
    if (!in_place) {
        Dims shape = b.shape(), strides = b.strides();
        shape[batch] = p.length;
        shape[batch + 1] = p.columns;
        strides[batch] = p.b.row;
        strides[batch + 1] = p.b.column;
        b = in_panels(view_of(b, shape, strides, b.offset()), compute, block.width());
    }
    if (!a.defined() || !b.defined()) return false;
    Work work(c.device());
    work.in_blocks().compute(compute).tensor("c", c).tensor("a", a).tensor("b", b);
    int64_t matrices = describe_batch(work, c, a, b, batch);
    int64_t row_blocks = (p.rows + block.height - 1) / block.height,
            column_blocks = (p.columns + block.width() - 1) / block.width();
    work.number("rows", p.rows).number("columns", p.columns).number("length", p.length);
    work.number("cr", p.c.row).number("cc", p.c.column).number("ar", a.strides()[batch]);
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    block.define(work);
    if (in_place) work.number("bk", p.b.row);
    // Vectors are stored where nothing is added to them but a bias.
    std::string whole, v = block.vector();
    if (is_one(p.alpha) && is_zero(p.beta) && p.c.column == 1 && c.dtype() == compute &&
        (!p.bias || (p.bias_column == 1 && p.bias->dtype() == compute))) {
        whole = p.bias ? v + "_fma(" + v + "_of((T)1), SUMS, " + v + "_load(bias + (r0 + ROW) * g.br + c0 + COLUMN))"
                       : "SUMS";
        whole = v + "_store(c + pc + (r0 + ROW) * g.cr + c0 + COLUMN, " + whole + ");";
    }
    std::string text =
        std::string(R"(    ix left = DIVIDE(item, g.row_blocks);
    const ix r0 = (item - left * g.row_blocks) * R;
    ix rest = DIVIDE(left, g.column_blocks), pa = 0, pb = 0, pc = 0;
    const ix panel = left - rest * g.column_blocks, c0 = panel * W;
)") + walk_batch +
        R"(    const ix height = g.rows - r0 < R ? g.rows - r0 : R, width = g.columns - c0 < W ? g.columns - c0 : W;
    T row[W];
    GLOBAL const T* y = b + pb + )" +
        (in_place ? "c0" : "panel * g.length * W") + ";\n";
    for (int64_t r = 0; r < block.height; r++) {
        std::string n = std::to_string(r);
        // Rows beyond the last are computed like the first, and not stored.
        text += "    GLOBAL const T* x" + n + " = a + pa + (r0 + (" + n + " < height ? " + n + " : 0)) * g.ar;\n";
    }
    text += block_sums(block) + "    for (ix k = 0; k < g.length; k++, y += " + (in_place ? "g.bk" : "W") + ") {\n" +
            block_products(block) + "    }\n" +
            block_ends(block, store(work, p, compute, "row[j]", "(r0 + ROW)", "(c0 + j)"), whole);
    return work.run(text, matrices * row_blocks * column_blocks);
}

// Dot products of rows of a and columns of b, four by four.
bool launch_dots(const Problem& p) {
    const Tensor& c = p.c.tensor;
    DType compute = compute_dtype(c.dtype());
    int64_t height = std::min<int64_t>(p.rows, 4), width = std::min<int64_t>(p.columns, 4),
            row_blocks = (p.rows + height - 1) / height, column_blocks = (p.columns + width - 1) / width;
    BlockShape block = block_for(compute, 1, 1);
    std::string v = block.vector();
    Work work(c.device());
    work.in_blocks().compute(compute).tensor("c", c).tensor("a", p.a.tensor).tensor("b", p.b.tensor);
    int64_t matrices = describe_batch(work, c, p.a.tensor, p.b.tensor, c.dim() - 2);
    work.number("rows", p.rows).number("columns", p.columns).number("length", p.length);
    work.number("cr", p.c.row).number("cc", p.c.column).number("ar", p.a.row).number("bn", p.b.column);
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    work.define("R", height).define("C", width).define("LANES", block.lanes);
    std::string text = std::string(R"(    ix left = DIVIDE(item, g.row_blocks);
    const ix r0 = (item - left * g.row_blocks) * R;
    ix rest = DIVIDE(left, g.column_blocks), pa = 0, pb = 0, pc = 0;
    const ix c0 = (left - rest * g.column_blocks) * C;
)") + walk_batch + "    const ix height = g.rows - r0, width = g.columns - c0;\n    ix k = 0;\n";
    std::string loop, tail, ends, sum = store(work, p, compute, "SUM", "(r0 + ROW)", "(c0 + COLUMN)");
    for (int64_t r = 0; r < height; r++) {
        std::string n = std::to_string(r);
        text += "    GLOBAL const T* x" + n + " = a + pa + (r0 + (" + n + " < height ? " + n + " : 0)) * g.ar;\n";
    }
    for (int64_t i = 0; i < width; i++) {
        std::string m = std::to_string(i);
        text += "    GLOBAL const T* y" + m + " = b + pb + (c0 + (" + m + " < width ? " + m + " : 0)) * g.bn;\n";
        loop += "        const " + v + " b" + m + " = " + v + "_load(y" + m + " + k);\n";
    }
    for (int64_t r = 0; r < height; r++) {
        std::string n = std::to_string(r);
        loop += "        { const " + v + " x = " + v + "_load(x" + n + " + k);";
        for (int64_t i = 0; i < width; i++) {
            std::string m = std::to_string(i), s = "s" + n + "_" + m, one = sum;
            text += "    " + v + " " + s + " = " + v + "_of((T)0);\n";
            loop += " " + s + " = " + v + "_fma(x, b" + m + ", " + s + ");";
            tail += "    T t" + n + "_" + m + " = " + v + "_sum(" + s + ");\n    for (ix i = k; i < g.length; i++) t" +
                    n + "_" + m + " += x" + n + "[i] * y" + m + "[i];\n";
            one.replace(one.find("SUM"), 3, "t" + n + "_" + m);
            for (size_t at; (at = one.find("ROW")) != std::string::npos;) one.replace(at, 3, n);
            for (size_t at; (at = one.find("COLUMN")) != std::string::npos;) one.replace(at, 6, m);
            ends += "    if (" + n + " < height && " + m + " < width) " + one + "\n";
        }
        loop += " }\n";
    }
    text += "    for (; k + LANES <= g.length; k += LANES) {\n" + loop + "    }\n" + tail + ends;
    return work.run(text, matrices * row_blocks * column_blocks);
}

// Nothing if the product is too small for more than one kernel.
std::optional<bool> solve_on_processor(const Problem& p) {
    DType compute = compute_dtype(p.c.tensor.dtype());
    if (!has_blocks(p.c.tensor.device(), compute)) return std::nullopt;
    bool plain = p.a.tensor.dtype() == compute && p.b.tensor.dtype() == compute;
    BlockShape block = block_for(compute, p.rows, p.columns);
    if (plain && p.b.row == 1 && p.a.column == 1 && p.length >= 2 * block.lanes && std::min(p.rows, p.columns) <= 64)
        return launch_dots(p);
    if (plain && p.b.column == 1 && p.columns % block.width() == 0 && (p.rows < 48 || p.length * p.columns <= 16384))
        return launch_blocks(p, true);
    if (p.rows < 4 || p.columns < 4 || p.rows * p.columns * p.length < 32768) return std::nullopt;
    return launch_blocks(p, false);
}

// ---- on any device --------------------------------------------------------------------------------------------------

bool launch(const Problem& p) {
    const Tensor &c = p.c.tensor, &a = p.a.tensor, &b = p.b.tensor;
    DType compute = compute_dtype(c.dtype());
    Work work(c.device());
    work.compute(compute).tensor("c", c).tensor("a", a).tensor("b", b);
    int64_t matrices = describe_batch(work, c, a, b, c.dim() - 2);
    work.number("rows", p.rows).number("columns", p.columns).number("length", p.length);
    work.number("cr", p.c.row).number("cc", p.c.column).number("ar", p.a.row).number("ak", p.a.column);
    work.number("bk", p.b.row).number("bn", p.b.column);
    bool dots = p.b.column != 1 && p.b.row == 1 && p.a.column == 1;
    int64_t height = dots ? 1 : p.rows >= most_rows ? most_rows : p.rows, width = dots ? 1 : block_columns;
    int64_t row_blocks = (p.rows + height - 1) / height, column_blocks = (p.columns + width - 1) / width;
    work.number("row_blocks", row_blocks).number("column_blocks", column_blocks);
    std::string text = std::string(R"(    ix left = DIVIDE(item, g.row_blocks);
    const ix r0 = (item - left * g.row_blocks) * R;
    ix rest = DIVIDE(left, g.column_blocks), pa = 0, pb = 0, pc = 0;
    const ix c0 = (left - rest * g.column_blocks) * C;
)") + walk_batch + R"(    pa += r0 * g.ar;
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
        // Rows beyond the last are computed like the last, and not stored.
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
    if (std::optional<bool> done = solve_on_processor(p)) return *done;
    // The stride of a dimension of size one is arbitrary.
    if (p.columns == 1 && p.b.column != 1 && p.rows > 1 && p.a.row == 1) return launch(p.transposed());
    if (p.b.column == 1 || (p.b.row == 1 && p.a.column == 1 && std::min(p.rows, p.columns) < 8)) return launch(p);
    if (p.a.row == 1) return launch(p.transposed());
    // Columns are packed if enough rows use them.
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

BlockShape block_for(DType compute, int64_t rows, int64_t columns) {
    // Six rows of four long vectors and their operands fill 32 registers.
    int64_t lanes = compute == DType::F64 ? 8 : 16;
    return {std::min<int64_t>(rows, 6), columns > 2 * lanes ? 4 : columns > lanes ? 2 : 1, lanes};
}
bool has_blocks(Device device, DType dtype) {
    return uses_kernels() && is_floating(dtype) && driver(device).is_processor();
}

Tensor in_panels(const Tensor& b, DType compute, int64_t width) {
    int64_t batch = b.dim() - 2, length = b.shape()[batch], columns = b.shape()[batch + 1],
            panels = (columns + width - 1) / width;
    Dims once, strides;
    for (int64_t d = 0; d < batch; d++) {
        once.push_back(b.strides()[d] == 0 ? 1 : b.shape()[d]);
        strides.push_back(b.strides()[d]);
    }
    for (int64_t n : {panels, length * width}) {
        once.push_back(n);
        strides.push_back(0);
    }
    Tensor made = empty(once, compute, b.device());
    auto panels_view = [&] {
        Dims shape = b.shape(), steps = made.strides();
        for (int64_t d = 0; d < batch; d++) {
            if (once[d] != shape[d]) steps[d] = 0;
        }
        shape[batch] = panels;
        shape[batch + 1] = length * width;
        return view_of(made, shape, steps, made.offset());
    };
    Work work(b.device());
    work.compute(compute).tensor("c", made).tensor("b", b);
    int64_t matrices = describe_batch(work, made, made, view_of(b, once, strides, b.offset()), batch);
    work.number("panels", panels).number("length", length).number("columns", columns);
    work.number("bk", b.strides()[batch]).number("bn", b.strides()[batch + 1]).define("W", width);
    work.define("NEXT", b.strides()[batch + 1] == 1 ? "1" : "g.bn");
    if (has_blocks(b.device(), compute) && b.dtype() == compute && b.strides()[batch + 1] == 1) {
        // Rows lie as they will: some of them for each item, by vectors.
        const BlockShape block = block_for(compute, 1, 1);
        const int64_t together = 16, blocks = (length + together - 1) / together;
        work.in_blocks().number("together", together).number("blocks", blocks).define("LANES", block.lanes);
        const std::string v = block.vector();
        const bool done = work.run(std::string(R"(    ix left = DIVIDE(item, g.blocks), pa = 0, pb = 0, pc = 0;
    ix k = (item - left * g.blocks) * g.together;
    const ix stop = k + g.together < g.length ? k + g.together : g.length;
    ix rest = DIVIDE(left, g.panels);
    const ix c0 = (left - rest * g.panels) * W;
)") + walk_batch + R"(    (void)pa; (void)pc;
    const ix width = g.columns - c0 < W ? g.columns - c0 : W;
    GLOBAL T* to = c + (left * g.length + k) * W;
    GLOBAL const T* from = b + (pb + k * g.bk + c0);
    for (; k < stop; k++, to += W, from += g.bk) {
        int j = 0;
        for (; j + LANES <= width; j += LANES) )" +
                                       v + "_store(to + j, " + v + R"(_load(from + j));
        for (; j < width; j++) to[j] = from[j];
        for (; j < W; j++) to[j] = (T)0;
    })",
                                   matrices * panels * blocks);
        return done ? panels_view() : Tensor();
    }
    // A row of a panel for each item.
    std::string text = std::string(R"(    ix left = item / g.length, pa = 0, pb = 0, pc = 0;
    const ix k = item - left * g.length;
    ix rest = left / g.panels;
    const ix c0 = (left - rest * g.panels) * W;
)") + walk_batch + R"(    (void)pa; (void)pc;
    const ix width = g.columns - c0 < W ? g.columns - c0 : W;
    GLOBAL T* const to = c + item * W;
    pb += k * g.bk + c0 * g.bn;
    if (width == W) {
        for (int j = 0; j < W; j++) to[j] = (T)LOAD_b(pb + j * NEXT);
    } else {
        for (int j = 0; j < W; j++) to[j] = j < width ? (T)LOAD_b(pb + j * NEXT) : (T)0;
    })";
    return work.run(text, matrices * panels * length) ? panels_view() : Tensor();
}

static std::string sum_of(int64_t row, int64_t vector) {
    return "s" + std::to_string(row) + "_" + std::to_string(vector);
}
std::string block_sums(const BlockShape& block) {
    std::string text, v = block.vector();
    for (int64_t r = 0; r < block.height; r++) {
        for (int64_t i = 0; i < block.vectors; i++)
            text += "    " + v + " " + sum_of(r, i) + " = " + v + "_of((T)0);\n";
    }
    return text;
}
std::string block_products(const BlockShape& block) {
    std::string text = "       ", v = block.vector();
    for (int64_t i = 0; i < block.vectors; i++) {
        std::string n = std::to_string(i);
        text += " const " + v + " y" + n + " = " + v + "_load(y + " + n + " * LANES);";
    }
    for (int64_t r = 0; r < block.height; r++) {
        text += "\n        { const " + v + " x = " + v + "_of(x" + std::to_string(r) + "[k]);";
        for (int64_t i = 0; i < block.vectors; i++)
            text += " " + sum_of(r, i) + " = " + v + "_fma(x, y" + std::to_string(i) + ", " + sum_of(r, i) + ");";
        text += " }";
    }
    return text + "\n";
}
// The text with other words in the place of some.
static std::string replaced(std::string text, const std::string& word, const std::string& by) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
        text.replace(at, word.size(), by);
    return text;
}
std::string block_ends(const BlockShape& block, const std::string& store, const std::string& whole) {
    std::string text, v = block.vector();
    for (int64_t r = 0; r < block.height; r++) {
        std::string n = std::to_string(r), vectors;
        text += "    if (" + n + " < height) {\n        ";
        if (!whole.empty()) {
            for (int64_t i = 0; i < block.vectors; i++)
                vectors += replaced(replaced(replaced(whole, "ROW", n), "SUMS", sum_of(r, i)), "COLUMN",
                                    std::to_string(i * block.lanes)) +
                           " ";
            text += "if (width == W) { " + vectors + "} else { ";
        }
        for (int64_t i = 0; i < block.vectors; i++)
            text += v + "_store(row + " + std::to_string(i * block.lanes) + ", " + sum_of(r, i) + "); ";
        text += "for (int j = 0; j < width; j++) { " + replaced(store, "ROW", n) + " }";
        text += whole.empty() ? "\n    }\n" : " }\n    }\n";
    }
    return text;
}

bool run_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    if (is_complex(c.dtype())) return run_complex_product(c, a, b, alpha, beta);
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
