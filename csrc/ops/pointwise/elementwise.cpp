#include "ops/pointwise/elementwise.h"

#include "base/wording.h"

namespace fb::ew {

[[noreturn]] static void fail_kernel(DType d) {
    if (is_storage(d)) fail_storage(d);
    fail(ErrorKind::NotImplemented, "\"", current_op, "\" not implemented for '", scalar_type(d), "' (", d,
         "); convert with to() to a dtype it works on");
}
static const TileForms& kernel_for(const Kernels& kernels, DType compute, DType shown) {
    const TileForms& fn = kernels[compute];
    if (!fn) [[unlikely]]
        fail_kernel(shown);
    return fn;
}

Tensor launch(Args& a, Tensors inputs, DType out_dtype, DType out_compute, std::initializer_list<DType> compute,
              const TileForms& fn, const void* context, double cost) {
    if (!fn) [[unlikely]]
        fail_kernel((*inputs.begin())->dtype());
    int n = static_cast<int>(inputs.size());
    const Tensor* in[max_operands] = {};
    for (int i = 0; i < n; i++) in[i] = &static_cast<const Tensor&>(inputs.begin()[i]);
    const Dims* shape = &in[0]->shape();
    Dims broadcast;
    for (int i = 1; i < n; i++) {
        if (in[i]->shape() == *shape) continue;
        broadcast = broadcast_shapes(*shape, in[i]->shape());
        shape = &broadcast;
    }
    Tensor out = output(a, *shape, out_dtype, inputs);

    // Small, plain and equal: no plan needed.
    bool plain = out.numel() <= parallel_grain && out.is_contiguous() && out.dtype() == out_compute;
    DType dtypes[max_operands] = {out_compute};
    for (int i = 0; i < n; i++) {
        dtypes[i + 1] = compute.begin()[i];
        plain &= in[i]->is_contiguous() && in[i]->dtype() == dtypes[i + 1] && in[i]->numel() == out.numel();
    }
    if (plain && static_cast<double>(out.numel()) * cost <= static_cast<double>(parallel_grain)) {
        char* data[max_operands] = {out.raw()};
        for (int i = 0; i < n; i++) data[i + 1] = in[i]->raw();
        if (out.numel()) fn.plain(data, out.numel(), context);
        return out;
    }
    const Tensor* operands[max_operands] = {&out};
    for (int i = 0; i < n; i++) operands[i + 1] = in[i];
    LoopPlan plan;
    make_plan(plan, out.shape(), operands, n + 1);
    cpu::run_tiles(plan, dtypes, 1, fn, context, cost);
    return out;
}

static void result_dtypes(DType common, Result result, const Kernels& kernels, DType& compute, DType& out,
                          DType& out_compute) {
    if (result == Result::Float || result == Result::FloatReal) common = float_result(common);
    compute = kernels.float8 ? value_dtype(common) : compute_dtype(common);
    switch (result) {
        case Result::Bool:
            out = out_compute = DType::Bool;
            break;
        case Result::Real:
        case Result::FloatReal:
            out = real_of(common);
            out_compute = real_of(compute);
            break;
        default:
            out = common;
            out_compute = compute;
    }
}

Tensor unary(Args& a, const Tensor& x, const Kernels& kernels, Result result, double cost, const void* context) {
    DType compute, out, out_compute;
    result_dtypes(x.dtype(), result, kernels, compute, out, out_compute);
    if (a.inplace && result == Result::Real && is_complex(x.dtype()))
        fail_type("In-place abs is not supported for complex tensors. The result is real");
    return launch(a, {x}, out, out_compute, {compute}, kernel_for(kernels, compute, x.dtype()), context, cost);
}

Tensor binary(Args& a, const Tensor& x, const Tensor& y, const Kernels& kernels, Result result, double cost) {
    DType common =
        x.dtype() == y.dtype() && !x.is_wrapped_number() && !y.is_wrapped_number() ? x.dtype() : result_type({x, y});
    // Of a number, halves would keep too few digits.
    if (is_half(common) && x.dtype() == common && y.dtype() == common && kernels[common] && !x.is_wrapped_number() &&
        !y.is_wrapped_number())
        return launch(a, {x, y}, common, common, {common, common}, kernels[common], nullptr, cost);
    // A comparison rounds its number to the tensor's dtype: tensor(1.001, float16) == 1.001 holds.
    if (result == Result::Bool && is_half(common) && x.is_wrapped_number() != y.is_wrapped_number())
        return x.is_wrapped_number() ? binary(a, to_dtype(x, common), y, kernels, result, cost)
                                     : binary(a, x, to_dtype(y, common), kernels, result, cost);
    DType compute, out, out_compute;
    result_dtypes(common, result, kernels, compute, out, out_compute);
    return launch(a, {x, y}, out, out_compute, {compute, compute}, kernel_for(kernels, compute, common), nullptr, cost);
}

Tensor ternary(Args& a, const Tensor& x, const Tensor& y, const Tensor& z, const Kernels& kernels, double cost) {
    DType common = result_type({x, y, z});
    DType compute = compute_dtype(common);
    return launch(a, {x, y, z}, common, compute, {compute, compute, compute}, kernel_for(kernels, compute, common),
                  nullptr, cost);
}

void check_divisor(const Tensor& x, const Tensor& y) {
    if (!is_integral_or_bool(x.dtype()) || !is_integral_or_bool(y.dtype())) return;
    Tensor flat = contiguous(y);
    bool zero = dispatch_size(y.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_integral_v<T>) {
            const T* p = flat.data<T>();
            bool found = false;
            for (int64_t i = 0; i < flat.numel(); i++) found |= p[i] == 0;
            return found;
        } else return false;
    });
    if (zero)
        fail_state("integer division by zero (ZeroDivisionError): the divisor of dtype ", y.dtype(),
                   " contains a zero");
}

Tensor unary(const Tensor& x, const Kernels& kernels, Result result) {
    Args none;
    return unary(none, x, kernels, result);
}

}  // namespace fb::ew
