// Regular sequences: arange, linspace, logspace, eye.
#include <cmath>

#include "base/wording.h"
#include "device/create.h"
#include "ops/shape/create.h"
#include "ops/table/elementwise.h"

namespace fb {
namespace {

// Where a sequence of n is written, in row-major order: directly into out= if it is contiguous. An out= of another
// shape with n elements keeps its shape.
Tensor sequence_output(Args& a, int64_t n, DType dtype, Device device) {
    if (!a.out) return empty({n}, dtype, device);
    Dims shape = a.out.numel() == n ? a.out.shape() : Dims{n};
    Tensor t = output(a, shape, dtype, {});
    return t.is_contiguous() ? t : empty(shape, dtype, device);
}

bool finite(const Scalar& s) { return s.is_integral() || (std::isfinite(s.re) && std::isfinite(s.im)); }

// The integer that a bound stands for in a 64-bit sequence; unsigned ones reach beyond int64.
__int128 whole(const Scalar& s, DType dtype) {
    if (s.is_integral()) return s.u ? static_cast<__int128>(static_cast<uint64_t>(s.i)) : s.i;
    if (dtype == DType::U64 && s.re >= 0) return s.to<uint64_t>();
    return s.to<int64_t>();
}

int64_t arange_count(const Scalar& start, const Scalar& end, const Scalar& step, DType dtype) {
    check(finite(start) && finite(end), "unsupported range: ", start.re, " -> ", end.re, "; expected finite numbers");
    check(finite(step), "step must be finite, got ", step.re);
    if (is_integral(dtype)) check(step.to<int64_t>() != 0, "step must be nonzero, got ", step.re, " for dtype ", dtype);
    check(step.re != 0, "step must be nonzero");
    bool up = step.re > 0;
    check(up ? end.re >= start.re : end.re <= start.re,
          "upper bound and lower bound inconsistent with step sign: start ", start.re, ", end ", end.re, ", step ",
          step.re);
    bool integral = start.is_integral() && end.is_integral() && step.is_integral();
    if (dtype == DType::I64 || (dtype == DType::U64 && integral)) {
        check(dtype == DType::U64 || !(start.u || end.u || step.u), "the bounds ", start.re, " and ", end.re,
              " do not fit int64; pass dtype=uint64");
        // In 128 bits neither the distance nor the rounding can overflow.
        __int128 distance = whole(end, dtype) - whole(start, dtype), by = whole(step, dtype);
        __int128 n = by > 0 ? (distance + by - 1) / by : (distance + by + 1) / by;
        check(n >= 0 && n <= (int64_t(1) << 59), "invalid size, possible overflow: the range has too many elements");
        return static_cast<int64_t>(n);
    }
    double n = std::ceil((end.re - start.re) / step.re);
    check(n >= 0 && n <= 576460752303423488.0, "invalid size, possible overflow: the range has ", n, " elements");
    return static_cast<int64_t>(n);
}

Tensor make_arange(Args& a, const Scalar& start, const Scalar& end, const Scalar& step, int first) {
    Options o = options(a, first);
    bool integral = start.is_integral() && end.is_integral() && step.is_integral();
    check(start.kind != Kind::Complex && end.kind != Kind::Complex && step.kind != Kind::Complex,
          "complex bounds have no order");
    DType dtype = dtype_or(a, o, integral ? DType::I64 : default_dtype());
    if (is_complex(dtype)) fail(ErrorKind::NotImplemented, "not available for dtype ", dtype);
    int64_t n = arange_count(start, end, step, dtype);
    Tensor t = sequence_output(a, n, dtype, o.device);
    bool integral_result = is_integral(dtype);
    device::creating(t).progression(
        t, {integral_result ? static_cast<uint64_t>(whole(start, dtype)) : 0,
            integral_result ? static_cast<uint64_t>(whole(step, dtype)) : 0, start.re, step.re});
    return t;
}

Scalar endpoint(const Args& a, int i, const char* name) {
    const Tensor& t = a.tensor(i);
    check(t.dim() == 0, "only supports 0-dimensional start and end tensors, but got ", name, " with ", t.dim(),
          " dimension(s)");
    return item(t);
}

Tensor make_linspace(Args& a, std::optional<double> base, int first) {
    Options o = options(a, first);
    Scalar start = endpoint(a, 0, "start"), end = endpoint(a, 1, "end");
    int64_t n = a.integer(2);
    check(n >= 0, "number of steps must be non-negative, got ", n);
    bool complex = start.kind == Kind::Complex || end.kind == Kind::Complex;
    DType natural = complex ? complex_of(default_dtype()) : default_dtype();
    DType dtype = dtype_or(a, o, natural);
    check(!complex || is_complex(dtype), base ? "torch.logspace" : "torch.linspace", "(): inferred dtype ", natural,
          " can't be safely cast to passed dtype ", dtype);
    Tensor t = sequence_output(a, n, dtype, o.device);
    if (n) device::creating(t).spaced(t, start, end, base ? &*base : nullptr);
    return t;
}

}  // namespace

Tensor arange(int64_t count, DType dtype, Device device) {
    Tensor t = empty({count}, dtype, device);
    device::creating(t).progression(t, {0, 1, 0, 1});
    return t;
}

OP("arange(Scalar end, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT,
   R"(Numbers from `start` up to but without `end`, `step` apart.

Args:
    start: the first number; 0 if only one number is given.
    end: the bound that is not reached.
    step: distance between consecutive elements; may be negative.
    dtype: element type; int64 if all three are integers, otherwise the default dtype.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.arange(4)
    tensor([0, 1, 2, 3])
    >>> fb.arange(1, 2, 0.5)
    tensor([1.0000, 1.5000])
)") {
    return make_arange(a, Scalar(0), a.scalar(0), Scalar(1), 1);
}

