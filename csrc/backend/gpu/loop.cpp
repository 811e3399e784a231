// Formulas over tensors that broadcast together: one kernel per formula, combination of dtypes and kind of layout.
#include <algorithm>
#include <bit>

#include "backend/gpu/elements.h"
#include "backend/gpu/families.h"
#include "tensor/plan.h"

namespace fb::gpu {
namespace {

constexpr int64_t group_items = 128;

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
    auto stride = [&](int k, int d) { return plan.operands[k].strides[d] / itemsize(plan.operands[k].dtype); };
    // If all elements are contiguous, or all the same, items are elements. Otherwise the offset of a row is computed
    // once for a piece of it.
    bool flat = plan.ndim <= 1;
    for (int k = 0; k < count && plan.ndim == 1; k++) flat &= stride(k, 0) == 0 || stride(k, 0) == 1;
    Work work(out.device());
    work.compute(compute);
    std::vector<std::string> index(count);
    for (int k = 0; k < count; k++) {
        int64_t inner = plan.ndim ? stride(k, 0) : 0;
        std::string own = std::to_string(k);
        if (flat) index[k] = inner ? "item" : "0";
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
    std::string once = made.loads + stores;
    if (flat) return work.run("    " + once, out.numel());

    // A group processes a piece of a long row with adjacent items; an item processes a short row.
    int64_t row = plan.shape[0];
    bool long_rows = row >= group_items / 2;
    int64_t chunk = long_rows ? group_items : row, chunks = (row + chunk - 1) / chunk;
    work.number("row", row).numbers("shape", plan.shape, plan.ndim);
    if (long_rows) work.number("chunks", chunks);
    std::string begin = long_rows ? "    const ix piece = (ix)GROUP;\n    ix rest = piece / g.chunks;\n"
                                    "    const ix k = (piece - rest * g.chunks) * SIZE + (ix)LID;\n    ix "
                                  : "    ix rest = item, k = 0;\n    ix ";
    std::string step =
        "    for (int d = 1; d < NDIM; d++) {\n        const ix next = rest / g.shape[d], place = rest - "
        "next * g.shape[d];\n        rest = next;\n";
    for (int k = 0; k < count; k++) {
        std::string own = std::to_string(k);
        int64_t strides[max_dims];
        for (int d = 0; d < plan.ndim; d++) strides[d] = stride(k, d);
        work.numbers("s" + own, strides, plan.ndim);
        begin += (k ? ", o" : "o") + own + " = 0";
        step += "        o" + own + " += place * g.s" + own + "[d];\n";
    }
    work.define("NDIM", plan.ndim);
    begin += ";\n" + step + "    }\n    ";
    if (long_rows) return work.run(begin + "if (k < g.row) { " + once + "}", out.numel() / row * chunks * group_items);
    return work.run(begin + "for (; k < g.row; k++) { " + once + "}", out.numel() / row);
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
    DType compute = formula.wide ? DType::F64 : compute_dtype(common);
    if (!compute_type(compute)) return false;
    if (out.numel() == 0) return true;
    DType result = computed_as(formula.result, compute);
    std::optional<std::string> value = expression(formula, compute);
    if (!value) return false;
    std::string typed = result == DType::Bool ? *value : compute == DType::Bool ? *value + " & 1" : "(T)" + *value;
    std::vector<Tensor> inputs;
    for (int i = 0; i < formula.inputs; i++) inputs.push_back(*in[i]);
    const Numbers given = numbers ? *numbers : Numbers();
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
    if (!converts(from.dtype(), to.dtype())) return false;
    DType compute = compute_dtype(from.dtype());
    return run_elements({{to, "x", compute}}, compute, {from});
}

}  // namespace fb::gpu
