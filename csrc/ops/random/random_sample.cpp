// Sampling with parameters from tensors: bernoulli, normal, poisson, binomial, multinomial, and permutations.
#include "base/wording.h"
#include "device/random.h"
#include "ops/random/random.h"

namespace fb {
namespace {

// A contiguous copy of `t`, broadcast to a shape, in a compute dtype.
Tensor spread(const Tensor& t, const Dims& shape, DType dtype) { return contiguous(expand(to_dtype(t, dtype), shape)); }

Tensor bernoulli_tensor(const Tensor& target, const Tensor& p, Generator& generator) {
    if (!is_floating(p.dtype())) fail_type("the probabilities must be a floating point tensor, got ", p.dtype());
    DType compute = p.dtype() == DType::F64 ? DType::F64 : DType::F32;
    Tensor odds = spread(p, target.shape(), compute);
    bool direct = target.dtype() == compute && target.is_contiguous() && !share_memory(target, odds);
    Tensor hits = direct ? target : empty(target.shape(), compute, target.device());
    if (direct) target.will_write();
    if (hits.numel() == 0) return target;
    device::drawing(hits).hits(hits, odds, generator);
    if (!direct) copy_into(target, hits);
    return target;
}
Tensor bernoulli_number(const Tensor& target, double p, Generator& generator) {
    check(p >= 0 && p <= 1, "p must be from 0 to 1, got ", p);
    return fill_bernoulli(target, p, generator);
}

Tensor multinomial(const Tensor& input, int64_t count, bool replacement, Generator& generator) {
    check(is_floating(input.dtype()),
          "multinomial only supports floating-point dtypes for input, got: ", scalar_type(input.dtype()));
    check(input.dim() == 1 || input.dim() == 2, "prob_dist must be 1 or 2 dim: the weights have shape ", input.shape());
    int64_t n = input.shape().back(), rows = input.dim() == 2 ? input.shape()[0] : 1;
    check(count > 0, "cannot sample n_sample <= 0 samples, got num_samples=", count);
    check(replacement || count <= n,
          "cannot sample n_sample > prob_dist.size(-1) samples without replacement: got num_samples=", count, " of ",
          n);
    check(n > 0 || rows == 0, "cannot sample from no categories");
    check(n <= 1 << 24, "number of categories cannot exceed 2^24, got ", n);
    Tensor weights = contiguous(to_dtype(input, DType::F64));
    Tensor out = empty(input.dim() == 2 ? Dims{rows, count} : Dims{count}, DType::I64, input.device());
    if (rows) device::drawing(out).multinomial(out, weights, rows, count, replacement, generator);
    return out;
}

// mean + std * z with z standard normal; either of the two may be a number.
Tensor normal_of(const Tensor& mean, const Tensor& std, const Dims& shape, DType dtype, Device device,
                 Generator& generator) {
    DType wide = compute_dtype(dtype);
    Tensor z = empty(shape, wide, device);
    if (z.numel() == 0) return to_dtype(z, dtype);
    Tensor scale = spread(std, shape, real_of(wide)), center = spread(mean, shape, wide);
    device::drawing(z).normal_around(z, center, scale, generator);
    return to_dtype(z, dtype);
}

}  // namespace

OP("bernoulli(Tensor input, *, Generator? generator=None) -> Tensor", COMMON,
   R"(Zeros and ones, one with the probability that stands in the input.

Args:
    input: probabilities, or a tensor that gives shape and dtype if ``p`` is given.
    p: one probability for all elements.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.bernoulli(fb.tensor([0., 1., 1.]))
    tensor([0., 1., 1.])
)") {
    const Tensor& p = a.tensor(0);
    check_floating(p, "input");
    // out= may have any dtype: zero and one exist in all.
    if (a.out && share_memory(a.out, p)) return bernoulli_tensor(empty_like(p, p.dtype()), p, *a.generator(1));
    return bernoulli_tensor(a.out ? output(a, p.shape(), a.out.dtype(), {}) : empty_like(p, p.dtype()), p,
                            *a.generator(1));
}
OP("bernoulli(Tensor input, float p, *, Generator? generator=None) -> Tensor", FUNCTION | METHOD, nullptr) {
    return bernoulli_number(empty_like(a.tensor(0), a.tensor(0).dtype()), a.number(1), *a.generator(2));
}

OP("bernoulli_(Tensor input, Tensor p, *, Generator? generator=None) -> Tensor", METHOD,
   R"(Fills a tensor with zeros and ones.

Args:
    input: the tensor that is written to.
    p: probability of a one: a number, or a tensor that broadcasts.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.zeros(3).bernoulli_(1)
    tensor([1., 1., 1.])
)") {
    return bernoulli_tensor(a.tensor(0), a.tensor(1), *a.generator(2));
}
OP("bernoulli_(Tensor input, float p=0.5, *, Generator? generator=None) -> Tensor", METHOD, nullptr) {
    return bernoulli_number(a.tensor(0), a.number(1), *a.generator(2));
}

