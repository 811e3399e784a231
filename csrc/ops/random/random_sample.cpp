// Sampling with parameters from tensors: bernoulli, normal, poisson, binomial, multinomial, and permutations.
#include <atomic>
#include <cmath>
#include <numeric>

#include "base/wording.h"
#include "ops/random/random.h"
#include "ops/random/random_kernels.h"

namespace fb {
namespace {

// A contiguous copy of `t`, broadcast to a shape, in a computing dtype.
Tensor spread(const Tensor& t, const Dims& shape, DType dtype) { return contiguous(expand(to_dtype(t, dtype), shape)); }

// out[i] = f(stream of element i, parameter i …); every element has its own sequence.
template <class F>
void each_element(const Tensor& out, Generator& generator, F f) {
    int64_t n = out.numel();
    auto [seed, first] = generator.draw(static_cast<uint64_t>(n));
    double* to = out.data<double>();
    parallel_for(n, 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            cpu::PhiloxStream stream(seed, first + static_cast<uint64_t>(i));
            to[i] = f(stream, i);
        }
    });
}

double log_factorial(double k) { return std::lgamma(k + 1); }

// Multiplies uniform numbers for a small mean; transformed rejection (Hörmann's PTRS) for a large one.
double poisson_sample(cpu::PhiloxStream& stream, double mean) {
    if (mean <= 0) return 0;
    if (mean < 10) {
        double limit = std::exp(-mean), product = stream.uniform();
        int64_t k = 0;
        for (; product > limit; k++) product *= stream.uniform();
        return static_cast<double>(k);
    }
    double log_mean = std::log(mean), b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
    while (true) {
        double u = stream.uniform() - 0.5, v = stream.uniform(), us = 0.5 - std::abs(u);
        double k = std::floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
            -mean + k * log_mean - log_factorial(k))
            return k;
    }
}

// Waiting times for a small mean, transformed rejection (Hörmann's BTRS) for a large one; p is at most one half.
double binomial_small_p(cpu::PhiloxStream& stream, double n, double p) {
    if (p <= 0 || n <= 0) return 0;
    if (n * p < 10) {
        double scale = 1 / std::log1p(-p), at = 0;
        int64_t successes = -1;
        while (at <= n) {
            at += std::ceil(std::log(stream.uniform()) * scale);
            successes++;
        }
        return static_cast<double>(successes);
    }
    double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = n * p + 0.5, v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((n + 1) * p);
    double odds = std::log(p / (1 - p)), at_mode = log_factorial(mode) + log_factorial(n - mode);
    while (true) {
        double u = stream.uniform() - 0.5, v = stream.uniform(), us = 0.5 - std::abs(u);
        double k = std::floor((2 * a / us + b) * u + c);
        if (us >= 0.07 && v <= v_r) return k;
        if (k < 0 || k > n) continue;
        if (std::log(v * alpha / (a / (us * us) + b)) <=
            at_mode - log_factorial(k) - log_factorial(n - k) + (k - mode) * odds)
            return k;
    }
}

// hits[i] = 1 with probability p[i]; 24 bits decide for float, 53 for double. Says whether all p were from 0 to 1.
template <class T>
bool draw_hits(T* hits, const T* p, int64_t n, uint64_t seed, uint64_t counter) {
    constexpr int words = sizeof(T) / 4;
    constexpr int64_t group = cpu::philox_words / words;
    std::atomic<bool> good{true};
    parallel_for((n + group - 1) / group, 512, [&](int64_t begin, int64_t end) {
        alignas(64) uint32_t bits[cpu::philox_words];
        int bad = 0;
        for (int64_t g = begin; g < end; g++) {
            cpu::philox_group(seed, counter + static_cast<uint64_t>(g) * cpu::philox_lanes, bits);
            const T* odds = p + g * group;
            T* to = hits + g * group;
            int64_t count = std::min(group, n - g * group);
#pragma omp simd reduction(| : bad)
            for (int64_t i = 0; i < count; i++) {
                T u;
                if constexpr (words == 1) u = static_cast<T>(static_cast<int32_t>(bits[i] >> 8)) * T(0x1p-24);
                else
                    u = static_cast<T>(static_cast<int64_t>((uint64_t(bits[i]) << 32 | bits[32 + i]) >> 11)) *
                        T(0x1p-53);
                bad |= !(odds[i] >= 0 && odds[i] <= 1);
                to[i] = u < odds[i] ? T(1) : T(0);
            }
        }
        if (bad) good = false;
    });
    return good;
}

