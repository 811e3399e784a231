// device::Looping: formulas over tensors.
#include "device/loop.h"

#include "backend/cpu/formula.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <int n>
void run_on(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in, const Numbers* numbers,
            double cost) {
    const Prepared& how = prepared_for(formula, common);
    TileForms fn = how.fn;
    DType compute = how.compute, result = how.result;
    if (how.native) [[unlikely]] {
        bool there = true;
        for (int i = 0; i < n; i++) there &= in[i]->dtype() == common;
        if (there) fn = how.native, compute = result = common;
    }
    DType dtypes[n + 1];
    dtypes[0] = result;
    // Small, contiguous and of one shape: no plan needed.
    const int64_t numel = out.numel();
    bool plain = numel <= parallel_grain && out.is_contiguous() && out.dtype() == result;
    for (int i = 0; i < n; i++) {
        dtypes[i + 1] = formula.conditions >> i & 1 ? DType::Bool : compute;
        plain &= in[i]->is_contiguous() && in[i]->dtype() == dtypes[i + 1] && in[i]->numel() == numel;
    }
    if (plain && static_cast<double>(numel) * cost <= static_cast<double>(parallel_grain)) {
        char* data[n + 1];
        data[0] = out.raw();
        for (int i = 0; i < n; i++) data[i + 1] = in[i]->raw();
        if (numel) fn.plain(data, numel, numbers);
        return;
    }
    const Tensor* operands[n + 1] = {&out};
    for (int i = 0; i < n; i++) operands[i + 1] = in[i];
    LoopPlan plan;
    make_plan(plan, out.shape(), operands, n + 1);
    run_tiles(plan, dtypes, 1, fn, numbers, cost);
}
void run(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in, const Numbers* numbers,
         double cost) {
    static constinit Numbers none;
    if (!numbers) numbers = &none;
    if (formula.inputs == 1) run_on<1>(formula, common, out, in, numbers, cost);
    else if (formula.inputs == 2) run_on<2>(formula, common, out, in, numbers, cost);
    else run_on<3>(formula, common, out, in, numbers, cost);
}

void run_pair(const Formula& formula, const Tensor& first, const Tensor& second, const Tensor& x) {
    const Tensor* operands[] = {&first, &second, &x};
    LoopPlan plan;
    make_plan(plan, x.shape(), operands, 3);
    const Prepared& how = prepared_for(formula, x.dtype());
    DType other = formula.second_result == formulas::Result::Int32 ? DType::I32 : how.compute;
    DType dtypes[] = {how.compute, other, how.compute};
    run_tiles(plan, dtypes, 2, how.fn, nullptr, formula.cost);
}

const device::Provide<device::Looping> provided(DeviceType::CPU, {.run = run, .run_pair = run_pair});

}  // namespace

static DType result_of(formulas::Result result, DType compute) {
    using formulas::Result;
    if (result == Result::Bool) return DType::Bool;
    return result == Result::Real || result == Result::FloatReal ? real_of(compute) : compute;
}

Compiled::Compiled(const Formula& formula, const Kernels& kernels) {
    for (int i = 0; i < dtype_count; i++) {
        DType d = static_cast<DType>(i), compute = formula.domain & formulas::E ? value_dtype(d) : compute_dtype(d);
        if (kernels[compute])
            prepared_for(formula, d) = {kernels[compute], nullptr, compute, result_of(formula.result, compute)};
    }
}

}  // namespace fb::cpu
