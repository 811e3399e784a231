// Random creation and in-place fills: argument checks; the device draws the numbers.
#include "ops/random/random.h"

#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "device/move.h"
#include "device/random.h"
#include "ops/order/reduce.h"
#include "ops/shape/create.h"
#include "ops/table/overlap.h"

namespace fb {

// Runs f on a contiguous tensor and copies the numbers to `t` if it is another one.
template <class F>
static Tensor random_fill(const Tensor& t, F&& f) {
    t.will_write();
    check(!may_overlap_itself(t), overlap_text);
    if (t.numel() == 0) return t;
    if (t.is_contiguous()) {
        f(t);
        return t;
    }
    Tensor flat = empty(t.shape(), t.dtype(), t.device());
    f(flat);
    device::moving(t).copy(t, flat);
    return t;
}

Tensor fill_uniform(const Tensor& t, double from, double to, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) { device::drawing(t).uniform(flat, from, to, generator); });
}
Tensor fill_normal(const Tensor& t, double mean, double std, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) { device::drawing(t).normal(flat, mean, std, generator); });
}
Tensor fill_integers(const Tensor& t, int64_t low, uint64_t span, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) { device::drawing(t).integers(flat, low, span, generator); });
}
Tensor fill_bernoulli(const Tensor& t, double p, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) { device::drawing(t).bernoulli(flat, p, generator); });
}
static Tensor fill_from_uniform(const Tensor& t, device::FromUniform which, double a, double b, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) { device::drawing(t).from_uniform(flat, which, a, b, generator); });
}
Tensor fill_exponential(const Tensor& t, double rate, Generator& generator) {
    return fill_from_uniform(t, device::FromUniform::Exponential, rate, 0, generator);
}

namespace {

constexpr double sqrt_half = 0.70710678118654752440;

void check_range(double from, double to, DType dtype) {
    check(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
    double most = dtype == DType::F64   ? std::numeric_limits<double>::max()
                  : dtype == DType::F16 ? 65504.0
                                        : double(std::numeric_limits<float>::max());
    check(std::abs(from) <= most && std::abs(to) <= most && to - from <= most, "uniform_ expects to-from <= ", most,
          ", the largest number of ", dtype, ", but found from=", from, " and to=", to);
}
Tensor normal_any(const Tensor& t, double mean, double std, Generator& generator) {
    check(std >= 0, "normal expects std >= 0.0, but found std ", std);
    if (is_complex(t.dtype())) {
        fill_normal(real_view(t), 0, std * sqrt_half, generator);
        if (mean == 0) return t;
        Tensor real = real_view(t), part = select(real, real.dim() - 1, 0);
        graph_ops.add_into(part, scalar_tensor(Scalar(mean), part.dtype()));
        return t;
    }
    check_floating(t);
    return fill_normal(t, mean, std, generator);
}
Tensor uniform_any(const Tensor& t, double from, double to, Generator& generator) {
    if (is_complex(t.dtype())) {
        fill_uniform(real_view(t), from, to, generator);
        return t;
    }
    check_floating(t);
    check_range(from, to, t.dtype());
    return fill_uniform(t, from, to, generator);
}

// Largest integer n such that 0 … n are all exact in the dtype.
int64_t exact_limit(DType dtype) {
    switch (dtype) {
        case DType::BF16:
            return 256;
        case DType::F16:
            return 2048;
        case DType::F32:
            return 1 << 24;
        case DType::F64:
            return int64_t(1) << 53;
        case DType::Bool:
            return 1;
        default: {
            int bits = itemsize(dtype) * 8 - (info(dtype).is_signed ? 1 : 0);
            return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t(1) << bits) - 1;
        }
    }
}
void check_integers(DType dtype, int64_t low, int64_t high) {
    check(low < high, "random_ expects 'from' to be less than 'to', but got from=", low, " >= to=", high);
    if (is_complex(dtype)) fail_type("is not defined for ", dtype);
    if (is_integral_or_bool(dtype)) {
        int64_t most = exact_limit(dtype), least = info(dtype).is_signed ? -most - 1 : 0;
        check(low >= least && low <= most, "from is out of bounds for ", dtype, ": got ", low, ", expected ", least,
              " to ", most);
        check(high - 1 >= least && high - 1 <= most, "to - 1 is out of bounds for ", dtype, ": got ", high - 1,
              ", expected ", least, " to ", most);
    } else if (is_half(dtype)) {
        double most = dtype == DType::F16 ? 65504.0 : double(std::numeric_limits<float>::max());
        check(std::abs(double(low)) <= most && std::abs(double(high - 1)) <= most,
              std::abs(double(low)) > most ? "from" : "to - 1", " is out of bounds for ", dtype,
              ": got the range from ", low, " to ", high);
    }
}
Tensor integers(const Tensor& t, int64_t low, int64_t high, Generator& generator) {
    check_integers(t.dtype(), low, high);
    return fill_integers(t, low, static_cast<uint64_t>(high) - static_cast<uint64_t>(low), generator);
}

DType floating_option(const Args& a, int i) {
    DType dtype = a.dtype_or_none(i).value_or(a.out ? a.out.dtype() : default_dtype());
    check(!a.out || dtype == a.out.dtype(), "dtype ", dtype, " does not match dtype of out parameter (",
          a.out ? a.out.dtype() : dtype, ")");
    if (is_integral_or_bool(dtype)) fail_type("needs a floating point or complex dtype, got ", dtype);
    return dtype;
}
Tensor creation_target(Args& a, const Dims& shape, DType dtype, std::optional<Device> device) {
    for (int64_t size : shape) check(size >= 0, "sizes must not be negative, got ", shape);
    if (a.out && a.out.dtype() == dtype) return output(a, shape, dtype, {});
    return empty(shape, dtype, device.value_or(default_device()));
}

}  // namespace

