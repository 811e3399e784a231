// Unary elementwise ops: the rows of unary.def, and those with arguments.
#include <cmath>

#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

// Predicates and others whose result cannot replace x (isnan, signbit, angle) have no in-place form.
constexpr unsigned flags_of(formulas::Result result) {
    bool tells = result == formulas::Result::Bool || result == formulas::Result::FloatReal;
    return (tells ? COMMON : POINTWISE) | FREE | ELEMENTWISE;
}

#define UNARY(name, domain, result, cost, text, keeps, gradient, summary, example, shown)                             \
    Value call_##name(Args& a) { return unary(a, a.tensor(0), formulas::name); }                                      \
    const Register register_##name(#name "(Tensor input) -> Tensor", flags_of(formulas::Result::result), call_##name, \
                                   summary "\n\nArgs:\n    input: the tensor.\n\nExample:\n    >>> " example          \
                                           "\n    " shown "\n");
#include "device/formulas/unary.def"
#undef UNARY

const Register register_logical_not_("logical_not(Tensor input) -> Tensor", INPLACE | FREE | ELEMENTWISE,
                                     call_logical_not);

OP_ALIAS("arcsin", "asin");
OP_ALIAS("arccos", "acos");
OP_ALIAS("arctan", "atan");
OP_ALIAS("arcsinh", "asinh");
OP_ALIAS("arccosh", "acosh");
OP_ALIAS("arctanh", "atanh");
OP_ALIAS("absolute", "abs");
OP_ALIAS("negative", "neg");
OP_ALIAS("fix", "trunc");
OP_ALIAS("special.expit", "sigmoid");
OP_ALIAS("special.exp2", "exp2");
OP_ALIAS("special.expm1", "expm1");
OP_ALIAS("special.log1p", "log1p");
OP_ALIAS("special.erf", "erf");
OP_ALIAS("special.erfc", "erfc");

// ---- rows with arguments --------------------------------------------------------------------------------------------

OP("round(Tensor input, *, int decimals=0) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(Nearest integer, halves to the even one.

Args:
    input: the tensor.
    decimals: places after the decimal point to keep; negative ones round before it.

Example:
    >>> fb.round(fb.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
)") {
    int64_t decimals = a.integer(1);
    if (decimals == 0) return unary(a, a.tensor(0), formulas::round);
    if (is_integral_or_bool(a.tensor(0).dtype()))
        fail(ErrorKind::NotImplemented, "decimals other than 0 need a floating point tensor, got ",
             a.tensor(0).dtype());
    Numbers numbers(static_cast<double>(decimals));
    return unary(a, a.tensor(0), formulas::round_decimals, &numbers);
}
OP_ALIAS("special.round", "round");

OP("positive(Tensor input) -> Tensor", FUNCTION | METHOD | ELEMENTWISE, R"(The tensor itself; an error for bool.

Args:
    input: the tensor.

Example:
    >>> fb.positive(fb.tensor([1, -2]))
    tensor([ 1, -2])
)") {
    if (a.tensor(0).dtype() == DType::Bool) fail_type("the + operator is not supported on bool tensors");
    return a.tensor(0);
}

OP("conj(Tensor input) -> Tensor", FUNCTION | METHOD | ELEMENTWISE,
   R"(Complex conjugate; a real tensor is returned unchanged.

Args:
    input: the tensor.

Example:
    >>> fb.conj(fb.tensor([1 + 2j]))
    tensor([1.-2.j])
)") {
    if (!is_complex(a.tensor(0).dtype())) return a.tensor(0);
    return unary(a, a.tensor(0), formulas::conj);
}
OP("conj_physical(Tensor input) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(Complex conjugate; a real tensor is returned unchanged.

Args:
    input: the tensor.

Example:
    >>> fb.conj_physical(fb.tensor([1 + 2j]))
    tensor([1.-2.j])
)") {
    if (!is_complex(a.tensor(0).dtype())) return a.tensor(0);
    return unary(a, a.tensor(0), formulas::conj);
}

OP("nan_to_num(Tensor input, float? nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
   POINTWISE | ELEMENTWISE,
   R"(Replaces NaN and infinities by numbers.

Args:
    input: the tensor.
    nan: what NaN becomes.
    posinf: what +inf becomes; the largest finite number of the dtype by default.
    neginf: what -inf becomes; the lowest finite number of the dtype by default.

Example:
    >>> fb.nan_to_num(fb.tensor([fb.nan, 1., fb.inf]), posinf=9.)
    tensor([0., 1., 9.])
)") {
    const Tensor& x = a.tensor(0);
    if (is_integral_or_bool(x.dtype())) return clone(x);
    Numbers numbers(a.number_or_none(1).value_or(0.0), a.number_or_none(2).value_or(INFINITY),
                    a.number_or_none(3).value_or(-INFINITY));
    // Half types compute in float but must saturate at their own limits.
    double limit = x.dtype() == DType::F16 ? 65504.0 : x.dtype() == DType::BF16 ? 3.3895313892515355e38 : 0;
    if (limit != 0) {
        if (!a.given(2)) numbers.b = limit;
        if (!a.given(3)) numbers.c = -limit;
    }
    return unary(a, x, formulas::nan_to_num, &numbers);
}

OP("logit(Tensor input, float? eps=None) -> Tensor", POINTWISE | ELEMENTWISE,
   R"(The inverse of sigmoid: log(x / (1 - x)).

Args:
    input: the tensor, elements from 0 to 1.
    eps: clamps elements to [eps, 1 - eps] first.

Example:
    >>> fb.logit(fb.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
)") {
    Numbers numbers(a.number_or_none(1).value_or(-1.0));
    return unary(a, a.tensor(0), formulas::logit, &numbers);
}
OP_ALIAS("special.logit", "logit");

OP("sinc(Tensor input) -> Tensor", POINTWISE | ELEMENTWISE, R"(sin(pi x) / (pi x), and 1 at zero.

Args:
    input: the tensor.

Example:
    >>> fb.sinc(fb.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])
)") {
    return unary(a, a.tensor(0), formulas::sinc);
}
OP_ALIAS("special.sinc", "sinc");

}  // namespace
}  // namespace fb::ew
