// Formulas over tensors that broadcast together: one kernel per formula, combination of dtypes and kind of layout.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <set>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "tensor/plan.h"

namespace fb::gpu {
namespace {

constexpr int64_t group_items = 128, wide_group = 1024;

// Whether the text calls nothing but words that are a few instructions: compilers make vectors of loops with these.
// What calls functions becomes vectors of items.
bool is_plain(const std::string& text) {
    static const std::set<std::string> few{"m_add",        "m_sub",
                                           "m_mul",        "m_neg",
                                           "m_max",        "m_min",
                                           "m_abs",        "m_sign",
                                           "m_sgn",        "m_isnan",
                                           "m_not_bits",   "m_between",
                                           "m_lerp",       "m_ramp",
                                           "m_number",     "m_both",
                                           "m_nonzero",    "m_bend",
                                           "m_shift_left", "m_shift_right",
                                           "m_imag_part",  "m_squared_modulus",
                                           "fabs",         "T"};
    for (size_t at = text.find('('); at != std::string::npos; at = text.find('(', at + 1)) {
        size_t begin = at;
        while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_'))
            begin--;
        if (begin < at && !few.contains(text.substr(begin, at - begin))) return false;
    }
    return true;
}

// An operand in the compute type. A number on the host is passed as a number, not as memory.
struct Operands {
    Work& work;
    DType compute;
    std::string loads;

