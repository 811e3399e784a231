// Formulas over tensors that broadcast together, one kernel for each formula and combination of dtypes.
#include <array>
#include <cstring>

#include "backend/gpu/driver.h"
#include "backend/gpu/families.h"
#include "backend/gpu/source.h"
#include "tensor/plan.h"

namespace fb::gpu {
namespace {

constexpr int most_dims = 12, most_inputs = 3;

// As the kernel sees it; the addresses come first (Driver::launch).
struct Arguments {
    int64_t pointers = 1 + most_inputs;
    char* data[1 + most_inputs] = {};
    int64_t ndim = 0;
    int64_t shape[most_dims] = {};
    int64_t strides[1 + most_inputs][most_dims] = {};
    double a = 0, b = 0, c = 0, number = 0;
    int64_t whole = 0;
};
constexpr const char* declaration = R"(
struct Arguments {
    i64 pointers; char* data[4]; i64 ndim, shape[12], strides[4][12]; double a, b, c, number; i64 whole;
};
)";

std::string kernel_text(const std::string& value, DType compute, DType out, const std::vector<DType>& in,
                        const std::vector<bool>& condition) {
    std::string text = std::string(prelude()) + declaration + "typedef " + compute_type(compute) + " T;\n";
    text += "inline void item(const Arguments& g, const i64* at) {\n";
    for (size_t k = 0; k < in.size(); k++) {
        std::string type = condition[k] ? "bool" : "T";
        text += "    const " + type + " " + "xyz"[k] + " = load<" + type + ", " + stored_type(in[k]) + ">(g.data[" +
                std::to_string(k + 1) + "] + at[" + std::to_string(k + 1) + "]);\n";
    }
    text +=
        "    const double p_a = g.a, p_b = g.b, p_c = g.c;\n"
        "    const T p_value = std::is_integral<T>::value ? (T)g.whole : (T)g.number;\n"
        "    (void)p_a; (void)p_b; (void)p_c; (void)p_value;\n";
    text += "    store<" + std::string(stored_type(out)) + ">(g.data[0] + at[0], " + value + ");\n}\n";
    return text + R"(
KERNEL {
    const Arguments& g = *(const Arguments*)arguments;
    const i64 row = g.ndim ? g.shape[0] : 1;
    for (i64 i = begin; i < end;) {
        i64 rest = i / row, first = i % row, at[4];
        for (int k = 0; k < 4; k++) at[k] = first * g.strides[k][0];
        for (int d = 1; d < g.ndim; d++) {
            i64 place = rest % g.shape[d];
            rest /= g.shape[d];
            for (int k = 0; k < 4; k++) at[k] += place * g.strides[k][d];
        }
        i64 count = row - first < end - i ? row - first : end - i;
        for (i64 n = 0; n < count; n++) {
            item(g, at);
            for (int k = 0; k < 4; k++) at[k] += g.strides[k][0];
        }
        i += count;
    }
}
)";
}

bool launch(const std::string& value, DType compute, const Tensor& out, const Tensor* const* in, int inputs,
            unsigned conditions, const Numbers& numbers) {
    if (!uses_kernels()) return false;
    std::vector<DType> dtypes;
    std::vector<bool> condition;
    Tensor moved[most_inputs];
    const Tensor* operands[1 + most_inputs] = {&out};
    for (int i = 0; i < inputs; i++) {
        bool is_condition = conditions >> i & 1;
        if (!stored_type(in[i]->dtype()) || (!is_condition && !converts(in[i]->dtype(), compute))) return false;
        dtypes.push_back(in[i]->dtype());
        condition.push_back(is_condition);
        if (in[i]->device().type == DeviceType::CPU) {
            moved[i] = empty_like(*in[i], in[i]->dtype(), out.device());
            copy(moved[i], *in[i]);
        }
        operands[1 + i] = moved[i] ? &moved[i] : in[i];
    }
    if (out.numel() == 0) return true;
    LoopPlan plan;
    make_plan(plan, out.shape(), operands, 1 + inputs);
    if (plan.ndim > most_dims) return false;
    Driver& d = driver(out.device());
    const Kernel* kernel = d.build(kernel_text(value, compute, out.dtype(), dtypes, condition));
    if (!kernel) return false;
    Arguments g;
    g.ndim = plan.ndim;
    std::copy_n(plan.shape, plan.ndim, g.shape);
    for (int k = 0; k <= inputs; k++) {
        g.data[k] = plan.operands[k].data;
        std::copy_n(plan.operands[k].strides, plan.ndim, g.strides[k]);
    }
    g.a = numbers.a;
    g.b = numbers.b;
    g.c = numbers.c;
    g.number = numbers.value.number.real();
    g.whole = numbers.value.whole;
    count_kernel();
    d.launch(current_stream(out.device()), kernel, &g, sizeof g, out.numel());
    return true;
}

}  // namespace

bool run_loop(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in,
              const Numbers* numbers) {
    DType compute = compute_dtype(common);
    if (formula.wide || !compute_type(compute) || !stored_type(out.dtype())) return false;
    using formulas::Result;
    DType result = formula.result == Result::Bool ? DType::Bool : compute;
    if (!converts(result, out.dtype())) return false;
    std::optional<std::string> value = expression(formula);
    if (!value) return false;
    std::string typed = result == DType::Bool ? "(bool)(" + *value + ")" : "(T)(" + *value + ")";
    return launch(typed, compute, out, in, formula.inputs, formula.conditions, numbers ? *numbers : Numbers());
}

bool run_copy(const Tensor& to, const Tensor& from) {
    // Complex numbers and others without arithmetic of their own are moved as words of their size.
    if (to.dtype() == from.dtype() && !stored_type(to.dtype())) {
        if (to.itemsize() > 8) return false;
        DType word = to.itemsize() == 8 ? DType::U64 : to.itemsize() == 4 ? DType::U32 : DType::U8;
        return run_copy(make_view(to.storage_ref(), word, to.shape(), to.strides(), to.offset()),
                        make_view(from.storage_ref(), word, from.shape(), from.strides(), from.offset()));
    }
    if (!compute_type(from.dtype()) || !converts(from.dtype(), to.dtype())) return false;
    if (to.dtype() == from.dtype() && is_half(to.dtype()))
        return run_copy(make_view(to.storage_ref(), DType::U16, to.shape(), to.strides(), to.offset()),
                        make_view(from.storage_ref(), DType::U16, from.shape(), from.strides(), from.offset()));
    const Tensor* in[] = {&from};
    return launch("x", compute_dtype(from.dtype()), to, in, 1, 0, Numbers());
}

}  // namespace fb::gpu
