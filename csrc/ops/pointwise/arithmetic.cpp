// Arithmetic with arguments: add and sub with alpha, div with a rounding mode, powers, where, clamp, lerp, addcmul.
#include <cmath>

#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

bool is_one(const Scalar& alpha) { return alpha.is_integral() && alpha.i == 1; }

// alpha * y in the dtype of the op; checks that alpha fits it.
Tensor scaled(const Tensor& x, const Tensor& y, const Scalar& alpha) {
    if (is_one(alpha)) return y;
    DType common = result_type({x, y});
    if (alpha.kind == Kind::Bool && common != DType::Bool)
        fail_type("Boolean alpha only supported for Boolean results, the operands are ", common);
    if (alpha.kind > Kind::Integral && kind(common) <= Kind::Integral)
        fail_type("For integral input tensors, argument alpha must not be a floating point number; the operands are ",
                  common);
    if (alpha.kind == Kind::Complex && !is_complex(common))
        fail_type("For non-complex input tensors, argument alpha must not be a complex number; the operands are ",
                  common);
    Args none;
    Tensor product = launch(none, formulas::mul, {y, scalar_tensor(alpha, compute_dtype(common))}, common, common);
    product.impl()->wrapped_number = y.is_wrapped_number();
    return product;
}

Tensor plus(Args& a) {
    if (is_one(a.scalar(2))) return binary(a, a.tensor(0), a.tensor(1), formulas::add);
    return binary(a, a.tensor(0), scaled(a.tensor(0), a.tensor(1), a.scalar(2)), formulas::add);
}
// Functions of arithmetic accept a number as first argument too: fb.add(1, x).
constexpr unsigned NUMBER_FIRST = FUNCTION | OUT | FREE;
OP("add(Tensor input, Operand other, *, Scalar alpha=1) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(input + alpha * other, with broadcasting.

Args:
    input: the first operand.
    other: the second operand.
    alpha: a number that other is multiplied with.

Example:
    >>> fb.add(fb.tensor([1, 2]), fb.tensor([10, 20]), alpha=2)
    tensor([21, 42])
)") {
    return plus(a);
}
OP("add(Operand input, Operand other, *, Scalar alpha=1) -> Tensor", NUMBER_FIRST | ELEMENTWISE) { return plus(a); }

Tensor subtract(Args& a, const Tensor& x, const Tensor& y, const Scalar& alpha) {
    if (x.dtype() == DType::Bool && y.dtype() == DType::Bool) {
        fail_type("subtraction is not supported for bool tensors; use bitwise_xor (^) or logical_not (~) instead");
    }
    if ((x.dtype() == DType::Bool && x.dim() > 0) || (y.dtype() == DType::Bool && !y.is_wrapped_number())) {
        fail_type("subtraction with a bool tensor is not supported; use bitwise_not (~) or convert it first");
    }
    if (is_one(alpha)) return binary(a, x, y, formulas::sub);
    return binary(a, x, scaled(x, y, alpha), formulas::sub);
}
OP("sub(Tensor input, Operand other, *, Scalar alpha=1) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(input - alpha * other, with broadcasting.

Args:
    input: the first operand.
    other: the second operand.
    alpha: a number that other is multiplied with.

Example:
    >>> fb.sub(fb.tensor([10, 20]), fb.tensor([1, 2]))
    tensor([ 9, 18])
)") {
    return subtract(a, a.tensor(0), a.tensor(1), a.scalar(2));
}
OP("sub(Operand input, Operand other, *, Scalar alpha=1) -> Tensor", NUMBER_FIRST | ELEMENTWISE) {
    return subtract(a, a.tensor(0), a.tensor(1), a.scalar(2));
}
OP_ALIAS("subtract", "sub");
OP("rsub(Tensor input, Operand other, *, Scalar alpha=1) -> Tensor", FUNCTION | METHOD | ELEMENTWISE,
   R"(other - alpha * input.

Args:
    input: the subtrahend.
    other: what it is taken from.
    alpha: a number that input is multiplied with.

Example:
    >>> fb.rsub(fb.tensor([1, 2]), 10)
    tensor([9, 8])
)") {
    return subtract(a, a.tensor(1), a.tensor(0), a.scalar(2));
}

