// Exponentials that the compiler can vectorise: argument reduction by a power of two, then a short series.
#pragma once
#include <bit>
#include <cstdint>

namespace fb {

// e^x where that is a normal number, for callers that know their arguments' range.
inline float normal_exp(float x) {
    float t = __builtin_fmaf(x, 1.44269504088896341f, 12582912.0f);  // the nearest integer lands in the low bits
    float n = t - 12582912.0f;
    float r = __builtin_fmaf(n, 2.12194440054690583e-4f, __builtin_fmaf(n, -0.693359375f, x));
    float p = 0.00138145988f;  // fitted to a relative error of 3e-9 between -log(2) / 2 and log(2) / 2
    p = __builtin_fmaf(p, r, 0.00836871658f);
    p = __builtin_fmaf(p, r, 0.0416683890f);
    p = __builtin_fmaf(p, r, 0.166665211f);
    p = __builtin_fmaf(p, r, 0.499999940f);
    p = __builtin_fmaf(p, r, 1.0f);
    p = __builtin_fmaf(p, r, 1.0f);
    return std::bit_cast<float>(static_cast<uint32_t>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(t) << 23)));
}

inline float vector_exp(float x) {
    float y = normal_exp(x);
    y = x > 88.72283f ? __builtin_inff() : y;
    y = x < -87.3f ? 0.0f : y;
    return x != x ? x : y;
}

inline double vector_exp(double x) {
    double t = __builtin_fma(x, 1.4426950408889634074, 6755399441055744.0);
    double n = t - 6755399441055744.0;
    double r = __builtin_fma(n, -1.90821492927058770002e-10, __builtin_fma(n, -0.693147180369123816490, x));
    double p = 1.0 / 6227020800.0;
    p = __builtin_fma(p, r, 1.0 / 479001600.0);
    p = __builtin_fma(p, r, 1.0 / 39916800.0);
    p = __builtin_fma(p, r, 1.0 / 3628800.0);
    p = __builtin_fma(p, r, 1.0 / 362880.0);
    p = __builtin_fma(p, r, 1.0 / 40320.0);
    p = __builtin_fma(p, r, 1.0 / 5040.0);
    p = __builtin_fma(p, r, 1.0 / 720.0);
    p = __builtin_fma(p, r, 1.0 / 120.0);
    p = __builtin_fma(p, r, 1.0 / 24.0);
    p = __builtin_fma(p, r, 1.0 / 6.0);
    p = __builtin_fma(p, r, 0.5);
    p = __builtin_fma(p, r, 1.0);
    p = __builtin_fma(p, r, 1.0);
    double y =
        std::bit_cast<double>(static_cast<uint64_t>(std::bit_cast<uint64_t>(p) + (std::bit_cast<uint64_t>(t) << 52)));
    y = x > 709.7 ? __builtin_inf() : y;
    y = x < -708.3 ? 0.0 : y;
    return x != x ? x : y;
}

}  // namespace fb
