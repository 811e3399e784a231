// Reading and writing by indices. If several values are combined into one element, one item processes them all, in
// order: the result equals the CPU's, without atomics.
#include <algorithm>
#include <bit>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "base/error.h"
#include "tensor/plan.h"

namespace fb::gpu {
namespace {

using device::Combine;

// The same memory as elements that kernels can move: 16-byte numbers become pairs.
Tensor as_words(const Tensor& t) {
    static constexpr DType words[] = {DType::U8, DType::U16, DType::U32, DType::U64};
    int size = t.itemsize();
    if (size < 16)
        return make_view(t.storage_ref(), words[std::countr_zero(static_cast<unsigned>(size))], t.shape(), t.strides(),
                         t.offset());
    Dims shape = t.shape(), strides;
    for (int64_t s : t.strides()) strides.push_back(2 * s);
    shape.push_back(2);
    strides.push_back(1);
    return make_view(t.storage_ref(), DType::U64, shape, strides, 2 * t.offset());
}

// `count` dimensions of two tensors, iterated together.
void plan_of(LoopPlan& plan, const Tensor& a, int64_t a_first, const Tensor& b, int64_t b_first, int64_t count) {
    auto part = [&](const Tensor& t, int64_t first) {
        Dims shape(t.shape().begin() + first, t.shape().begin() + first + count);
        Dims strides(t.strides().begin() + first, t.strides().begin() + first + count);
        return view_of(t, shape, strides, t.offset());
    };
    Tensor x = part(a, a_first), y = part(b, b_first);
    const Tensor* operands[] = {&x, &y};
    make_plan(plan, x.shape(), operands, 2);
}
// Declares members <name>_shape, <name>_to and <name>_from, and returns text that adds the offset of element `index`.
std::string describe(Work& work, const LoopPlan& plan, const std::string& name, int itemsize) {
    int64_t to[max_dims], from[max_dims];
    for (int d = 0; d < plan.ndim; d++) {
        to[d] = plan.operands[0].strides[d] / itemsize;
        from[d] = plan.operands[1].strides[d] / itemsize;
    }
    work.numbers(name + "_shape", plan.shape, plan.ndim).numbers(name + "_to", to, plan.ndim);
    work.numbers(name + "_from", from, plan.ndim).define(name + "_dims", plan.ndim);
    return "for (int d = 0; d < " + name + "_dims; d++) { const ix next = rest / g." + name +
           "_shape[d], place = rest - next * g." + name + "_shape[d]; rest = next; put += place * g." + name +
           "_to[d]; got += place * g." + name + "_from[d]; }\n";
}

std::string joined(Combine combine, const std::string& old, const std::string& value) {
    switch (combine) {
        case Combine::Assign:
            return value;
        case Combine::Add:
            return "m_add(" + old + ", " + value + ")";
        case Combine::Multiply:
            return "m_mul(" + old + ", " + value + ")";
        case Combine::Max:
            return "m_max(" + old + ", " + value + ")";
        case Combine::Min:
            return "m_min(" + old + ", " + value + ")";
    }
    return value;
}

// Offsets may point anywhere in a tensor's storage: passed as a number of a launch, this makes its indices wide enough.
int64_t extent(const Tensor& t) { return static_cast<int64_t>(t.storage().bytes()) / t.itemsize(); }

constexpr Fault out_of_range{ErrorKind::Index, "index {index} is out of bounds for dimension {a} with size {b}"};

Tensor on_device_dense(const Tensor& t) {
    if (t.is_contiguous()) return t;
    Tensor dense = empty(t.shape(), t.dtype(), t.device());
    return run_copy(dense, t) ? dense : Tensor();
}

}  // namespace

bool run_add_offsets(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride, bool wrap,
                     bool set) {
    if (!uses_kernels() || !stored_type(indices.dtype()) || indices.device() != offsets.device()) return false;
    if (offsets.numel() == 0) return true;
    Tensor spread = expand(indices, offsets.shape()), all = on_device_dense(spread);
    if (!all) return false;
    Work work(offsets.device());
    work.compute(DType::I64).tensor("to", offsets).tensor("at", all).number("size", size).number("stride", stride);
    bool unsigned_bits = indices.dtype() == DType::U64;
    work.number("low", wrap && !unsigned_bits ? -size : 0).on_fail(out_of_range, dim, size);
    return work.run(std::string("    const i64 index = (i64)at[item];\n    const i64 start = ") +
                        (set ? "0" : "to[item]") +
                        ";\n    if (index < g.low || index >= g.size) {\n        FAIL(0, index);\n        to[item] = "
                        "start;\n        return;\n    }\n    to[item] = start + (index < 0 ? index + g.size : index) * "
                        "g.stride;",
                    offsets.numel());
}

bool run_check_indices(const Tensor& indices, int64_t dim, int64_t size) {
    if (!uses_kernels() || !stored_type(indices.dtype())) return false;
    if (indices.numel() == 0) return true;
    Tensor all = on_device_dense(indices);
    if (!all) return false;
    Work work(indices.device());
    work.tensor("at", all).number("size", size);
    work.on_fail(out_of_range, dim, size);
    return work.run("    const i64 index = (i64)at[item];\n    if (index < 0 || index >= g.size) FAIL(0, index);",
                    indices.numel());
}

bool run_gather_rows(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before) {
    if (!uses_kernels()) return false;
    if (to.numel() == 0) return true;
    Tensor w = as_words(to), r = as_words(rows);
    LoopPlan outer, inner;
    plan_of(outer, w, 0, r, 0, before);
    plan_of(inner, w, before + 1, r, before, r.dim() - before);
    int size = w.itemsize();
    int64_t n = offsets.numel(), block = inner.numel, chunk = std::min<int64_t>(block, 256),
            chunks = (block + chunk - 1) / chunk;
    Work work(to.device());
    work.compute(w.dtype()).tensor("to", w).tensor("from", r, r.raw()).tensor("offsets", offsets);
    work.number("n", n).number("block", block).number("chunk", chunk).number("chunks", chunks).number("bytes", size);
    work.number("extent", extent(r));
    bool flat = inner.ndim == 0 ||
                (inner.ndim == 1 && inner.operands[0].strides[0] == size && inner.operands[1].strides[0] == size);
    std::string text = R"(    ix left = item / g.chunks, first = (item - left * g.chunks) * g.chunk, rest = left / g.n;
    const ix i = left - rest * g.n, stop = first + g.chunk < g.block ? first + g.chunk : g.block;
    ix put = 0, got = (ix)(offsets[i] / (g.bytes < 1 ? 1 : g.bytes));
    )" + describe(work, outer, "before", size);
    // The block's own dimensions are those of `to` after n.
    text += "    put += i * g.block;\n";
    if (flat) {
        text += "    for (ix a = first; a < stop; a++) to[put + a] = from[got + a];";
    } else {
        text +=
            "    const ix put0 = put, got0 = got;\n    for (ix a = first; a < stop; a++) {\n        ix rest = a;\n "
            "  "
            "     put = put0;\n        got = got0;\n        " +
            describe(work, inner, "after", size) + "        to[put] = from[got];\n    }";
    }
    return work.run(text, outer.numel * n * chunks);
}