Tensor divide(Args& a) {
    const Tensor &x = a.tensor(0), &y = a.tensor(1);
    if (!a.given(2)) return binary(a, x, y, formulas::true_divide);
    const std::string& mode = a.text(2);
    check(mode == "floor" || mode == "trunc", "rounding_mode must be None, 'trunc' or 'floor', got '", mode, "'");
    check_divisor(x, y);
    DType common = result_type({x, y});
    const Formula& cut = common == DType::F16    ? formulas::truncate_half
                         : common == DType::BF16 ? formulas::truncate_bfloat16
                                                 : formulas::truncate_divide;
    return binary(a, x, y, mode == "floor" ? formulas::floor_divide : cut);
}
OP("div(Tensor input, Operand other, *, str? rounding_mode=None) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(Quotient of two tensors, with broadcasting.

Args:
    input: the dividend.
    other: the divisor.
    rounding_mode: None for true division, 'trunc' towards zero, 'floor' downwards.

Example:
    >>> fb.div(fb.tensor([5., -5.]), 2, rounding_mode='floor')
    tensor([ 2., -3.])
)") {
    return divide(a);
}
OP("div(Operand input, Operand other, *, str? rounding_mode=None) -> Tensor", NUMBER_FIRST | ELEMENTWISE) {
    return divide(a);
}
OP_ALIAS("divide", "div");

// ---- powers ---------------------------------------------------------------------------------------------------------

Tensor power(Args& a, const Tensor& x, const Tensor& y) {
    if (y.is_wrapped_number() && !x.is_wrapped_number()) {
        Scalar e = fb::item(y);
        if (is_integral_or_bool(x.dtype()) && e.is_integral() && e.i < 0) {
            fail_value(
                "integers to negative integer powers are not allowed (Integers to negative integer powers are not "
                "allowed.); convert to a floating point dtype first");
        }
        bool stays = !is_complex(y.dtype()) &&
                     (is_floating(x.dtype()) || is_complex(x.dtype()) || (is_integral(x.dtype()) && e.is_integral()));
        if (stays && e.re == 2) return unary(a, x, formulas::square);
        if (stays && e.re == 3) return unary(a, x, formulas::cube);
        if (is_floating(x.dtype()) && e.kind == Kind::Floating && e.re == 0.5) return unary(a, x, formulas::sqrt);
        if (is_floating(x.dtype()) && !is_complex(y.dtype()) && e.re == -1) return unary(a, x, formulas::reciprocal);
    }
    return binary(a, x, y, formulas::pow);
}
OP("pow(Tensor input, Operand exponent) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(input to the power of exponent, with broadcasting.

Args:
    input: the base.
    exponent: the exponent.

Example:
    >>> fb.pow(fb.tensor([1., 2., 3.]), 2)
    tensor([1., 4., 9.])
)") {
    return power(a, a.tensor(0), a.tensor(1));
}
OP("pow(Operand input, Tensor exponent) -> Tensor", FUNCTION | OUT | ELEMENTWISE) {
    return power(a, a.tensor(0), a.tensor(1));
}

OP("square(Tensor input) -> Tensor", POINTWISE | FREE | ELEMENTWISE, R"(The square of each element.

Args:
    input: the tensor.

Example:
    >>> fb.square(fb.tensor([2, -3]))
    tensor([4, 9])
)") {
    const Tensor& x = a.tensor(0);
    if (x.dtype() != DType::Bool) return unary(a, x, formulas::square);
    return power(a, x, scalar_tensor(Scalar(int64_t(2)), DType::I64, true));  // int64, as bools to the power of 2
}