Tensor bernoulli_tensor(const Tensor& target, const Tensor& p, Generator& generator) {
    if (!is_floating(p.dtype())) fail_type("the probabilities must be a floating point tensor, got ", p.dtype());
    DType compute = p.dtype() == DType::F64 ? DType::F64 : DType::F32;
    Tensor odds = spread(p, target.shape(), compute);
    bool direct = target.dtype() == compute && target.is_contiguous() && !share_memory(target, odds);
    Tensor hits = direct ? target : empty(target.shape(), compute);
    if (direct) target.will_write();
    int64_t n = hits.numel();
    if (n == 0) return target;
    dispatch<float, double>(compute, "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto [seed, first] = generator.draw(cpu::philox_counters(n, sizeof(T) / 4));
        bool good = draw_hits(hits.data<T>(), odds.data<T>(), n, seed, first);
        check(good, "probabilities must be from 0 to 1");
    });
    if (!direct) copy_into(target, hits);
    return target;
}
Tensor bernoulli_number(const Tensor& target, double p, Generator& generator) {
    check(p >= 0 && p <= 1, "p must be from 0 to 1, got ", p);
    return fill_bernoulli(target, p, generator);
}

// One row: indices drawn by position on the running sum of the weights.
void draw_with_replacement(const double* weights, int64_t n, int64_t* to, int64_t count, cpu::PhiloxStream& stream) {
    std::vector<double> sums(static_cast<size_t>(n));
    std::partial_sum(weights, weights + n, sums.begin());
    for (int64_t s = 0; s < count; s++) {
        double x = stream.uniform() * sums.back();
        int64_t at = std::upper_bound(sums.begin(), sums.end(), x) - sums.begin();
        while (at >= n || weights[at] == 0) at--;  // rounding at the end must not pick an impossible index
        to[s] = at;
    }
}
// Exponential waiting times with the weights as rates: the first arrivals are the sample.
void draw_without_replacement(const double* weights, int64_t n, int64_t* to, int64_t count, cpu::PhiloxStream& stream) {
    std::vector<std::pair<double, int64_t>> arrivals(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        double wait = -std::log(stream.uniform());
        arrivals[i] = {weights[i] > 0 ? wait / weights[i] : std::numeric_limits<double>::infinity(), i};
    }
    std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
    for (int64_t s = 0; s < count; s++) to[s] = arrivals[s].second;
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
    Tensor out = empty(input.dim() == 2 ? Dims{rows, count} : Dims{count}, DType::I64);
    auto [seed, first] = generator.draw(static_cast<uint64_t>(rows));
    parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++) {
            const double* w = weights.data<double>() + r * n;
            double total = 0;
            for (int64_t i = 0; i < n; i++) {
                check(w[i] >= 0 && std::isfinite(w[i]),
                      "probability tensor contains either `inf`, `nan` or element < 0 (invalid multinomial "
                      "distribution): got ",
                      w[i]);
                total += w[i];
            }
            check(total > 0, "invalid multinomial distribution (sum of probabilities <= 0): the weights of row ", r,
                  " sum to zero");
            cpu::PhiloxStream stream(seed, first + static_cast<uint64_t>(r));
            int64_t* to = out.data<int64_t>() + r * count;
            if (replacement) draw_with_replacement(w, n, to, count, stream);
            else draw_without_replacement(w, n, to, count, stream);
        }
    });
    return out;
}