#define RANDOM_OPTIONS                                                                                               \
    "dtype? dtype=None, layout? layout=None, device? device=None, bool requires_grad=False, bool pin_memory=False) " \
    "-> Tensor"
// An empty tensor for LIKE_OPTIONS that begin at `first`.
static Tensor like(const Args& a, int first) {
    const Tensor& t = a.tensor(0);
    DType dtype = a.dtype_or_none(first + 1).value_or(t.dtype());
    MemoryFormat format = format_or(a, first + 5, MemoryFormat::Preserve);
    Device device = a.device_or_none(first + 3).value_or(t.device());
    return format == MemoryFormat::Preserve ? empty_like(t, dtype, device)
                                            : empty_format(t.shape(), dtype, device, format);
}
#define LIKE_OPTIONS                                                                                   \
    "*, Generator? generator=None, dtype? dtype=None, layout? layout=None, device? device=None, bool " \
    "requires_grad=False, memory_format? memory_format=None) -> Tensor"

OP("rand(*int[] size, *, Generator? generator=None, " RANDOM_OPTIONS, FUNCTION | OUT,
   R"(Tensor of uniform random numbers, 0 ≤ x < 1.

Args:
    size: the shape.
    generator: source of the random numbers; the default generator if not given.
    dtype: a floating point or complex dtype; the default dtype if not given.
    layout: strided.
    device: device of the tensor.
    requires_grad: whether gradients are recorded.
    pin_memory: page-locked memory, only with an accelerator.

Example:
    >>> fb.rand(2, 3).shape
    flambeau.Size([2, 3])
)") {
    return uniform_any(creation_target(a, a.dims(0), floating_option(a, 2), a.device_or_none(4)), 0, 1,
                       *a.generator(1));
}

OP("randn(*int[] size, *, Generator? generator=None, " RANDOM_OPTIONS, FUNCTION | OUT,
   R"(Tensor of standard normal random numbers.

Complex numbers have variance one, shared by real and imaginary part.

Args:
    size: the shape.
    generator: source of the random numbers; the default generator if not given.
    dtype: a floating point or complex dtype; the default dtype if not given.
    layout: strided.
    device: device of the tensor.
    requires_grad: whether gradients are recorded.
    pin_memory: page-locked memory, only with an accelerator.

Example:
    >>> fb.randn(2, 3).shape
    flambeau.Size([2, 3])
)") {
    return normal_any(creation_target(a, a.dims(0), floating_option(a, 2), a.device_or_none(4)), 0, 1, *a.generator(1));
}