Tensor wide_power(Args& a) {
    DType wide = is_complex(a.tensor(0).dtype()) || is_complex(a.tensor(1).dtype()) ? DType::C128 : DType::F64;
    if (a.inplace && a.out.dtype() != wide)
        fail_type("the base given to float_power_ has dtype ", a.out.dtype(),
                  " but the operation's result requires dtype ", wide);
    return power(a, to_dtype(a.tensor(0), wide), to_dtype(a.tensor(1), wide));
}
OP("float_power(Tensor input, Operand exponent) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(input to the power of exponent, computed in double precision.

Args:
    input: the base.
    exponent: the exponent.

Example:
    >>> fb.float_power(fb.tensor([2]), -1)
    tensor([0.5000], dtype=flambeau.float64)
)") {
    return wide_power(a);
}
OP("float_power(Operand input, Tensor exponent) -> Tensor", FUNCTION | OUT | ELEMENTWISE) { return wide_power(a); }

// ---- three operands -------------------------------------------------------------------------------------------------

Tensor choose(Args& a, const Tensor& condition, const Tensor& x, const Tensor& y) {
    if (condition.dtype() != DType::Bool && condition.dtype() != DType::U8)
        fail_type("expected condition to be a bool tensor, got ", condition.dtype(), "; compare, say condition != 0");
    DType common = result_type({x, y});
    return launch(a, formulas::where, {condition, x, y}, common, common);
}
OP("where(Tensor condition, Operand input, Operand other) -> Tensor", FUNCTION | OUT,
   R"(Elements of input where condition is true, of other elsewhere; with condition alone, the indices of its nonzero elements.

Args:
    condition: a bool tensor.
    input: values where it is True.
    other: values where it is False.

Example:
    >>> fb.where(fb.tensor([True, False]), fb.tensor([1, 2]), 0)
    tensor([1, 0])
)") {
    return choose(a, a.tensor(0), a.tensor(1), a.tensor(2));
}
OP("where(Tensor input, Tensor condition, Operand other) -> Tensor", METHOD) {
    return choose(a, a.tensor(1), a.tensor(0), a.tensor(2));
}

bool is_bound(const Tensor& t) { return t.is_wrapped_number() && !is_complex(t.dtype()) && !std::isnan(item(t).re); }
Tensor clamped(Args& a, const Tensor& x, const Tensor& low, const Tensor& high) {
    check(low.defined() || high.defined(), "At least one of 'min' or 'max' must not be None");
    if (is_complex(x.dtype())) fail_type("clamp is not supported for complex tensors");
    if (low.defined() && high.defined()) {
        // Two numbers stay in registers; as operands they would be packed into tiles.
        if (is_floating(x.dtype()) && !x.is_wrapped_number() && is_bound(low) && is_bound(high)) {
            Numbers bounds(item(low).re, item(high).re);
            return unary(a, x, formulas::clamp_to_numbers, &bounds);
        }
        return ternary(a, x, low, high, formulas::clamp);
    }
    return low.defined() ? binary(a, x, low, formulas::maximum) : binary(a, x, high, formulas::minimum);
}
OP("clamp(Tensor input, Operand? min=None, Operand? max=None) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(Elements limited to the range from min to max.

Args:
    input: the tensor.
    min: lower limit, a number or tensor.
    max: upper limit, a number or tensor.

Example:
    >>> fb.clamp(fb.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
)") {
    return clamped(a, a.tensor(0), a.tensor_or_none(1), a.tensor_or_none(2));
}
OP_ALIAS("clip", "clamp");
OP("clamp_min(Tensor input, Operand min) -> Tensor", POINTWISE | FREE | ELEMENTWISE, R"(Elements not below min.

Args:
    input: the tensor.
    min: lower limit.

Example:
    >>> fb.clamp_min(fb.tensor([-1., 2.]), 0)
    tensor([0., 2.])
)") {
    return clamped(a, a.tensor(0), a.tensor(1), {});
}
OP("clamp_max(Tensor input, Operand max) -> Tensor", POINTWISE | FREE | ELEMENTWISE, R"(Elements not above max.

Args:
    input: the tensor.
    max: upper limit.

Example:
    >>> fb.clamp_max(fb.tensor([-1., 2.]), 0)
    tensor([-1.,  0.])
)") {
    return clamped(a, a.tensor(0), {}, a.tensor(1));
}

