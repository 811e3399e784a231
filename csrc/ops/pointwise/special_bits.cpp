// Taking floats apart (frexp, ldexp) and comparing whole tensors (isclose, allclose, equal).
#include <cstring>

#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

// ---- mantissa and exponent
// -----------------------------------------------------------------------------------------------

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

OP("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)", FUNCTION | METHOD | OUT,
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
    const Tensor* operands[] = {&mantissa, &exponent, &x};
    LoopPlan plan;
    make_plan(plan, x.shape(), operands, 3);
    DType compute = compute_dtype(x.dtype());
    DType dtypes[] = {compute, DType::I32, compute};
    cpu::run_tiles(plan, dtypes, 2, compute == DType::F32 ? frexp_tile<float> : frexp_tile<double>, nullptr, 6);
    return std::vector<Tensor>{mantissa, exponent};
}

struct Ldexp {
    // In double, so that a power of two beyond float's range still meets a small mantissa.
    template <class T>
    static T f(T x, T e) {
        if constexpr (std::is_same_v<T, float>)
            return static_cast<float>(static_cast<double>(x) * std::exp2(static_cast<double>(e)));
        else {
            double half = std::trunc(e / 2);
            return x * std::exp2(half) * std::exp2(e - half);
        }
    }
};
struct LdexpComplex {
    template <class T>
    static T f(T x, T e) {
        return x * std::exp(e * typename T::value_type(0.693147180559945309417));
    }
};
OP("ldexp(Tensor input, Tensor other) -> Tensor", POINTWISE, R"(input * 2 ** other.

Args:
    input: the mantissas.
    other: the exponents.

Example:
    >>> fb.ldexp(fb.tensor([1.]), fb.tensor([1, 2, 3]))
    tensor([2., 4., 8.])
)") {
    static const Kernels kernels = [] {
        Kernels real = binary_kernels<Ldexp, F>(), complex = binary_kernels<LdexpComplex, C>();
        for (int i = 0; i < dtype_count; i++) {
            if (complex.by_dtype[i]) real.by_dtype[i] = complex.by_dtype[i];
        }
        return real;
    }();
    return binary(a, a.tensor(0), a.tensor(1), kernels, Result::Float, 10);
}

// ---- closeness
// -------------------------------------------------------------------------------------------------------------

struct Tolerance {
    double rtol, atol;
    bool equal_nan;
};

template <class T>
inline bool close(T x, T y, const Tolerance& t) {
    if (x == y) return true;
    if constexpr (std::is_integral_v<T>) {
        if constexpr (!std::is_same_v<T, bool>) {
            double distance = std::fabs(static_cast<double>(x) - static_cast<double>(y));
            return distance <= t.atol + std::fabs(t.rtol * static_cast<double>(y));
        } else return std::fabs(double(x) - double(y)) <= t.atol + t.rtol * double(y);
    } else {
        if (t.equal_nan && m::isnan(x) && m::isnan(y)) return true;
        using R = m::real_t<T>;
        R distance = std::abs(x - y);
        return m::isfinite(distance) && distance <= static_cast<R>(t.atol) + static_cast<R>(t.rtol) * std::abs(y);
    }
}

template <class T>
void close_tile(char** data, int64_t n, const void* context) {
    const Tolerance t = *static_cast<const Tolerance*>(context);
    bool* z = reinterpret_cast<bool*>(data[0]);
    using S = Stored<T>;
    const S *x = reinterpret_cast<const S*>(data[1]), *y = reinterpret_cast<const S*>(data[2]);
    for (int64_t i = 0; i < n; i++) z[i] = close(T(x[i]), T(y[i]), t);
}

Tensor is_close(Args& a, const Tensor& x, const Tensor& y, const Tolerance& t) {
    static const Kernels kernels = make_kernels<ALL>([]<class T>(TypeTag<T>) -> TileFn { return close_tile<T>; });
    if (x.dtype() != y.dtype())
        fail_value("the dtypes differ: ", x.dtype(), " did not match ", y.dtype(), "; convert one with to()");
    check(t.rtol >= 0, "rtol must be greater than or equal to zero, but got ", t.rtol);
    check(t.atol >= 0, "atol must be greater than or equal to zero, but got ", t.atol);
    DType compute = value_dtype(x.dtype());
    return launch(a, {x, y}, DType::Bool, DType::Bool, {compute, compute}, kernels[compute], &t, 4);
}
Tolerance tolerance(Args& a) { return {a.number(2), a.number(3), a.flag(4)}; }

// Whether every element of a bool tensor is set.
bool all_set(const Tensor& t) {
    Tensor flat = contiguous(t);
    const char* data = flat.data<char>();
    return flat.numel() == 0 || std::memchr(data, 0, static_cast<size_t>(flat.numel())) == nullptr;
}

OP("isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
   FUNCTION | METHOD,
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