bool run_scatter_rows(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before, Combine combine) {
    if (!uses_kernels()) return false;
    if (from.numel() == 0) return true;
    bool moves = combine == Combine::Assign;
    if (!moves && !compute_type(rows.dtype())) return false;
    Tensor w = moves ? as_words(rows) : rows, r = moves ? as_words(from) : from;
    LoopPlan outer, inner;
    plan_of(outer, w, 0, r, 0, before);
    plan_of(inner, w, before, r, before + 1, w.dim() - before);
    int size = w.itemsize();
    int64_t block = inner.numel, chunk = std::min<int64_t>(block, 16), chunks = (block + chunk - 1) / chunk;
    Work work(rows.device());
    work.compute(moves ? w.dtype() : compute_dtype(rows.dtype()))
        .tensor("to", w)
        .tensor("from", r)
        .tensor("offsets", offsets);
    work.number("n", offsets.numel()).number("block", block).number("chunk", chunk).number("chunks", chunks);
    work.number("bytes", size).number("step", r.strides()[before]);
    work.number("extent", extent(w));
    bool flat = inner.ndim == 0 ||
                (inner.ndim == 1 && inner.operands[0].strides[0] == size && inner.operands[1].strides[0] == size);
    std::string value = moves ? "from[source]" : "(T)LOAD_from(source)", old = "(T)LOAD_to(target)";
    std::string put = moves ? "to[target] = from[source];" : "STORE_to(target, " + joined(combine, old, value) + ");";
    std::string text = R"(    ix rest = item / g.chunks;
    const ix first = (item - rest * g.chunks) * g.chunk, stop = first + g.chunk < g.block ? first + g.chunk : g.block;
    ix put = 0, got = 0;
    )" + describe(work, outer, "before", size);
    if (flat) {
        text += R"(    for (ix i = 0; i < g.n; i++) {
        const ix base = put + (ix)(offsets[i] / (g.bytes < 1 ? 1 : g.bytes)), with = got + i * g.step;
        for (ix a = first; a < stop; a++) { const ix target = base + a, source = with + a; )" +
                put + " }\n    }";
    } else {
        text += R"(    const ix put0 = put, got0 = got;
    for (ix a = first; a < stop; a++) {
        ix rest = a;
        put = put0;
        got = got0;
        )" + describe(work, inner, "after", size) +
                R"(        for (ix i = 0; i < g.n; i++) {
            const ix target = put + (ix)(offsets[i] / (g.bytes < 1 ? 1 : g.bytes)), source = got + i * g.step;
            )" + put +
                "\n        }\n    }";
    }
    return work.run(text, outer.numel * chunks);
}

