// Decomposing floats (frexp, ldexp) and comparing whole tensors (isclose, allclose, equal).
#include "device/loop.h"
#include "ops/order/reduce.h"
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

// ---- mantissa and exponent ------------------------------------------------------------------------------------------

OP("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)", FUNCTION | METHOD | OUT | ELEMENTWISE,
   R"(Splits floats into mantissa and exponent: input = mantissa * 2 ** exponent.

Args:
    input: the tensor, of a floating point dtype.

Returns:
    mantissa in (-1, 1), and exponent as int32.

Example:
    >>> mantissa, exponent = fb.frexp(fb.tensor([6., 0.25]))
    >>> mantissa
    tensor([0.7500, 0.5000])
    >>> exponent
    tensor([ 3, -1], dtype=flambeau.int32)
)") {
    const Tensor& x = a.tensor(0);
    if (!is_floating(x.dtype()))
        fail_type("only supports floating-point dtypes, got ", x.dtype(), "; convert with .float()");
    Tensor mantissa = empty_like(x, x.dtype()), exponent = empty_like(x, DType::I32);
    device::looping(x).run_pair(formulas::frexp, mantissa, exponent, x);
    return std::vector<Tensor>{mantissa, exponent};
}

OP("ldexp(Tensor input, Tensor other) -> Tensor", POINTWISE | ELEMENTWISE, R"(input * 2 ** other.

Args:
    input: the mantissas.
    other: the exponents.

Example:
    >>> fb.ldexp(fb.tensor([1.]), fb.tensor([1, 2, 3]))
    tensor([2., 4., 8.])
)") {
    return binary(a, a.tensor(0), a.tensor(1), formulas::ldexp);
}

// ---- closeness ------------------------------------------------------------------------------------------------------

struct Tolerance {
    double rtol, atol;
    bool equal_nan;
};

Tensor is_close(Args& a, const Tensor& x, const Tensor& y, const Tolerance& t) {
    if (x.dtype() != y.dtype())
        fail_value("the dtypes differ: ", x.dtype(), " did not match ", y.dtype(), "; convert one with to()");
    check(t.rtol >= 0, "rtol must be greater than or equal to zero, but got ", t.rtol);
    check(t.atol >= 0, "atol must be greater than or equal to zero, but got ", t.atol);
    Numbers numbers{t.rtol, t.atol, t.equal_nan ? 1.0 : 0.0};
    return launch(a, formulas::isclose, {x, y}, DType::Bool, x.dtype(), &numbers);
}
Tolerance tolerance(Args& a) { return {a.number(2), a.number(3), a.flag(4)}; }

// Whether every element of a bool tensor is set.
bool all_set(const Tensor& t) { return t.numel() == 0 || item(all(t)).i != 0; }

OP("isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
   FUNCTION | METHOD | ELEMENTWISE,
   R"(True where |input - other| <= atol + rtol * |other|.

Args:
    input: the first tensor.
    other: the second tensor, of the same dtype.
    rtol: relative tolerance.
    atol: absolute tolerance.
    equal_nan: whether to treat two NaNs as close.

Example:
    >>> fb.isclose(fb.tensor([1., 2.]), fb.tensor([1.000001, 2.1]))
    tensor([ True, False])
)") {
    return is_close(a, a.tensor(0), a.tensor(1), tolerance(a));
}

OP("allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
   FUNCTION | METHOD,
   R"(Whether isclose() holds everywhere.

Args:
    input: the first tensor.
    other: the second tensor, of the same dtype.
    rtol: relative tolerance.
    atol: absolute tolerance.
    equal_nan: whether to treat two NaNs as close.

Example:
    >>> fb.allclose(fb.tensor([1., 2.]), fb.tensor([1.000001, 2.]))
    True
)") {
    return Scalar(all_set(is_close(a, a.tensor(0), a.tensor(1), tolerance(a))));
}

OP("equal(Tensor input, Tensor other) -> bool", FUNCTION | METHOD,
   R"(Whether two tensors have the same shape and elements.

Args:
    input: the first tensor.
    other: the second tensor.

Example:
    >>> fb.equal(fb.tensor([1, 2]), fb.tensor([1, 2]))
    True
)") {
    const Tensor &x = a.tensor(0), &y = a.tensor(1);
    if (x.shape() != y.shape()) return Scalar(false);
    static const Tolerance exact{0, 0, false};
    DType common = result_type({x, y});
    return Scalar(all_set(is_close(a, to_dtype(x, common), to_dtype(y, common), exact)));
}

}  // namespace
}  // namespace fb::ew
