// Philox 4x32-10: random bits as a pure function of (seed, counter). Sixteen counters are processed together, so one
// group is 64 words: word w of counter l is at 16 w + l.
#pragma once
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/parallel.h"

namespace fb::cpu {

inline constexpr int philox_lanes = 16, philox_words = 64;

// One 32-bit number per 64-bit lane, so that a product needs no shuffling; the upper halves are ignored.
#ifdef __AVX512F__
typedef uint64_t WordLanes __attribute__((vector_size(64)));
inline WordLanes multiply_words(WordLanes a, WordLanes b) {
    return (WordLanes)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}
#else
typedef uint64_t WordLanes __attribute__((vector_size(32)));
#ifdef __AVX2__
inline WordLanes multiply_words(WordLanes a, WordLanes b) {
    return (WordLanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
#else
inline WordLanes multiply_words(WordLanes a, WordLanes b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif
#endif

inline void philox_group(uint64_t seed, uint64_t counter, uint32_t* __restrict words) {
    constexpr int width = sizeof(WordLanes) / 8;
    constexpr uint64_t low = 0xffffffffu;
    const WordLanes factor0 = WordLanes{} + 0xD2511F53u, factor1 = WordLanes{} + 0xCD9E8D57u;
    WordLanes steps;
    for (int i = 0; i < width; i++) steps[i] = static_cast<uint64_t>(i);
    for (int lane = 0; lane < philox_lanes; lane += 2 * width) {
        WordLanes x[2][4];
        for (int h = 0; h < 2; h++) {
            WordLanes c = steps + (counter + static_cast<uint64_t>(lane + h * width));
            x[h][0] = c;
            x[h][1] = c >> 32;
            x[h][2] = x[h][3] = WordLanes{};
        }
        uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
        for (int round = 0; round < 10; round++) {
            for (int h = 0; h < 2; h++) {
                WordLanes a = multiply_words(x[h][0], factor0), b = multiply_words(x[h][2], factor1);
                x[h][0] = (b >> 32) ^ x[h][1] ^ k0;
                x[h][2] = (a >> 32) ^ x[h][3] ^ k1;
                x[h][1] = b;
                x[h][3] = a;
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int h = 0; h < 2; h++) {
            for (int w = 0; w < 4; w++) {
                WordLanes value = x[h][w] & low;
                typedef uint32_t Half __attribute__((vector_size(sizeof(WordLanes) / 2)));
                Half packed = __builtin_convertvector(value, Half);
                std::memcpy(words + 16 * w + lane + h * width, &packed, sizeof packed);
            }
        }
    }
}

// A separate sequence of numbers per element, for methods that need a varying count (rejection).
class PhiloxStream {
  public:
    PhiloxStream(uint64_t seed, uint64_t index) : seed_(seed), index_(index) {}
    uint32_t bits() {
        if (at_ == 4) {
            step();
            at_ = 0;
        }
        return words_[at_++];
    }
    // In (0, 1), 53 bits.
    double uniform() {
        uint64_t high = bits(), low = bits();
        return (static_cast<double>((high << 32 | low) >> 11) + 0.5) * 0x1p-53;
    }

  private:
    void step() {
        uint32_t x[4] = {static_cast<uint32_t>(index_), static_cast<uint32_t>(index_ >> 32), sub_++, 1};
        uint32_t k0 = static_cast<uint32_t>(seed_), k1 = static_cast<uint32_t>(seed_ >> 32);
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            uint64_t a = uint64_t(0xD2511F53u) * x[0], b = uint64_t(0xCD9E8D57u) * x[2];
            x[0] = static_cast<uint32_t>(b >> 32) ^ x[1] ^ k0;
            x[2] = static_cast<uint32_t>(a >> 32) ^ x[3] ^ k1;
            x[1] = static_cast<uint32_t>(b);
            x[3] = static_cast<uint32_t>(a);
        }
        std::memcpy(words_, x, sizeof x);
    }
    uint64_t seed_, index_;
    uint32_t sub_ = 0, words_[4];
    int at_ = 4;
};

// Number of counters used by n elements of `words` 32-bit words each, in whole groups.
inline uint64_t philox_counters(int64_t n, int words) {
    int64_t per_group = philox_words / words;
    return static_cast<uint64_t>((n + per_group - 1) / per_group) * philox_lanes;
}

// Fills out[0 … n) group by group: f(words, to) converts 64 words to 64 / `words` elements.
template <int words, class T, class F>
void philox_fill(T* out, int64_t n, uint64_t seed, uint64_t counter, F f) {
    constexpr int64_t per_group = philox_words / words;
    int64_t groups = (n + per_group - 1) / per_group;
    parallel_for(groups, 512, [&](int64_t begin, int64_t end) {
        alignas(64) uint32_t bits[philox_words];
        for (int64_t g = begin; g < end; g++) {
            philox_group(seed, counter + static_cast<uint64_t>(g) * philox_lanes, bits);
            int64_t left = n - g * per_group;
            if (left >= per_group) {
                f(bits, out + g * per_group);
            } else {
                T tail[per_group];
                f(bits, tail);
                for (int64_t i = 0; i < left; i++) out[g * per_group + i] = tail[i];
            }
        }
    });
}

// ---- vector math on well-behaved arguments: no special cases, so the loops around it vectorise ----------------------

// Natural logarithm of a normal, positive number.
inline float log_positive(float x) {
    int32_t bits = std::bit_cast<int32_t>(x) - 0x3f3504f3;  // puts the mantissa into [√½, √2)
    int32_t exponent = bits >> 23;
    float m = std::bit_cast<float>((bits & 0x007fffff) + 0x3f3504f3);
    float s = (m - 1) / (m + 1), q = s * s;
    float series = 2 + q * (0.666666667f + q * (0.4f + q * (0.285714286f + q * 0.222222222f)));
    return static_cast<float>(exponent) * 0.693147181f + s * series;
}
inline double log_positive(double x) {
    int64_t bits = std::bit_cast<int64_t>(x) - 0x3fe6a09e667f3bcdll;
    int64_t exponent = bits >> 52;
    double m = std::bit_cast<double>((bits & 0x000fffffffffffffll) + 0x3fe6a09e667f3bcdll);
    double s = (m - 1) / (m + 1), q = s * s;
    double series = 2.0 / 21;
    for (int odd = 19; odd > 0; odd -= 2) series = 2.0 / odd + q * series;
    return static_cast<double>(exponent) * 0.69314718055994530942 + s * series;
}

// cos and sin of u whole turns, 0 ≤ u < 1.
template <class T>
inline void turn(T u, T& cosine, T& sine) {
    constexpr int terms = sizeof(T) == 4 ? 5 : 8;
    int quarter = static_cast<int>(u * 4 + T(0.5));
    T t = (u - static_cast<T>(quarter) * T(0.25)) * T(6.28318530717958647692), q = -t * t;
    T c = 1, s = 1;  // Horner's scheme for both series
    for (int i = terms; i > 0; i--) {
        c = 1 + c * q * T(1.0 / ((2 * i) * (2 * i - 1)));
        s = 1 + s * q * T(1.0 / ((2 * i) * (2 * i + 1)));
    }
    s *= t;
    bool swap = quarter & 1;
    T x = swap ? s : c, y = swap ? c : s;
    cosine = ((quarter + 1) & 2) ? -x : x;
    sine = (quarter & 2) ? -y : y;
}

}  // namespace fb::cpu
