// device::Looping: formulas over tensors, and the elementwise functions with two results.
#include "device/loop.h"

#include "backend/cpu/curves.h"
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
    // Small, plain and equal: no plan needed.
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

template <class T>
void frexp_tile(char** data, int64_t n, const void*) {
    T* mantissa = reinterpret_cast<T*>(data[0]);
    int32_t* exponent = reinterpret_cast<int32_t*>(data[1]);
    const T* x = reinterpret_cast<const T*>(data[2]);
    for (int64_t i = 0; i < n; i++) {
        int e = 0;
        mantissa[i] = std::frexp(x[i], &e);
        exponent[i] = std::isfinite(x[i]) ? e : 0;  // left open by C
    }
}

void frexp(const Tensor& mantissa, const Tensor& exponent, const Tensor& x) {
    const Tensor* operands[] = {&mantissa, &exponent, &x};
    LoopPlan plan;
    make_plan(plan, x.shape(), operands, 3);
    DType compute = compute_dtype(x.dtype());
    DType dtypes[] = {compute, DType::I32, compute};
    run_tiles(plan, dtypes, 2, compute == DType::F32 ? frexp_tile<float> : frexp_tile<double>, nullptr, 6);
}

// logsigmoid with its slope, sigmoid(-x): both are of exp(-|x|), and a graph that keeps the slope needs no exponential
// on its way back. The slope is a result like the other, so it has a gradient, too.
template <class T>
void logsigmoid_tile(char** data, int64_t n, const void*) {
    auto run = [](T* y, T* slope, const T* x, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            T e = curve::exp(-m::abs(x[i]));
            y[i] = m::where(x[i] < T(0), x[i], T(0)) - m::log1p(e);
            slope[i] = m::where(x[i] < T(0), T(1), e) / (T(1) + e);
        }
    };
    T *y = reinterpret_cast<T*>(data[0]), *slope = reinterpret_cast<T*>(data[1]);
    const T* x = reinterpret_cast<const T*>(data[2]);
    int64_t whole = n / block * block;
    run(y, slope, x, whole);
    if (whole == n) return;
    T tail[3][block] = {};  // Note [Tails]
    std::copy(x + whole, x + n, tail[2]);
    run(tail[0], tail[1], tail[2], block);
    std::copy(tail[0], tail[0] + (n - whole), y + whole);
    std::copy(tail[1], tail[1] + (n - whole), slope + whole);
}
void logsigmoid(const Tensor& y, const Tensor& slope, const Tensor& x) {
    const Tensor* operands[] = {&y, &slope, &x};
    LoopPlan plan;
    make_plan(plan, x.shape(), operands, 3);
    DType dtypes[] = {x.dtype(), x.dtype(), x.dtype()};
    run_tiles(plan, dtypes, 2, x.dtype() == DType::F32 ? logsigmoid_tile<float> : logsigmoid_tile<double>, nullptr, 10);
}

const device::Provide<device::Looping> provided(DeviceType::CPU,
                                                {.run = run, .frexp = frexp, .logsigmoid = logsigmoid});

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