// ---- along a dimension ----------------------------------------------------------------------------------------------

namespace {

// `t` viewed for lines along `dim`: index 0, expanded.
Tensor spread(const Tensor& t, int64_t dim, const Dims& shape) {
    Dims strides = t.strides();
    strides[dim] = 0;
    return view_of(t, shape, strides, t.offset());
}

// All but one dimension of three tensors, iterated by `rest`, as offsets a_, b_ and c_.
std::string describe(Work& work, const Dims& shape, int64_t without, const Tensor& a, const Tensor& b,
                     const Tensor& c) {
    int64_t sizes[max_dims], steps[3][max_dims], n = 0;
    const Tensor* all[] = {&a, &b, &c};
    for (int64_t d = shape.size() - 1; d >= 0; d--) {
        if (d == without || shape[d] == 1) continue;
        sizes[n] = shape[d];
        for (int k = 0; k < 3; k++) steps[k][n] = all[k]->strides()[d];
        n++;
    }
    work.numbers("shape", sizes, n).numbers("sa", steps[0], n).numbers("sb", steps[1], n).numbers("sc", steps[2], n);
    work.define("DIMS", n);
    return R"(    ix a_ = 0, b_ = 0, c_ = 0;
    for (int d = 0; d < DIMS; d++) {
        const ix next = rest / g.shape[d], place = rest - next * g.shape[d];
        rest = next;
        a_ += place * g.sa[d];
        b_ += place * g.sb[d];
        c_ += place * g.sc[d];
    }
)";
}

}  // namespace

bool run_gather(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap) {
    if (!uses_kernels() || !stored_type(index.dtype()) || t.itemsize() == 16) return false;
    int64_t size = t.shape()[dim];
    if (index.numel() == 0) return true;
    if (size == 0) return run_check_indices(index, dim, 0);
    Tensor w = as_words(to), r = as_words(t), lines = spread(r, dim, index.shape());
    Work work(to.device());
    work.compute(DType::I64).tensor("to", w).tensor("at", index).tensor("from", r);
    work.number("low", wrap ? -size : 0).number("size", size).number("stride", t.strides()[dim]);
    work.on_fail(out_of_range, dim, size);
    std::string walk = describe(work, index.shape(), -1, w, index, lines);
    return work.run("    ix rest = item;\n" + walk + R"(    i64 i = (i64)at[b_];
    if (i < g.low || i >= g.size) {
        FAIL(0, i);
        i = 0;
    }
    to[a_] = from[c_ + (ix)(i < 0 ? i + g.size : i) * g.stride];)",
                    index.numel());
}

bool run_scatter(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, Combine combine, bool) {
    bool moves = combine == Combine::Assign;
    if (!uses_kernels() || !stored_type(index.dtype()) || t.itemsize() == 16 || (!moves && !compute_type(t.dtype())))
        return false;
    if (index.numel() == 0) return true;
    Tensor w = moves ? as_words(t) : t, r = moves ? as_words(src) : src, lines = spread(w, dim, index.shape());
    int64_t n = index.shape()[dim];
    Work work(t.device());
    work.compute(moves ? w.dtype() : compute_dtype(t.dtype())).tensor("to", w).tensor("at", index).tensor("from", r);
    work.number("n", n).number("size", t.shape()[dim]).number("stride", t.strides()[dim]);
    work.number("at_step", index.strides()[dim]).number("from_step", r.strides()[dim]);
    work.on_fail(out_of_range, dim, t.shape()[dim]);
    std::string walk = describe(work, index.shape(), dim, lines, index, r);
    std::string put = moves
                          ? "to[target] = from[source];"
                          : "STORE_to(target, " + joined(combine, "(T)LOAD_to(target)", "(T)LOAD_from(source)") + ");";
    return work.run("    ix rest = item;\n" + walk + R"(    for (ix i = 0; i < g.n; i++) {
        const i64 k = (i64)at[b_ + i * g.at_step];
        if (k < 0 || k >= g.size) {
            FAIL(0, k);
            continue;
        }
        const ix target = a_ + (ix)k * g.stride, source = c_ + i * g.from_step;
        )" + put + "\n    }",
                    index.numel() / n);
}