OP("lerp(Tensor input, Tensor end, Operand weight) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(Linear interpolation: input + weight * (end - input).

Args:
    input: the value at weight 0.
    end: the value at weight 1.
    weight: how far to go, a number or tensor.

Example:
    >>> fb.lerp(fb.tensor([0., 10.]), fb.tensor([1., 20.]), 0.5)
    tensor([ 0.5000, 15.0000])
)") {
    if (is_integral_or_bool(a.tensor(0).dtype()))
        fail(ErrorKind::NotImplemented, "not implemented for dtype ", a.tensor(0).dtype(),
             "; expected a floating point or complex tensor");
    if (a.tensor(0).dtype() != a.tensor(1).dtype())
        fail_type("expected dtype ", a.tensor(0).dtype(), " for end but got dtype ", a.tensor(1).dtype());
    const Tensor& w = a.tensor(2);
    if (w.dim() > 0 && w.dtype() != a.tensor(0).dtype())
        fail_type("expected dtype ", a.tensor(0).dtype(), " for weight but got dtype ", w.dtype());
    if (w.dim() == 0 && is_complex(w.dtype()) && !is_complex(a.tensor(0).dtype()))
        fail_type("value cannot be converted to ", a.tensor(0).dtype(), ": the weight is complex");
    return ternary(a, a.tensor(0), a.tensor(1), w, formulas::lerp);
}

Tensor addc(Args& a, const Formula& formula) {
    const Scalar& v = a.scalar(3);
    DType common = result_type({a.tensor(0), a.tensor(1), a.tensor(2)});
    if (v.kind > Kind::Integral && is_integral_or_bool(common))
        fail_type("for integer tensors, argument value must not be a floating point number, got ", v.re);
    if (!formula.takes(common))
        fail(ErrorKind::NotImplemented, "not implemented for dtype ", common, "; convert with to() first");
    Numbers numbers;
    numbers.value = {v.to<c128>(), v.is_integral() ? v.i : 0};
    return launch(a, formula, {a.tensor(0), a.tensor(1), a.tensor(2)}, common, common, &numbers);
}
OP("addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(input + value * tensor1 * tensor2.

Args:
    input: the tensor to add to.
    tensor1: first factor.
    tensor2: second factor.
    value: a number the product is multiplied with.

Example:
    >>> fb.addcmul(fb.ones(2), fb.tensor([1., 2.]), fb.tensor([3., 4.]), value=10)
    tensor([31., 81.])
)") {
    return addc(a, formulas::addcmul);
}
OP("addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", POINTWISE | FREE | ELEMENTWISE,
   R"(input + value * tensor1 / tensor2.

Args:
    input: the tensor to add to.
    tensor1: dividend.
    tensor2: divisor.
    value: a number the quotient is multiplied with.

Example:
    >>> fb.addcdiv(fb.ones(2), fb.tensor([1., 2.]), fb.tensor([2., 4.]))
    tensor([1.5000, 1.5000])
)") {
    if (is_integral_or_bool(result_type({a.tensor(0), a.tensor(1), a.tensor(2)}))) {
        fail_type(
            "Integer division with addcdiv is no longer supported; use addcdiv on floating point tensors, or (input + "
            "value * div(tensor1, tensor2, rounding_mode='trunc'))");
    }
    return addc(a, formulas::addcdiv);
}

}  // namespace
}  // namespace fb::ew