// Fisher–Yates; the bits come in groups of 32 64-bit numbers.
template <class T>
void shuffle(T* x, int64_t n, uint64_t seed, uint64_t counter) {
    std::iota(x, x + n, T(0));
    alignas(64) uint32_t words[cpu::philox_words];
    int at = 32;
    for (int64_t i = n - 1; i > 0; i--) {
        if (at == 32) {
            cpu::philox_group(seed, counter, words);
            counter += cpu::philox_lanes;
            at = 0;
        }
        uint64_t bits = uint64_t(words[at]) << 32 | words[32 + at];
        at++;
        int64_t j = static_cast<int64_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1)) >> 64);
        std::swap(x[i], x[j]);
    }
}

// mean + std * z with z standard normal; any of the two may be a number.
Tensor normal_of(const Tensor& mean, const Tensor& std, const Dims& shape, DType dtype, Generator& generator) {
    DType wide = compute_dtype(dtype);
    Tensor z = empty(shape, wide);
    if (z.numel() == 0) return to_dtype(z, dtype);
    Tensor scale = spread(std, shape, real_of(wide)), center = spread(mean, shape, wide);
    dispatch_lapack(wide, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = decltype(std::abs(T()));
        const R* s = scale.data<R>();
        for (int64_t i = 0; i < z.numel(); i++)
            check(s[i] >= 0, "normal expects all elements of std >= 0.0, but found std ", s[i]);
        Tensor parts = is_complex_type<T> ? empty({z.numel() * 2}, real_of(wide)) : z;
        fill_normal(parts, 0, is_complex_type<T> ? 0.70710678118654752440 : 1.0, generator);
        const T *m = center.data<T>(), *x = reinterpret_cast<const T*>(parts.raw());
        T* to = z.data<T>();
        for (int64_t i = 0; i < z.numel(); i++) to[i] = m[i] + s[i] * x[i];
    });
    return to_dtype(z, dtype);
}

}  // namespace

OP("bernoulli(Tensor input, *, Generator? generator=None) -> Tensor", COMMON,
   R"(Zeros and ones, one with the probability that stands in the input.

Args:
    input: probabilities, or a tensor that gives shape and dtype if ``p`` is given.
    p: one probability for all elements.
    generator: where the numbers come from; the default generator if not given.

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
    generator: where the numbers come from; the default generator if not given.

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
   R"(Normal random numbers with given means and standard deviations.

Args:
    mean: the means: a tensor or a number.
    std: the standard deviations: a tensor or a number.
    size: the shape, when both are numbers.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> fb.normal(fb.tensor([1., 2.]), 0.0)
    tensor([1., 2.])
)") {
    const Tensor &mean = a.tensor(0), &std = a.tensor(1);
    check(!is_complex(std.dtype()), "std must be real, got ", std.dtype());
    return normal_of(mean, std, broadcast_shapes(mean.shape(), std.shape()),
                     float_result(promote(mean.dtype(), std.dtype())), *a.generator(2));
}
OP("normal(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor", FUNCTION | OUT, nullptr) {
    const Tensor& mean = a.tensor(0);
    check(a.number(1) >= 0, "normal expects std >= 0.0, but found std ", a.number(1));
    return normal_of(mean, scalar_tensor(Scalar(a.number(1)), DType::F64), mean.shape(), float_result(mean.dtype()),
                     *a.generator(2));
}
OP("normal(float mean, Tensor std, *, Generator? generator=None) -> Tensor", FUNCTION | OUT, nullptr) {
    const Tensor& std = a.tensor(1);
    check(!is_complex(std.dtype()), "std must be real, got ", std.dtype());
    return normal_of(scalar_tensor(Scalar(a.number(0)), DType::F64), std, std.shape(), float_result(std.dtype()),
                     *a.generator(2));
}
OP("normal(float mean, float std, int[] size, *, Generator? generator=None, dtype? dtype=None, layout? layout=None, "
   "device? device=None, "
   "bool requires_grad=False, bool pin_memory=False) -> Tensor",
   FUNCTION | OUT, nullptr) {
    check(a.number(1) >= 0, "normal expects std >= 0.0, but found std ", a.number(1));
    DType dtype = a.dtype_or_none(4).value_or(default_dtype());
    if (is_integral_or_bool(dtype)) fail_type("needs a floating point or complex dtype, got ", dtype);
    for (int64_t size : a.dims(2)) check(size >= 0, "sizes must not be negative, got ", a.dims(2));
    if (!is_complex(dtype)) return fill_normal(empty(a.dims(2), dtype), a.number(0), a.number(1), *a.generator(3));
    return normal_of(scalar_tensor(Scalar(a.number(0)), DType::F64), scalar_tensor(Scalar(a.number(1)), DType::F64),
                     a.dims(2), dtype, *a.generator(3));
}