// A single item: elements of the view may share memory.
bool run_add_overlapping(const Tensor& view, const Tensor& from) {
    if (!uses_kernels() || !compute_type(view.dtype())) return false;
    if (view.numel() == 0) return true;
    Work work(view.device());
    work.compute(compute_dtype(view.dtype())).tensor("to", view).tensor("from", from).number("n", view.numel());
    std::string walk = describe(work, view.shape(), -1, view, from, from);
    return work.run("    for (ix i = item; i < g.n; i++) {\n    ix rest = i;\n" + walk +
                        "    STORE_to(a_, m_add((T)LOAD_to(a_), (T)LOAD_from(i)));\n    }",
                    1);
}

std::optional<Tensor> run_repeat_indices(const Tensor& counts) {
    if (!uses_kernels()) return std::nullopt;
    int64_t n = counts.numel(), total = 0;
    if (n == 0) return empty({0}, DType::I64, counts.device());
    Tensor ends = empty({n}, DType::I64, counts.device());
    static constexpr Fault faults[] = {{ErrorKind::Value, "repeats can not be negative, got {index}"},
                                       {ErrorKind::Value, "the number of repeated elements overflows"}};
    Work work(counts.device());
    work.compute(DType::I64).tensor("x", counts).tensor("y", ends).number("n", n).on_fail(faults, 2, 0, 0);
    if (!work.run(R"(    i64 sum = 0;
    for (ix i = item; i < g.n; i++) {
        if (x[i] < 0) FAIL(0, x[i]);
        else if (x[i] > HIGHEST - sum) FAIL(1, 0);
        else sum += x[i];
        y[i] = sum;
    })",
                  1))
        return std::nullopt;
    driver(counts.device()).download(current_stream(counts.device()), &total, ends.data<int64_t>() + n - 1, 8);
    Tensor result = empty({total}, DType::I64, counts.device());
    Work last(counts.device());
    last.compute(DType::I64).tensor("ends", ends).tensor("to", result).number("n", n);
    // The first count that ends behind the place.
    if (!last.run(R"(    ix low = 0, high = g.n;
    while (low < high) {
        const ix mid = low + (high - low) / 2;
        if (ends[mid] > item) high = mid;
        else low = mid + 1;
    }
    to[item] = low;)",
                  total))
        return std::nullopt;
    return result;
}

bool run_divide_by_counts(const Tensor& t, const Tensor& counts) {
    DType d = compute_dtype(t.dtype());
    if (!compute_type(d) || d == DType::Bool) return false;
    std::string value = is_floating(d) ? "y > 1 ? x / y : x" : "y > (T)1 ? m_div_floor(x, y) : x";
    return run_elements({{t, value, d}}, d, {t, counts});
}

// ---- masks ----------------------------------------------------------------------------------------------------------

bool run_mask_fill(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value) {
    if (!uses_kernels() || to.itemsize() == 16) return false;
    Tensor w = as_words(to);
    // A number on the host is passed as the bits of its dtype.
    Tensor bits = as_words(value);
    if (value.device().type == DeviceType::CPU && w.dtype() == DType::U64)
        bits = make_view(value.storage_ref(), DType::I64, value.shape(), value.strides(), value.offset());
    return run_elements({{w, "y ? z : x", w.dtype()}}, w.dtype(), {as_words(from), mask, bits}, {}, "", 2);
}

