// Kernels of the random fills: 64 words of Philox bits at a time become elements.
#include "ops/random/random.h"

#include "backend/cpu/loops.h"
#include "backend/cpu/philox.h"
#include "ops/random/random_kernels.h"

namespace fb {
namespace {

// Uniform numbers in [0, 1) with as many bits as the type holds, so that rounding never gives 1.
template <class T>
void uniform_group(const uint32_t* __restrict words, T* __restrict to, double from, double range) {
    if constexpr (std::is_same_v<T, double>) {
        for (int i = 0; i < 32; i++) {
            uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
            to[i] = from + range * (static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53);
        }
    } else {
        constexpr int shift = std::is_same_v<T, float> ? 8 : std::is_same_v<T, Half> ? 21 : 24;
        constexpr float scale = 1.0f / static_cast<float>(1u << (32 - shift));
        float start = static_cast<float>(from), width = static_cast<float>(range) * scale;
        for (int i = 0; i < 64; i++)
            to[i] = T(start + width * static_cast<float>(static_cast<int32_t>(words[i] >> shift)));
    }
}

// Box–Muller: the first half of the words gives radii, the second angles.
template <class T>
void normal_group(const uint32_t* __restrict words, T* __restrict to, double mean, double std) {
    if constexpr (std::is_same_v<T, double>) {
        for (int i = 0; i < 16; i++) {
            uint64_t a = uint64_t(words[i]) << 32 | words[16 + i], b = uint64_t(words[32 + i]) << 32 | words[48 + i];
            double radius = std::sqrt(-2 * cpu::log_positive(
                                               (static_cast<double>(static_cast<int64_t>(a >> 11)) + 0.5) * 0x1p-53)) *
                            std,
                   c, s;
            cpu::turn(static_cast<double>(static_cast<int64_t>(b >> 11)) * 0x1p-53, c, s);
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
            float radius = std::sqrt(-2 * cpu::log_positive(u)) * width, c, s;
            cpu::turn(static_cast<float>(static_cast<int32_t>(words[32 + i] >> 8)) * 0x1p-24f, c, s);
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

}  // namespace

Tensor fill_uniform(const Tensor& t, double from, double to, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) {
        dispatch_floating(flat.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            auto [seed, first] = generator.draw(cpu::philox_counters(flat.numel(), words_of<T>()));
            cpu::philox_fill<words_of<T>()>(
                flat.data<T>(), flat.numel(), seed, first,
                [=](const uint32_t* words, T* at) { uniform_group(words, at, from, to - from); });
        });
    });
}

Tensor fill_normal(const Tensor& t, double mean, double std, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) {
        dispatch_floating(flat.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            auto [seed, first] = generator.draw(cpu::philox_counters(flat.numel(), words_of<T>()));
            cpu::philox_fill<words_of<T>()>(flat.data<T>(), flat.numel(), seed, first,
                                            [=](const uint32_t* words, T* at) { normal_group(words, at, mean, std); });
        });
    });
}

Tensor fill_exponential(const Tensor& t, double rate, Generator& generator) {
    return fill_from_uniform(t, generator, [=](auto u) {
        using T = decltype(u);
        return -cpu::log_positive(u) * T(1 / rate);
    });
}

Tensor fill_bernoulli(const Tensor& t, double p, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) {
        // 32 bits decide; a probability of one needs one value more than they have.
        uint64_t limit = static_cast<uint64_t>(std::ceil(p * 0x1p32));
        auto [seed, first] = generator.draw(cpu::philox_counters(flat.numel(), 1));
        dispatch_all(flat.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            const T yes = convert<T>(1), no = convert<T>(0);
            cpu::philox_fill<1>(flat.data<T>(), flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
                for (int i = 0; i < 64; i++) at[i] = words[i] < limit ? yes : no;
            });
        });
    });
}

Tensor fill_integers(const Tensor& t, int64_t low, uint64_t span, Generator& generator) {
    return random_fill(t, [&](const Tensor& flat) {
        bool narrow = span != 0 && span <= 65536;  // wider ranges take 64 bits, so that no value is visibly favoured
        auto [seed, first] = generator.draw(cpu::philox_counters(flat.numel(), narrow ? 1 : 2));
        dispatch_real(flat.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            T* data = flat.data<T>();
            if (narrow) {
                uint32_t width = static_cast<uint32_t>(span);
                cpu::philox_fill<1>(data, flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
                    for (int i = 0; i < 64; i++)
                        at[i] = convert<T>(
                            static_cast<int64_t>(low + static_cast<int64_t>((uint64_t(words[i]) * width) >> 32)));
                });
            } else {
                cpu::philox_fill<2>(data, flat.numel(), seed, first, [=](const uint32_t* words, T* at) {
                    for (int i = 0; i < 32; i++) {
                        uint64_t bits = uint64_t(words[i]) << 32 | words[32 + i];
                        uint64_t offset =
                            span ? static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * span) >> 64) : bits;
                        at[i] = convert<T>(static_cast<int64_t>(static_cast<uint64_t>(low) + offset));
                    }
                });
            }
        });
    });
}

}  // namespace fb
