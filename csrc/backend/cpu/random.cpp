// Kernels of the random fills: 64 words of Philox bits at a time become elements.
#include "device/random.h"

#include <cmath>

#include "backend/cpu/loops.h"
#include "backend/cpu/philox.h"
#include "backend/cpu/random_sample.h"

namespace fb::cpu {
namespace {

// Uniform numbers in [from, from + range). 16-bit types are drawn as float32 and rounded: an interval that spans
// several exponents contains more values than a draw with the type's own bits would give.
template <class T>
void uniform_group(const uint32_t* __restrict words, T* __restrict to, double from, double range) {
    if constexpr (std::is_same_v<T, double>) {
        for (int i = 0; i < 32; i++) {
            uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
            to[i] = from + range * (static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53);
        }
    } else {
        float start = static_cast<float>(from), width = static_cast<float>(range) * 0x1p-24f;
        float end = static_cast<float>(from + range);
        for (int i = 0; i < 64; i++) {
            float x = start + width * static_cast<float>(static_cast<int32_t>(words[i] >> 8));
            // Rounding to 16 bits may reach the end.
            to[i] = std::is_same_v<T, float> || float(T(x)) < end ? T(x) : T(start);
        }
    }
}

// Box–Muller: the first half of the words gives radii, the second angles.
template <class T>
void normal_group(const uint32_t* __restrict words, T* __restrict to, double mean, double std) {
    if constexpr (std::is_same_v<T, double>) {
        for (int i = 0; i < 16; i++) {
            uint64_t a = uint64_t(words[i]) << 32 | words[16 + i], b = uint64_t(words[32 + i]) << 32 | words[48 + i];
            double radius = std::sqrt(-2 * log_positive((static_cast<double>(static_cast<int64_t>(a >> 11)) + 0.5) *
                                                        0x1p-53)) *
                            std,
                   c, s;
            turn(static_cast<double>(static_cast<int64_t>(b >> 11)) * 0x1p-53, c, s);
            to[i] = mean + radius * c;
            to[16 + i] = mean + radius * s;
        }
    } else {
        float center = static_cast<float>(mean), width = static_cast<float>(std);
        alignas(64) float x[32], y[32];
#pragma omp simd
        for (int i = 0; i < 32; i++) {
            // 2⁻³² … 1: the tail reaches 6.6 standard deviations.
            float u = (static_cast<float>(static_cast<int32_t>(words[i] >> 1)) + 0.5f) * 0x1p-31f;
            float radius = std::sqrt(-2 * log_positive(u)) * width, c, s;
            turn(static_cast<float>(static_cast<int32_t>(words[32 + i] >> 8)) * 0x1p-24f, c, s);
            x[i] = center + radius * c;
            y[i] = center + radius * s;
        }
        for (int i = 0; i < 32; i++) {
            to[i] = T(x[i]);
            to[32 + i] = T(y[i]);
        }
    }
}

template <class T>
constexpr int words_of() {
    return std::is_same_v<T, double> ? 2 : 1;
}

// x = f(u) with u uniform in (0, 1): 23 bits for float, 52 for double; half types compute in float, integers in double.
template <class F>
void transform_uniform(const Tensor& target, Generator& generator, F f) {
    DType compute = is_half(target.dtype()) ? DType::F32 : is_floating(target.dtype()) ? target.dtype() : DType::F64;
    Tensor flat = target.dtype() == compute ? target : empty(target.shape(), compute, target.device());
    bool wide = compute == DType::F64;
    auto [seed, first] = generator.draw(philox_counters(flat.numel(), wide ? 2 : 1));
    if (wide) {
        philox_fill<2>(flat.data<double>(), flat.numel(), seed, first,
                       [=](const uint32_t* __restrict words, double* __restrict at) {
                           for (int i = 0; i < 32; i++) {
                               uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
                               at[i] = f((static_cast<double>(static_cast<int64_t>(bits >> 12)) + 0.5) * 0x1p-52);
                           }
                       });
    } else {
        philox_fill<1>(flat.data<float>(), flat.numel(), seed, first,
                       [=](const uint32_t* __restrict words, float* __restrict at) {
                           for (int i = 0; i < 64; i++)
                               at[i] = f((static_cast<float>(static_cast<int32_t>(words[i] >> 9)) + 0.5f) * 0x1p-23f);
                       });
    }
    if (!flat.is_same(target)) copy(target, flat);
}

void uniform(const Tensor& flat, double from, double to, Generator& generator) {
    dispatch_floating(flat.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto [seed, first] = generator.draw(philox_counters(flat.numel(), words_of<T>()));
        philox_fill<words_of<T>()>(flat.data<T>(), flat.numel(), seed, first,
                                   [=](const uint32_t* words, T* at) { uniform_group(words, at, from, to - from); });
    });
}

void normal(const Tensor& flat, double mean, double std, Generator& generator) {
    dispatch_floating(flat.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto [seed, first] = generator.draw(philox_counters(flat.numel(), words_of<T>()));
        philox_fill<words_of<T>()>(flat.data<T>(), flat.numel(), seed, first,
                                   [=](const uint32_t* words, T* at) { normal_group(words, at, mean, std); });
    });
}