    // Returns false if there is no conversion; `index` of the element.
    bool add(char name, const Tensor& t, char* at, bool condition, const std::string& index) {
        std::string x(1, name), type = condition ? "int" : "T", value;
        if (!at) {
            Scalar number = item(t);
            if (number.kind == Kind::Complex) return false;
            if (condition || !is_floating(compute)) {
                if (!condition && number.kind == Kind::Floating) return false;
                work.word("number_" + x, static_cast<uint64_t>(number.to<int64_t>()));
            } else {
                work.real("number_" + x, number.to<double>());
            }
            value = "g.number_" + x;
        } else {
            work.tensor("at_" + x, t, at);
            value = "LOAD_at_" + x + "(" + index + ")";
        }
        if (condition) value = "(" + value + ") != 0";
        else if (at && compute != compute_dtype(t.dtype())) {
            if (is_floating(t.dtype()) && is_integral(compute)) return false;
            value = compute == DType::Bool ? "(" + value + ") != 0" : "(T)" + value;
        } else {
            value = "(T)" + value;
        }
        loads += "const " + type + " " + x + " = " + value + "; ";
        return true;
    }
};

}  // namespace

bool run_elements(const std::vector<Output>& outputs, DType compute, const std::vector<Tensor>& in, const Reals& reals,
                  const std::string& statements, unsigned conditions, const Numbers::Exact* exact) {
    const Tensor& out = outputs[0].tensor;
    if (!uses_kernels()) return false;
    if (out.numel() == 0) return true;
    const Tensor* operands[max_operands];
    int count = 0, place[max_operands];
    for (const Output& o : outputs) operands[count++] = &o.tensor;
    for (size_t i = 0; i < in.size(); i++) {
        bool on_host = in[i].device().type == DeviceType::CPU;
        if (on_host && in[i].numel() != 1) return false;
        place[i] = on_host ? -1 : count;
        if (!on_host) operands[count++] = &in[i];
    }
    LoopPlan plan;
    make_plan(plan, out.shape(), operands, count);
    auto stride = [&](int k, int d) {
        return d < plan.ndim ? plan.operands[k].strides[d] / itemsize(plan.operands[k].dtype) : 0;
    };
    // Where every element follows the one before, or all are one, there is one row.
    bool flat = plan.ndim <= 1;
    for (int k = 0; k < count && plan.ndim == 1; k++) flat &= stride(k, 0) == 0 || stride(k, 0) == 1;
    std::string values = statements;
    for (const Output& o : outputs) values += o.value;
    const Driver& device = driver(out.device());
    const bool processor = device.is_processor(), loops = device.prefers_loops() && is_plain(values);
    Work work(out.device());
    work.compute(compute);
    std::vector<std::string> index(static_cast<size_t>(count));
    for (int k = 0; k < count; k++) {
        int64_t inner = stride(k, 0);
        std::string own = std::to_string(k);
        if (flat) index[k].assign(1, inner ? 'k' : '0');
        else index[k] = "o" + own + (inner == 0 ? "" : inner == 1 ? " + k" : " + k * g.s" + own + "[0]");
    }
    Operands made{work, compute, ""};
    for (size_t i = 0; i < in.size(); i++) {
        char* at = place[i] < 0 ? nullptr : plan.operands[place[i]].data;
        if (!made.add("xyzuvws"[i], in[i], at, conditions >> i & 1, place[i] < 0 ? "" : index[place[i]])) return false;
    }
    std::string stores = statements;
    for (size_t o = 0; o < outputs.size(); o++) {
        std::string name = "out" + std::to_string(o);
        work.tensor(name, outputs[o].tensor, plan.operands[o].data);
        stores += name + "[" + index[o] +
                  "] = " + converted(outputs[o].computed, outputs[o].tensor.dtype(), outputs[o].value) + "; ";
    }
    auto uses = [&](const std::string& name) { return stores.find(name) != std::string::npos; };
    if (uses("g.value")) {
        if (is_floating(compute)) work.real("value", exact->number.real());
        else work.word("value", static_cast<uint64_t>(exact->whole));
    }
    DType real = compute == DType::F32 ? DType::F32 : DType::F64;
    for (const auto& [name, number] : reals) {
        if (uses("g." + name)) work.real(name, number, real);
    }
    const std::string once = "{ " + made.loads + stores + "}";
    const int64_t n = out.numel(), piece = std::clamp<int64_t>(n / 16, 1024, 16384);
    if (flat && loops) {
        work.large_items().number("n", n).number("piece", piece);
        return work.run(
            "    const ix begin = item * g.piece, end = begin + g.piece < g.n ? begin + g.piece : g.n;\n    "
            "PARALLEL for (ix k = begin; k < end; k++) " +
                once,
            (n + piece - 1) / piece);
    }
    if (flat) {
        if (processor && n >= 64 * wide_group) work.in_groups(wide_group);
        return work.run("    const ix k = item; (void)k;\n    " + once, n);
    }

    int64_t shape[max_dims], row = plan.shape[0];
    std::copy_n(plan.shape, plan.ndim, shape);
    if (plan.ndim == 1) shape[1] = 1;
    const int dims = std::max(plan.ndim, 2);
    work.define("NDIM", dims).number("row", row).numbers("shape", shape, dims);
    for (int k = 0; k < count; k++) {
        int64_t strides[max_dims];
        for (int d = 0; d < dims; d++) strides[d] = stride(k, d);
        work.numbers("s" + std::to_string(k), strides, dims);
    }
    // Finds the places o0, o1 … of what `rest` numbers among the dimensions from `first` on.
    auto walk = [&](const std::string& first) {
        std::string text =
                        "    for (int d = " + first +
                        "; d < NDIM; d++) {\n        const ix next = DIVIDE(rest, g.shape[d]), place = rest - next * "
                        "g.shape[d];\n        rest = next;\n",
                    begin;
        for (int k = 0; k < count; k++) {
            std::string own = std::to_string(k);
            begin += (k ? ", o" : "    ix o") + own + " = 0";
            text += "        o" + own + " += place * g.s" + own + "[d];\n";
        }
        return begin + ";\n" + text + "    }\n";
    };
    // The same for a block of neighbouring rows, of which `rest` has the number.
    auto rows_together = [&](const std::string& loop) {
        std::string text = R"(    const ix left = DIVIDE(rest, g.blocks);
    ix turn = (rest - left * g.blocks) * g.together;
    const ix stop = turn + g.together < g.shape[1] ? turn + g.together : g.shape[1];
    rest = left;
)" + walk("2"),
                    step;
        for (int k = 0; k < count; k++) {
            std::string own = std::to_string(k);
            text += "    o" + own + " += turn * g.s" + own + "[1];\n";
            step += "o" + own + " += g.s" + own + "[1]; ";
        }
        return text + "    for (; turn < stop; turn++) {\n        " + loop + once + "\n        " + step + "\n    }";
    };
    // Rows of which elements lie side by side in the next dimension of an input: pieces of several rows read whole
    // lines.
    constexpr int64_t line = 16, turned_group = 64;
    bool turned = false;
    for (int k = 0; k < count; k++) turned |= std::abs(stride(k, 0)) > 1 && std::abs(stride(k, 1)) == 1;
    turned &= processor && row >= turned_group && shape[1] >= line;
    if (loops) {
        // An item takes pieces of neighbouring rows.
        const int64_t part = turned ? turned_group : std::min(row, piece),
                      together = turned ? line : std::clamp<int64_t>(piece / part, 1, shape[1]);
        const int64_t parts = (row + part - 1) / part, blocks = (shape[1] + together - 1) / together;
        work.large_items().number("part", part).number("parts", parts).number("together", together);
        work.number("blocks", blocks);
        return work.run(R"(    ix rest = DIVIDE(item, g.parts);
    const ix begin = (item - rest * g.parts) * g.part, end = begin + g.part < g.row ? begin + g.part : g.row;
)" + rows_together("PARALLEL for (ix k = begin; k < end; k++) "),
                        n / row / shape[1] * blocks * parts);
    }
    if (turned) {
        const int64_t chunks = (row + turned_group - 1) / turned_group, blocks = (shape[1] + line - 1) / line;
        work.in_groups(turned_group).number("chunks", chunks).number("blocks", blocks).number("together", line);
        return work.run(R"(    const ix piece = (ix)GROUP;
    ix rest = DIVIDE(piece, g.chunks);
    const ix k = (piece - rest * g.chunks) * SIZE + (ix)LID;
)" + rows_together("if (k < g.row) "),
                        n / row / shape[1] * blocks * chunks * turned_group);
    }
    // A group takes a piece of a long row, side by side; an item takes a short row.
    if (row < group_items / 2)
        return work.run("    ix rest = item;\n" + walk("1") + "    for (ix k = 0; k < g.row; k++) " + once, n / row);
    const int64_t group = processor && row >= wide_group ? wide_group : group_items, chunks = (row + group - 1) / group;
    work.in_groups(static_cast<int>(group)).number("chunks", chunks);
    return work.run(
        "    const ix piece = (ix)GROUP;\n    ix rest = DIVIDE(piece, g.chunks);\n    const ix k = (piece - "
        "rest * g.chunks) * SIZE + (ix)LID;\n" +
            walk("1") + "    if (k < g.row) " + once,
        n / row * chunks * group);
}

