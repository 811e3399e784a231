// Sampling with parameters from tensors: bernoulli, poisson, binomial, multinomial, and permutations.
#include "backend/cpu/random_sample.h"

#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cpu/philox.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// out[i] = f(stream of element i, parameter i …); every element has its own sequence.
template <class F>
void each_element(const Tensor& out, Generator& generator, F f) {
    int64_t n = out.numel();
    auto [seed, first] = generator.draw(static_cast<uint64_t>(n));
    double* to = out.data<double>();
    parallel_for(n, 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            PhiloxStream stream(seed, first + static_cast<uint64_t>(i));
            to[i] = f(stream, i);
        }
    });
}

double log_factorial(double k) { return std::lgamma(k + 1); }

// Multiplies uniform numbers for a small mean; transformed rejection (Hörmann's PTRS) for a large one.
double poisson_sample(PhiloxStream& stream, double mean) {
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
double binomial_small_p(PhiloxStream& stream, double n, double p) {
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

// hits[i] = 1 with probability p[i], using 24 bits for float, 53 for double. Returns whether all p were in [0, 1].
template <class T>
bool draw_hits(T* hits, const T* p, int64_t n, uint64_t seed, uint64_t counter) {
    constexpr int words = sizeof(T) / 4;
    constexpr int64_t group = philox_words / words;
    std::atomic<bool> good{true};
    parallel_for((n + group - 1) / group, 512, [&](int64_t begin, int64_t end) {
        alignas(64) uint32_t bits[philox_words];
        int bad = 0;
        for (int64_t g = begin; g < end; g++) {
            philox_group(seed, counter + static_cast<uint64_t>(g) * philox_lanes, bits);
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

// One row: indices drawn by their position in the cumulative sum of the weights.
void draw_with_replacement(const double* weights, int64_t n, int64_t* to, int64_t count, PhiloxStream& stream) {
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
void draw_without_replacement(const double* weights, int64_t n, int64_t* to, int64_t count, PhiloxStream& stream) {
    std::vector<std::pair<double, int64_t>> arrivals(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        double wait = -std::log(stream.uniform());
        arrivals[i] = {weights[i] > 0 ? wait / weights[i] : std::numeric_limits<double>::infinity(), i};
    }
    std::partial_sort(arrivals.begin(), arrivals.begin() + count, arrivals.end());
    for (int64_t s = 0; s < count; s++) to[s] = arrivals[s].second;
}

// Fisher–Yates; the bits come in groups of 32 64-bit numbers.
template <class T>
void shuffle(T* x, int64_t n, uint64_t seed, uint64_t counter) {
    std::iota(x, x + n, T(0));
    alignas(64) uint32_t words[philox_words];
    int at = 32;
    for (int64_t i = n - 1; i > 0; i--) {
        if (at == 32) {
            philox_group(seed, counter, words);
            counter += philox_lanes;
            at = 0;
        }
        uint64_t bits = uint64_t(words[at]) << 32 | words[32 + at];
        at++;
        int64_t j = static_cast<int64_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1)) >> 64);
        std::swap(x[i], x[j]);
    }
}

}  // namespace

void sample_hits(const Tensor& hits, const Tensor& odds, Generator& generator) {
    int64_t n = hits.numel();
    dispatch<float, double>(hits.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto [seed, first] = generator.draw(philox_counters(n, sizeof(T) / 4));
        bool good = draw_hits(hits.data<T>(), odds.data<T>(), n, seed, first);
        check(good, "probabilities must be from 0 to 1");
    });
}

void sample_poisson(const Tensor& out, const Tensor& mean, Generator& generator) {
    const double* m = mean.data<double>();
    for (int64_t i = 0; i < mean.numel(); i++)
        check(m[i] >= 0 && std::isfinite(m[i]), "the rate must be finite and not negative, got ", m[i]);
    each_element(out, generator, [=](PhiloxStream& stream, int64_t i) { return poisson_sample(stream, m[i]); });
}

void sample_binomial(const Tensor& out, const Tensor& count, const Tensor& prob, Generator& generator) {
    const double *n = count.data<double>(), *p = prob.data<double>();
    for (int64_t i = 0; i < out.numel(); i++) {
        check(n[i] >= 0 && std::isfinite(n[i]), "count must be finite and not negative, got ", n[i]);
        check(p[i] >= 0 && p[i] <= 1, "prob must be from 0 to 1, got ", p[i]);
    }
    each_element(out, generator, [=](PhiloxStream& stream, int64_t i) {
        double whole = std::floor(n[i]);
        return p[i] <= 0.5 ? binomial_small_p(stream, whole, p[i]) : whole - binomial_small_p(stream, whole, 1 - p[i]);
    });
}

void sample_multinomial(const Tensor& out, const Tensor& weights, int64_t rows, int64_t count, bool replacement,
                        Generator& generator) {
    int64_t n = weights.shape().back();
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
            PhiloxStream stream(seed, first + static_cast<uint64_t>(r));
            int64_t* to = out.data<int64_t>() + r * count;
            if (replacement) draw_with_replacement(w, n, to, count, stream);
            else draw_without_replacement(w, n, to, count, stream);
        }
    });
}

void permutation(const Tensor& out, Generator& generator) {
    auto [seed, first] = generator.draw(philox_counters(out.numel(), 2));
    if (out.dtype() == DType::I32) shuffle(out.data<int32_t>(), out.numel(), seed, first);
    else shuffle(out.data<int64_t>(), out.numel(), seed, first);
}

}  // namespace fb::cpu