OP("randint(int low, int high, int[] size, *, Generator? generator=None, " RANDOM_OPTIONS, FUNCTION | OUT,
   R"(Tensor of random integers, low ≤ x < high.

Args:
    low: smallest value; 0 if only ``high`` is given.
    high: one above the largest value.
    size: the shape.
    generator: source of the random numbers; the default generator if not given.
    dtype: int64 if not given.
    layout: strided.
    device: device of the tensor.
    requires_grad: whether gradients are recorded.
    pin_memory: page-locked memory, only with an accelerator.

Example:
    >>> fb.randint(7, 8, (3,))
    tensor([7, 7, 7])
)") {
    DType dtype = a.dtype_or_none(4).value_or(DType::I64);
    check_integers(dtype, a.integer(0), a.integer(1));
    return integers(creation_target(a, a.dims(2), dtype, a.device_or_none(6)), a.integer(0), a.integer(1),
                    *a.generator(3));
}
OP("randint(int high, int[] size, *, Generator? generator=None, " RANDOM_OPTIONS, FUNCTION | OUT, nullptr) {
    DType dtype = a.dtype_or_none(3).value_or(DType::I64);
    check_integers(dtype, 0, a.integer(0));
    return integers(creation_target(a, a.dims(1), dtype, a.device_or_none(5)), 0, a.integer(0), *a.generator(2));
}

OP("rand_like(Tensor input, " LIKE_OPTIONS, FUNCTION,
   R"(Uniform random numbers, 0 ≤ x < 1, in the shape of another tensor.

Args:
    input: its shape, dtype and device are taken.
    generator: source of the random numbers; the default generator if not given.
    dtype: another dtype.
    layout: strided.
    device: another device.
    requires_grad: whether gradients are recorded.
    memory_format: layout of the result.

Example:
    >>> fb.rand_like(fb.zeros(2, 3)).shape
    flambeau.Size([2, 3])
)") {
    DType dtype = a.dtype_or_none(2).value_or(a.tensor(0).dtype());
    if (is_integral_or_bool(dtype)) fail_type("needs a floating point or complex dtype, got ", dtype);
    return uniform_any(like(a, 1), 0, 1, *a.generator(1));
}

OP("randn_like(Tensor input, " LIKE_OPTIONS, FUNCTION, R"(Standard normal random numbers in the shape of another tensor.

Args:
    input: its shape, dtype and device are taken.
    generator: source of the random numbers; the default generator if not given.
    dtype: another dtype.
    layout: strided.
    device: another device.
    requires_grad: whether gradients are recorded.
    memory_format: layout of the result.

Example:
    >>> fb.randn_like(fb.zeros(2, 3)).shape
    flambeau.Size([2, 3])
)") {
    DType dtype = a.dtype_or_none(2).value_or(a.tensor(0).dtype());
    if (is_integral_or_bool(dtype)) fail_type("needs a floating point or complex dtype, got ", dtype);
    return normal_any(like(a, 1), 0, 1, *a.generator(1));
}

OP("randint_like(Tensor input, int low, int high, " LIKE_OPTIONS, FUNCTION,
   R"(Random integers, low ≤ x < high, in the shape of another tensor.

Args:
    input: its shape, dtype and device are taken.
    low: smallest value; 0 if only ``high`` is given.
    high: one above the largest value.
    generator: source of the random numbers; the default generator if not given.
    dtype: another dtype.
    layout: strided.
    device: another device.
    requires_grad: whether gradients are recorded.
    memory_format: layout of the result.

Example:
    >>> fb.randint_like(fb.zeros(3), 5, 6)
    tensor([5., 5., 5.])
)") {
    return integers(like(a, 3), a.integer(1), a.integer(2), *a.generator(3));
}
OP("randint_like(Tensor input, int high, " LIKE_OPTIONS, FUNCTION, nullptr) {
    return integers(like(a, 2), 0, a.integer(1), *a.generator(2));
}

OP("uniform_(Tensor input, float from=0, float to=1, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with uniform random numbers, from ≤ x < to.

Args:
    input: the tensor that is written to.
    from: lower bound.
    to: upper bound.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.zeros(3).uniform_(2, 2)
    tensor([2., 2., 2.])
)") {
    return uniform_any(a.tensor(0), a.number(1), a.number(2), *a.generator(3));
}

OP("normal_(Tensor input, float mean=0, float std=1, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with normal random numbers.

Args:
    input: the tensor that is written to.
    mean: their mean.
    std: their standard deviation.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.zeros(3).normal_(1, 0)
    tensor([1., 1., 1.])
)") {
    return normal_any(a.tensor(0), a.number(1), a.number(2), *a.generator(3));
}