namespace {

// The compute type of a formula's result.
DType computed_as(formulas::Result result, DType compute) {
    return result == formulas::Result::Bool ? DType::Bool : result == formulas::Result::Int32 ? DType::I32 : compute;
}

Reals reals_of(const Numbers& n) { return {{"a", n.a}, {"b", n.b}, {"c", n.c}}; }

}  // namespace

bool run_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in,
              const Numbers* numbers) {
    DType compute = compute_dtype(common);
    if (is_complex(compute)) return run_complex_loop(formula, common, out, in, numbers);
    if (!compute_type(compute)) return false;
    // float meets a power of two beyond its range in double.
    if (formula.wide || &formula == &formulas::ldexp) compute = DType::F64;
    if (out.numel() == 0) return true;
    DType result = computed_as(formula.result, compute);
    std::optional<std::string> value = expression(formula, compute);
    if (!value) return false;
    std::string typed = result == DType::Bool ? *value : compute == DType::Bool ? *value + " & 1" : "(T)" + *value;
    std::vector<Tensor> inputs;
    for (int i = 0; i < formula.inputs; i++) inputs.push_back(*in[i]);
    Numbers given = numbers ? *numbers : Numbers();
    if (&formula == &formulas::round_decimals) {
        given.b = std::pow(10.0, std::abs(given.a));
        value = typed = "m_round_to(x, g.a, g.b)";
    }
    return run_elements({{out, typed, result}}, compute, inputs, reals_of(given), "", formula.conditions, &given.value);
}

bool run_pair(const Formula& formula, const Tensor& first, const Tensor& second, const Tensor& x) {
    DType compute = compute_dtype(x.dtype());
    std::optional<std::string> one = expression(formula, compute),
                               two = expression(parse_formula(formula.second), compute);
    if (!one || !two || x.device() != first.device()) return false;
    if (first.numel() == 0) return true;
    return run_elements({{first, *one, compute}, {second, *two, computed_as(formula.second_result, compute)}}, compute,
                        {x});
}

bool run_copy(const Tensor& to, const Tensor& from) {
    if (to.numel() == 0) return true;
    auto as = [](const Tensor& t, DType d) {
        return make_view(t.storage_ref(), d, t.shape(), t.strides(), t.offset());
    };
    if (to.dtype() == from.dtype()) {
        // Moved as words of their size.
        static constexpr DType words[] = {DType::U8, DType::U16, DType::U32, DType::U64};
        int size = to.itemsize();
        if (size == 16) {
            auto pairs = [](const Tensor& t) {
                Dims shape = t.shape(), strides;
                shape.push_back(2);
                for (int64_t s : t.strides()) strides.push_back(2 * s);
                strides.push_back(1);
                return make_view(t.storage_ref(), DType::F64, shape, strides, 2 * t.offset());
            };
            return run_copy(pairs(to), pairs(from));
        }
        DType word = words[std::countr_zero(static_cast<unsigned>(size))];
        if (to.dtype() != word && to.dtype() != DType::Bool) return run_copy(as(to, word), as(from, word));
    }
    if (is_complex(from.dtype()) || is_complex(to.dtype())) {
        if (from.dtype() != to.dtype()) return run_complex_copy(to, from);
    }
    if (!converts(from.dtype(), to.dtype())) return false;
    DType compute = compute_dtype(from.dtype());
    return run_elements({{to, "x", compute}}, compute, {from});
}

}  // namespace fb::gpu