OP("arange(Scalar start, Scalar end, Scalar step=1, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT, nullptr) {
    return make_arange(a, a.scalar(0), a.scalar(1), a.scalar(2), 3);
}

OP("linspace(Operand start, Operand end, int steps, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT,
   R"(Evenly spaced numbers from `start` to `end`, both included.

Args:
    start: the first number (or a 0-d tensor).
    end: the last number (or a 0-d tensor).
    steps: number of elements.
    dtype: element type; the default dtype (or its complex counterpart) when not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
)") {
    return make_linspace(a, std::nullopt, 3);
}

OP("logspace(Operand start, Operand end, int steps, float base=10.0, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT,
   R"(Numbers spaced evenly on a logarithmic scale, from base**start to base**end.

Args:
    start: the first exponent (or a 0-d tensor).
    end: the last exponent (or a 0-d tensor).
    steps: number of elements.
    base: of the powers.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
)") {
    return make_linspace(a, a.number(3), 4);
}

static Tensor make_eye(Args& a, int64_t n, int64_t m, int first) {
    Options o = options(a, first);
    check(n >= 0, "n must be greater or equal to 0, got ", n);
    check(m >= 0, "m must be greater or equal to 0, got ", m);
    DType dtype = dtype_or(a, o, default_dtype());
    Tensor t = a.out ? output(a, {n, m}, dtype, {}) : empty({n, m}, dtype, o.device);
    fill(t, Scalar(0));
    if (int64_t k = std::min(n, m)) fill(view_of(t, {k}, {t.strides()[0] + t.strides()[1]}, t.offset()), Scalar(1));
    return t;
}

OP("eye(int n, int? m=None, *, " FB_OPTIONS ") -> Tensor", FUNCTION | OUT,
   R"(A matrix with ones on the diagonal and zeros elsewhere.

Args:
    n: number of rows.
    m: number of columns; n by default.
    dtype: element type; the default dtype if not given.
    layout: only strided.
    device: device of the tensor.
    pin_memory: page-locked memory, only with an accelerator.
    requires_grad: whether gradients are recorded.

Example:
    >>> fb.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
)") {
    return make_eye(a, a.integer(0), a.integer_or_none(1).value_or(a.integer(0)), 2);
}

OP("complex(Tensor real, Tensor imag) -> Tensor", FUNCTION | OUT | ELEMENTWISE,
   R"(A complex tensor from its real and imaginary parts.

Args:
    real: float16, float32 or float64.
    imag: of the same dtype; shapes broadcast.

Example:
    >>> fb.complex(fb.tensor([1.0, 2.0]), fb.tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
)") {
    const Tensor &re = a.tensor(0), &im = a.tensor(1);
    for (DType d : {re.dtype(), im.dtype()})
        check(d == DType::F16 || d == DType::F32 || d == DType::F64,
              "Expected both inputs to be Half, Float or Double tensors but got ", scalar_type(re.dtype()), " and ",
              scalar_type(im.dtype()));
    check(re.dtype() == im.dtype(), "Expected object of scalar type ", scalar_type(re.dtype()), " but got scalar type ",
          scalar_type(im.dtype()), " for second argument; convert one with .to(dtype)");
    Dims shape = broadcast_shapes(re.shape(), im.shape());
    DType dtype = complex_of(re.dtype());
    Tensor t = a.out ? output(a, shape, dtype, {}) : empty(shape, dtype, common_device({re, im}));
    check(t.dtype() == complex_of(re.dtype()), "Expected object of scalar type ", scalar_type(complex_of(re.dtype())),
          " but got scalar type ", scalar_type(t.dtype()), " for argument 'out'");
    Dims strides = t.strides();
    for (int64_t& s : strides) s *= 2;
    copy_into(make_view(t.storage_ref(), re.dtype(), t.shape(), strides, t.offset() * 2), re);
    copy_into(make_view(t.storage_ref(), re.dtype(), t.shape(), strides, t.offset() * 2 + 1), im);
    return t;
}

}  // namespace fb