OP("random_(Tensor input, *, Generator? generator=None) -> Tensor", METHOD, R"(Fills a tensor with random integers.

Without bounds they are as large as the dtype holds exactly: up to its maximum for integers, up to 2**24 for float32.

Args:
    input: the tensor that is written to.
    from: smallest value; 0 if only ``to`` is given.
    to: one above the largest value.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.zeros(3).random_(4, 5)
    tensor([4., 4., 4.])
)") {
    const Tensor& t = a.tensor(0);
    if (is_complex(t.dtype())) fail_type("is not defined for ", t.dtype());
    return fill_integers(t, 0, t.dtype() == DType::U64 ? 0 : static_cast<uint64_t>(exact_limit(t.dtype())) + 1,
                         *a.generator(1));
}
OP("random_(Tensor input, int from, int? to, *, Generator? generator=None) -> Tensor", METHOD, nullptr) {
    const Tensor& t = a.tensor(0);
    if (a.given(2)) return integers(t, a.integer(1), a.integer(2), *a.generator(3));
    if (is_complex(t.dtype())) fail_type("is not defined for ", t.dtype());
    int64_t low = a.integer(1), most = exact_limit(t.dtype());
    check(low <= most && (low >= 0 || info(t.dtype()).is_signed), "from is out of bounds for ", t.dtype(), ": got ",
          low);
    return fill_integers(t, low, static_cast<uint64_t>(most) - static_cast<uint64_t>(low) + 1, *a.generator(3));
}
OP("random_(Tensor input, int to, *, Generator? generator=None) -> Tensor", METHOD, nullptr) {
    return integers(a.tensor(0), 0, a.integer(1), *a.generator(2));
}

OP("exponential_(Tensor input, float lambd=1, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with exponentially distributed numbers.

Args:
    input: the tensor that is written to.
    lambd: the rate; the mean is its inverse.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> (fb.zeros(3).exponential_() > 0).all()
    tensor(True)
)") {
    check_floating(a.tensor(0));
    check(a.number(1) > 0, "exponential_ expects lambda > 0.0, but found lambda=", a.number(1));
    return fill_exponential(a.tensor(0), a.number(1), *a.generator(2));
}

OP("geometric_(Tensor input, float p, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with the number of trials up to the first success.

Args:
    input: the tensor that is written to.
    p: probability of success of one trial, between 0 and 1.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> (fb.zeros(3).geometric_(0.5) >= 1).all()
    tensor(True)
)") {
    double p = a.number(1);
    check(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
    if (is_complex(a.tensor(0).dtype()) || a.tensor(0).dtype() == DType::Bool)
        fail_type("is not defined for ", a.tensor(0).dtype());
    return fill_from_uniform(a.tensor(0), device::FromUniform::Geometric, p, 0, *a.generator(2));
}

OP("cauchy_(Tensor input, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with Cauchy distributed numbers.

Args:
    input: the tensor that is written to.
    median: centre of the distribution.
    sigma: half its width at half height, positive.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.zeros(3).cauchy_().shape
    flambeau.Size([3])
)") {
    double median = a.number(1), sigma = a.number(2);
    check_floating(a.tensor(0));
    check(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
    return fill_from_uniform(a.tensor(0), device::FromUniform::Cauchy, median, sigma, *a.generator(3));
}

OP("log_normal_(Tensor input, float mean=1, float std=2, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with numbers whose logarithm is normal.

Args:
    input: the tensor that is written to.
    mean: mean of the logarithm.
    std: standard deviation of the logarithm, positive.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> (fb.zeros(3).log_normal_() > 0).all()
    tensor(True)
)") {
    check_floating(a.tensor(0));
    check(a.number(2) > 0, "log_normal_ expects std > 0.0, but found std=", a.number(2));
    return random_fill(a.tensor(0), [&](const Tensor& target) {
        Tensor x = is_half(target.dtype()) ? empty(target.shape(), DType::F32, target.device()) : target;
        device::drawing(x).log_normal(x, a.number(1), a.number(2), *a.generator(3));
        if (!x.is_same(target)) device::moving(target).copy(target, x);
    });
}

}  // namespace fb