OP("normal(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", FUNCTION | OUT,
   R"(Normally distributed random numbers with given means and standard deviations.

Args:
    mean: the means: a tensor or a number.
    std: the standard deviations: a tensor or a number.
    size: the shape, when both are numbers.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.normal(fb.tensor([1., 2.]), 0.0)
    tensor([1., 2.])
)") {
    const Tensor &mean = a.tensor(0), &std = a.tensor(1);
    check(!is_complex(std.dtype()), "std must be real, got ", std.dtype());
    return normal_of(mean, std, broadcast_shapes(mean.shape(), std.shape()),
                     float_result(promote(mean.dtype(), std.dtype())), common_device({mean, std}), *a.generator(2));
}
OP("normal(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor", FUNCTION | OUT, nullptr) {
    const Tensor& mean = a.tensor(0);
    check(a.number(1) >= 0, "normal expects std >= 0.0, but found std ", a.number(1));
    return normal_of(mean, scalar_tensor(Scalar(a.number(1)), DType::F64), mean.shape(), float_result(mean.dtype()),
                     mean.device(), *a.generator(2));
}
OP("normal(float mean, Tensor std, *, Generator? generator=None) -> Tensor", FUNCTION | OUT, nullptr) {
    const Tensor& std = a.tensor(1);
    check(!is_complex(std.dtype()), "std must be real, got ", std.dtype());
    return normal_of(scalar_tensor(Scalar(a.number(0)), DType::F64), std, std.shape(), float_result(std.dtype()),
                     std.device(), *a.generator(2));
}
OP("normal(float mean, float std, int[] size, *, Generator? generator=None, dtype? dtype=None, layout? layout=None, "
   "device? device=None, "
   "bool requires_grad=False, bool pin_memory=False) -> Tensor",
   FUNCTION | OUT, nullptr) {
    check(a.number(1) >= 0, "normal expects std >= 0.0, but found std ", a.number(1));
    DType dtype = a.dtype_or_none(4).value_or(default_dtype());
    if (is_integral_or_bool(dtype)) fail_type("needs a floating point or complex dtype, got ", dtype);
    for (int64_t size : a.dims(2)) check(size >= 0, "sizes must not be negative, got ", a.dims(2));
    Device device = a.device_or_none(6).value_or(default_device());
    if (!is_complex(dtype))
        return fill_normal(empty(a.dims(2), dtype, device), a.number(0), a.number(1), *a.generator(3));
    return normal_of(scalar_tensor(Scalar(a.number(0)), DType::F64), scalar_tensor(Scalar(a.number(1)), DType::F64),
                     a.dims(2), dtype, device, *a.generator(3));
}

OP("poisson(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Poisson-distributed random numbers with given means.

Args:
    input: the means, not negative.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.poisson(fb.zeros(3))
    tensor([0., 0., 0.])
)") {
    const Tensor& input = a.tensor(0);
    check_floating(input, "input");
    Tensor mean = contiguous(to_dtype(input, DType::F64)), out = empty(input.shape(), DType::F64, input.device());
    if (out.numel()) device::drawing(out).poisson(out, mean, *a.generator(1));
    return to_dtype(out, input.dtype());
}

OP("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Binomially distributed numbers of successes.

Args:
    count: numbers of trials.
    prob: probabilities of success; shapes broadcast.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.binomial(fb.tensor([10., 20.]), fb.tensor([1., 0.]))
    tensor([10.,  0.])
)") {
    check_floating(a.tensor(0), "count");
    check(a.tensor(0).dtype() == a.tensor(1).dtype(), "count and prob must have the same dtype, got ",
          a.tensor(0).dtype(), " and ", a.tensor(1).dtype());
    Dims shape = broadcast_shapes(a.tensor(0).shape(), a.tensor(1).shape());
    Tensor count = spread(a.tensor(0), shape, DType::F64), prob = spread(a.tensor(1), shape, DType::F64),
           out = empty(shape, DType::F64, count.device());
    if (out.numel()) device::drawing(out).binomial(out, count, prob, *a.generator(2));
    return to_dtype(out, a.tensor(0).dtype());
}

OP("multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", COMMON,
   R"(Indices sampled with given weights.

Args:
    input: weights, not negative, of one distribution or of one per row; they need not sum to one.
    num_samples: number of indices per distribution.
    replacement: whether an index can be drawn again.
    generator: source of the random numbers; the default generator if not given.

Example:
    >>> fb.multinomial(fb.tensor([0., 3., 0.]), 2, replacement=True)
    tensor([1, 1])
)") {
    check(!a.out || a.out.dtype() == DType::I64,
          "multinomial expects Long tensor out, got: ", scalar_type(a.out ? a.out.dtype() : DType::I64));
    return multinomial(a.tensor(0), a.integer(1), a.flag(2), *a.generator(3));
}

OP("randperm(int n, *, Generator? generator=None, dtype? dtype=None, layout? layout=None, device? device=None, bool "
   "requires_grad=False, "
   "bool pin_memory=False) -> Tensor",
   FUNCTION | OUT, R"(The numbers 0 to n - 1 in random order.

Args:
    n: number of elements.
    generator: source of the random numbers; the default generator if not given.
    dtype: int64 if not given.
    layout: strided.
    device: device of the tensor.
    requires_grad: whether gradients are recorded.
    pin_memory: page-locked memory, only with an accelerator.

Example:
    >>> fb.randperm(4).sort().values
    tensor([0, 1, 2, 3])
)") {
    int64_t n = a.integer(0);
    DType dtype = a.dtype_or_none(2).value_or(a.out ? a.out.dtype() : DType::I64);
    check(n >= 0, "n must not be negative, got ", n);
    static constexpr int exact_bits[] = {1, 8, 16, 32, 63, 7, 15, 31, 63, 11, 8, 24, 53, 24, 53};  // by DType
    int bits = exact_bits[static_cast<int>(dtype)];
    check(bits >= 63 || n <= (int64_t(1) << bits) + (is_floating(dtype) ? 1 : 0), "n=", n, " is too large for ", dtype);
    bool small = n < (int64_t(1) << 31) && dtype != DType::I64;
    Tensor out = empty({n}, small ? DType::I32 : DType::I64, a.device_or_none(4).value_or(default_device()));
    device::drawing(out).permutation(out, *a.generator(1));
    return to_dtype(out, dtype);
}

}  // namespace fb