void from_uniform(const Tensor& flat, device::FromUniform which, double a, double b, Generator& generator) {
    switch (which) {
        case device::FromUniform::Exponential:
            return transform_uniform(flat, generator, [=](auto u) {
                using T = decltype(u);
                return -log_positive(u) * T(1 / a);
            });
        case device::FromUniform::Geometric: {
            double scale = 1 / std::log1p(-a);
            return transform_uniform(flat, generator, [=](auto u) {
                using T = decltype(u);
                return std::max(T(1), std::ceil(log_positive(u) * T(scale)));
            });
        }
        case device::FromUniform::Cauchy:
            return transform_uniform(flat, generator, [=](auto u) {
                using T = decltype(u);
                return T(a) + T(b) * std::tan(T(3.14159265358979323846) * (u - T(0.5)));
            });
    }
}

void log_normal(const Tensor& flat, double mean, double std, Generator& generator) {
    normal(flat, mean, std, generator);
    dispatch<float, double>(flat.dtype(), "a floating point dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* data = flat.data<T>();
        for (int64_t i = 0; i < flat.numel(); i++) data[i] = std::exp(data[i]);
    });
}

void bernoulli(const Tensor& flat, double p, Generator& generator) {
    // Compared with 32 bits; a probability of one needs a limit beyond them.
    uint64_t limit = static_cast<uint64_t>(std::ceil(p * 0x1p32));
    auto [seed, first] = generator.draw(philox_counters(flat.numel(), 1));
    dispatch_all(flat.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T yes = convert<T>(1), no = convert<T>(0);
        philox_fill<1>(flat.data<T>(), flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
            for (int i = 0; i < 64; i++) at[i] = words[i] < limit ? yes : no;
        });
    });
}

void integers(const Tensor& flat, int64_t low, uint64_t span, Generator& generator) {
    bool narrow = span != 0 && span <= 65536;  // wider ranges take 64 bits, so that the bias is negligible
    auto [seed, first] = generator.draw(philox_counters(flat.numel(), narrow ? 1 : 2));
    dispatch_real(flat.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* data = flat.data<T>();
        if (narrow) {
            uint32_t width = static_cast<uint32_t>(span);
            philox_fill<1>(data, flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
                for (int i = 0; i < 64; i++)
                    at[i] = convert<T>(
                        static_cast<int64_t>(low + static_cast<int64_t>((uint64_t(words[i]) * width) >> 32)));
            });
        } else {
            philox_fill<2>(data, flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
                for (int i = 0; i < 32; i++) {
                    uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
                    uint64_t offset =
                        span ? static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * span) >> 64) : bits;
                    at[i] = convert<T>(static_cast<int64_t>(static_cast<uint64_t>(low) + offset));
                }
            });
        }
    });
}

void normal_around(const Tensor& z, const Tensor& center, const Tensor& scale, Generator& generator) {
    dispatch_lapack(z.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using R = decltype(std::abs(T()));
        const R* s = scale.data<R>();
        for (int64_t i = 0; i < z.numel(); i++)
            check(s[i] >= 0, "normal expects all elements of std >= 0.0, but found std ", s[i]);
        Tensor parts = is_complex_type<T> ? empty({z.numel() * 2}, real_of(z.dtype()), cpu_device) : z;
        normal(parts, 0, is_complex_type<T> ? 0.70710678118654752440 : 1.0, generator);
        const T *m = center.data<T>(), *x = reinterpret_cast<const T*>(parts.raw());
        T* to = z.data<T>();
        for (int64_t i = 0; i < z.numel(); i++) to[i] = m[i] + s[i] * x[i];
    });
}

const device::Provide<device::Drawing> provided(DeviceType::CPU, {.uniform = uniform,
                                                                  .normal = normal,
                                                                  .integers = integers,
                                                                  .bernoulli = bernoulli,
                                                                  .from_uniform = from_uniform,
                                                                  .log_normal = log_normal,
                                                                  .hits = sample_hits,
                                                                  .normal_around = normal_around,
                                                                  .poisson = sample_poisson,
                                                                  .binomial = sample_binomial,
                                                                  .multinomial = sample_multinomial,
                                                                  .permutation = permutation,
                                                                  .gamma = sample_gamma,
                                                                  .dirichlet = sample_dirichlet,
                                                                  .gamma_slope = gamma_slopes,
                                                                  .dirichlet_slope = dirichlet_slopes});

}  // namespace
}  // namespace fb::cpu