namespace {

constexpr int64_t mask_block = 1024;

// Number of true elements of a contiguous mask before each block, on the device, and in total.
struct Starts {
    Tensor before;
    int64_t total = 0, blocks = 0;
};
bool count_blocks(const Tensor& mask, Starts& s) {
    int64_t n = mask.numel();
    s.blocks = (n + mask_block - 1) / mask_block;
    if (n == 0) return uses_kernels();
    s.before = empty({s.blocks}, DType::I64, mask.device());
    Work work(mask.device());
    work.compute(DType::I64).tensor("count", s.before).tensor("mask", mask).number("n", n).number("block", mask_block);
    if (!work.run(R"(    const ix begin = item * g.block, end = begin + g.block < g.n ? begin + g.block : g.n;
    i32 sum = 0;
    for (ix i = begin; i < end; i++) sum += LOAD_mask(i) ? 1 : 0;
    count[item] = sum;)",
                  s.blocks))
        return false;
    std::vector<int64_t> counts(static_cast<size_t>(s.blocks));
    Driver& d = driver(mask.device());
    d.download(current_stream(mask.device()), counts.data(), s.before.raw(), counts.size() * sizeof(int64_t));
    for (int64_t& count : counts) {
        int64_t own = count;
        count = s.total;
        s.total += own;
    }
    d.upload(current_stream(mask.device()), s.before.raw(), counts.data(), counts.size() * sizeof(int64_t));
    return true;
}
// Runs the statements for every true element: index i in the mask, index k in the result.
bool each_true(Work& work, const Tensor& mask, const Starts& s, const std::string& statements) {
    work.tensor("mask", mask).tensor("before", s.before).number("n", mask.numel()).number("block", mask_block);
    return work.run(R"(    const ix begin = item * g.block, end = begin + g.block < g.n ? begin + g.block : g.n;
    ix k = (ix)before[item];
    for (ix i = begin; i < end; i++) {
        if (!LOAD_mask(i)) continue;
)" + statements + "\n        k++;\n    }",
                    s.blocks);
}

}  // namespace

std::optional<int64_t> run_count_true(const Tensor& mask) {
    Starts s;
    if (!count_blocks(mask, s)) return std::nullopt;
    return s.total;
}

std::optional<Tensor> run_mask_select(const Tensor& t, const Tensor& mask) {
    Starts s;
    if (t.itemsize() == 16 || !count_blocks(mask, s)) return std::nullopt;
    Tensor result = empty({s.total}, t.dtype(), t.device());
    if (s.total == 0) return result;
    Work work(t.device());
    Tensor w = as_words(result), r = as_words(t);
    work.compute(w.dtype()).tensor("to", w).tensor("from", r);
    if (!each_true(work, mask, s, "        to[k] = from[i];")) return std::nullopt;
    return result;
}

std::optional<Tensor> run_mask_offsets(const Tensor& mask, const Dims& strides) {
    Starts s;
    if (!count_blocks(mask, s)) return std::nullopt;
    Tensor result = empty({s.total}, DType::I64, mask.device());
    if (s.total == 0) return result;
    Work work(mask.device());
    int64_t n = mask.dim(), sizes[max_dims], steps[max_dims];
    for (int64_t d = 0; d < n; d++) {
        sizes[d] = mask.shape()[n - 1 - d];
        steps[d] = strides[n - 1 - d];
    }
    work.compute(DType::I64)
        .tensor("to", result)
        .numbers("shape", sizes, n)
        .numbers("step", steps, n)
        .define("DIMS", n);
    if (!each_true(work, mask, s, R"(        ix rest = i;
        i64 at = 0;
        for (int d = 0; d < DIMS; d++) {
            const ix next = rest / g.shape[d];
            at += (i64)(rest - next * g.shape[d]) * g.step[d];
            rest = next;
        }
        to[k] = at;)"))
        return std::nullopt;
    return result;
}

std::optional<Tensor> run_mask_coordinates(const Tensor& mask) {
    Starts s;
    if (!count_blocks(mask, s)) return std::nullopt;
    int64_t n = mask.dim(), sizes[max_dims];
    Tensor result = empty({n, s.total}, DType::I64, mask.device());
    if (s.total == 0 || n == 0) return transpose(result, 0, 1);
    for (int64_t d = 0; d < n; d++) sizes[d] = mask.shape()[n - 1 - d];
    Work work(mask.device());
    work.compute(DType::I64).tensor("to", result).numbers("shape", sizes, n).number("count", s.total).define("DIMS", n);
    if (!each_true(work, mask, s, R"(        ix rest = i;
        for (int d = 0; d < DIMS; d++) {
            const ix next = rest / g.shape[d];
            to[(DIMS - 1 - d) * g.count + k] = (i64)(rest - next * g.shape[d]);
            rest = next;
        }
)"))
        return std::nullopt;
    return transpose(result, 0, 1);
}

}  // namespace fb::gpu
