#include "ops/pointwise/elementwise.h"

#include "base/wording.h"
#include "device/loop.h"
#include "ops/order/reduce.h"
#include "tensor/plan.h"

namespace fb::ew {

using formulas::Result;

[[noreturn]] static void fail_domain(DType d) {
    if (is_storage(d)) fail_storage(d);
    fail(ErrorKind::NotImplemented, "\"", current_op, "\" not implemented for '", scalar_type(d), "' (", d,
         "); convert with to() to a dtype it works on");
}
void check_domain(const Formula& formula, DType d, DType shown) {
    if (!formula.takes(d)) [[unlikely]]
        fail_domain(shown);
}

template <int n>
static inline Tensor launch_on(Args& a, const Formula& formula, Tensors inputs, DType result, DType common,
                               const Numbers* numbers) {
    const Tensor* in[n];
    for (int i = 0; i < n; i++) in[i] = &static_cast<const Tensor&>(inputs.begin()[i]);
    const Dims* shape = &in[0]->shape();
    Dims broadcast;
    for (int i = 1; i < n; i++) {
        if (in[i]->shape() == *shape) continue;
        broadcast = broadcast_shapes(*shape, in[i]->shape());
        shape = &broadcast;
    }
    Tensor out = output(a, *shape, result, inputs);
    device::looping(out).run(formula, common, out, in, numbers, formula.cost);
    return out;
}

Tensor launch(Args& a, const Formula& formula, Tensors inputs, DType result, DType common, const Numbers* numbers) {
    if (inputs.size() == 1) return launch_on<1>(a, formula, inputs, result, common, numbers);
    if (inputs.size() == 2) return launch_on<2>(a, formula, inputs, result, common, numbers);
    return launch_on<3>(a, formula, inputs, result, common, numbers);
}

// The result dtype for operands of a common dtype, which becomes floating point if the formula requires it.
static DType result_dtype(const Formula& formula, DType& common) {
    switch (formula.result) {
        case Result::Same:
        case Result::Step:
            return common;
        case Result::Int32:
            return DType::I32;
        case Result::Bool:
            return DType::Bool;
        case Result::Float:
            return common = float_result(common);
        case Result::FloatReal:
            common = float_result(common);
            [[fallthrough]];
        case Result::Real:
            return real_of(common);
    }
    __builtin_unreachable();
}

Tensor unary(Args& a, const Tensor& x, const Formula& formula, const Numbers* numbers) {
    DType common = x.dtype(), result = result_dtype(formula, common);
    if (a.inplace && formula.result == Result::Real && is_complex(x.dtype()))
        fail_type("In-place abs is not supported for complex tensors. The result is real");
    check_domain(formula, common, x.dtype());
    return launch_on<1>(a, formula, {x}, result, common, numbers);
}

// Whether operands are converted to their common dtype first, unless they have it.
static bool converts(const Formula& formula, const Tensor& x, const Tensor& y, DType common) {
    if (x.dtype() == common && y.dtype() == common) return false;
    // A comparison rounds its number to the tensor's dtype: tensor(1.001, float16) == 1.001 holds.
    return formula.result == Result::Step ||
           (formula.result == Result::Bool && is_half(common) && x.is_wrapped_number() != y.is_wrapped_number());
}

Tensor binary(Args& a, const Tensor& x, const Tensor& y, const Formula& formula, const Numbers* numbers) {
    DType common = x.dtype();
    if (common != y.dtype() || x.is_wrapped_number() || y.is_wrapped_number()) {
        common = result_type({x, y});
        if (converts(formula, x, y, common)) [[unlikely]] {
            bool step = formula.result == Result::Step;
            return binary(a, step || x.is_wrapped_number() ? to_dtype(x, common) : x,
                          step || y.is_wrapped_number() ? to_dtype(y, common) : y, formula, numbers);
        }
    }
    DType result = result_dtype(formula, common);
    check_domain(formula, common, common);
    return launch_on<2>(a, formula, {x, y}, result, common, numbers);
}

Tensor ternary(Args& a, const Tensor& x, const Tensor& y, const Tensor& z, const Formula& formula) {
    DType common = result_type({x, y, z});
    check_domain(formula, common, common);
    return launch_on<3>(a, formula, {x, y, z}, common, common, nullptr);
}

void check_divisor(const Tensor& x, const Tensor& y) {
    if (!is_integral_or_bool(x.dtype()) || !is_integral_or_bool(y.dtype())) return;
    if (!has_values(y) || y.numel() == 0) return;
    bool zero = y.numel() == 1 ? item(y).i == 0 : item(all(y)).i == 0;
    if (zero)
        fail_state("integer division by zero (ZeroDivisionError): the divisor of dtype ", y.dtype(),
                   " contains a zero");
}

Tensor unary(const Tensor& x, const Formula& formula) {
    Args none;
    return unary(none, x, formula);
}

}  // namespace fb::ew