OP("poisson(Tensor input, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Poisson distributed numbers with given means.

Args:
    input: the means, not negative.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> fb.poisson(fb.zeros(3))
    tensor([0., 0., 0.])
)") {
    const Tensor& input = a.tensor(0);
    check_floating(input, "input");
    Tensor mean = contiguous(to_dtype(input, DType::F64)), out = empty(input.shape(), DType::F64);
    const double* m = mean.data<double>();
    for (int64_t i = 0; i < mean.numel(); i++)
        check(m[i] >= 0 && std::isfinite(m[i]), "the rate must be finite and not negative, got ", m[i]);
    each_element(out, *a.generator(1),
                 [=](cpu::PhiloxStream& stream, int64_t i) { return poisson_sample(stream, m[i]); });
    return to_dtype(out, input.dtype());
}

OP("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", FUNCTION,
   R"(Binomially distributed numbers of successes.

Args:
    count: numbers of trials.
    prob: probabilities of success; shapes broadcast.
    generator: where the numbers come from; the default generator if not given.

Example:
    >>> fb.binomial(fb.tensor([10., 20.]), fb.tensor([1., 0.]))
    tensor([10.,  0.])
)") {
    check_floating(a.tensor(0), "count");
    check(a.tensor(0).dtype() == a.tensor(1).dtype(), "count and prob must have the same dtype, got ",
          a.tensor(0).dtype(), " and ", a.tensor(1).dtype());
    Dims shape = broadcast_shapes(a.tensor(0).shape(), a.tensor(1).shape());
    Tensor count = spread(a.tensor(0), shape, DType::F64), prob = spread(a.tensor(1), shape, DType::F64),
           out = empty(shape, DType::F64);
    const double *n = count.data<double>(), *p = prob.data<double>();
    for (int64_t i = 0; i < out.numel(); i++) {
        check(n[i] >= 0 && std::isfinite(n[i]), "count must be finite and not negative, got ", n[i]);
        check(p[i] >= 0 && p[i] <= 1, "prob must be from 0 to 1, got ", p[i]);
    }
    each_element(out, *a.generator(2), [=](cpu::PhiloxStream& stream, int64_t i) {
        double whole = std::floor(n[i]);
        return p[i] <= 0.5 ? binomial_small_p(stream, whole, p[i]) : whole - binomial_small_p(stream, whole, 1 - p[i]);
    });
    return to_dtype(out, a.tensor(0).dtype());
}

OP("multinomial(Tensor input, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", COMMON,
   R"(Indices drawn with given weights.

Args:
    input: weights, not negative, of one distribution or of one per row; they need not sum to one.
    num_samples: how many indices per distribution.
    replacement: whether an index can be drawn again.
    generator: where the numbers come from; the default generator if not given.

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
    n: how many.
    generator: where the randomness comes from; the default generator if not given.
    dtype: int64 if not given.
    layout: strided.
    device: where the tensor lives.

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
    Generator& generator = *a.generator(1);
    auto [seed, first] = generator.draw(cpu::philox_counters(n, 2));
    if (n < (int64_t(1) << 31) && dtype != DType::I64) {
        Tensor small = empty({n}, DType::I32);
        shuffle(small.data<int32_t>(), n, seed, first);
        return to_dtype(small, dtype);
    }
    Tensor out = empty({n}, DType::I64);
    shuffle(out.data<int64_t>(), n, seed, first);
    return to_dtype(out, dtype);
}

}  // namespace fb
