// The functions used by elementwise rows: the same names for every compute type, with defined results for all inputs.
// Inside simd loops the compiler calls glibc's vector versions of the C functions; see base/vector_math.h.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "base/vector_math.h"

namespace fb::m {

template <class T>
struct RealOf {
    using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
    using type = T;
};
template <class T>
using real_t = typename RealOf<T>::type;

template <class T>
inline constexpr bool is_int = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class T>
inline constexpr bool is_cx = is_complex_type<T>;

// An unsigned type whose integer arithmetic wraps without undefined behaviour.
template <class T>
using wrap_t = std::conditional_t<
    (sizeof(T) < 4), uint32_t,
    std::make_unsigned_t<std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, T, int>>>;

template <class T>
inline T add(T x, T y) {
    if constexpr (is_int<T>) return static_cast<T>(wrap_t<T>(x) + wrap_t<T>(y));
    else if constexpr (std::is_same_v<T, bool>) return x || y;
    else return x + y;
}
template <class T>
inline T sub(T x, T y) {
    if constexpr (is_int<T>) return static_cast<T>(wrap_t<T>(x) - wrap_t<T>(y));
    else if constexpr (std::is_same_v<T, bool>) return x != y;
    else return x - y;
}
template <class T>
inline T mul(T x, T y) {
    if constexpr (is_int<T>) return static_cast<T>(wrap_t<T>(x) * wrap_t<T>(y));
    else if constexpr (std::is_same_v<T, bool>) return x && y;
    else return x * y;
}
template <class T>
inline T neg(T x) {
    if constexpr (is_int<T>) return static_cast<T>(wrap_t<T>(0) - wrap_t<T>(x));
    else return -x;
}

template <class T>
inline bool isnan(T x) {
    if constexpr (is_cx<T>) return x.real() != x.real() || x.imag() != x.imag();
    else if constexpr (std::is_floating_point_v<T>) return x != x;
    else return false;
}
template <class T>
inline bool isinf(T x) {
    if constexpr (is_cx<T>) return isinf(x.real()) || isinf(x.imag());
    else if constexpr (std::is_floating_point_v<T>) return std::fabs(x) == std::numeric_limits<T>::infinity();
    else return false;
}
template <class T>
inline bool isfinite(T x) {
    if constexpr (is_cx<T>) return isfinite(x.real()) && isfinite(x.imag());
    else if constexpr (std::is_floating_point_v<T>) return std::fabs(x) < std::numeric_limits<T>::infinity();
    else return true;
}

// where() as a function keeps rows free of branches, so that they vectorise.
template <class T>
inline T where(bool c, T x, T y) {
    return c ? x : y;
}

#define FB_REAL(name, f32, f64)                   \
    inline float name(float x) { return f32(x); } \
    inline double name(double x) { return f64(x); }
FB_REAL(exp, ::expf, ::exp)
FB_REAL(exp2, ::exp2f, ::exp2)
FB_REAL(expm1, ::expm1f, ::expm1)
FB_REAL(log, ::logf, ::log)
FB_REAL(log2, ::log2f, ::log2)
FB_REAL(log1p, ::log1pf, ::log1p)
FB_REAL(sin, ::sinf, ::sin)
FB_REAL(cos, ::cosf, ::cos)
FB_REAL(tan, ::tanf, ::tan)
FB_REAL(asin, ::asinf, ::asin)
FB_REAL(acos, ::acosf, ::acos)
FB_REAL(atan, ::atanf, ::atan)
FB_REAL(sinh, ::sinhf, ::sinh)
FB_REAL(cosh, ::coshf, ::cosh)
FB_REAL(tanh, ::tanhf, ::tanh)
FB_REAL(asinh, ::asinhf, ::asinh)
FB_REAL(acosh, ::acoshf, ::acosh)
FB_REAL(atanh, ::atanhf, ::atanh)
FB_REAL(erf, ::erff, ::erf)
FB_REAL(erfc, ::erfcf, ::erfc)
FB_REAL(sqrt, __builtin_sqrtf, __builtin_sqrt)
FB_REAL(floor, __builtin_floorf, __builtin_floor)
FB_REAL(ceil, __builtin_ceilf, __builtin_ceil)
FB_REAL(trunc, __builtin_truncf, __builtin_trunc)
FB_REAL(rint, __builtin_rintf, __builtin_rint)
FB_REAL(fabs, __builtin_fabsf, __builtin_fabs)
FB_REAL(lgamma, ::lgammaf, ::lgamma)
#undef FB_REAL
// The vector version for float is inexact at powers of ten; the one for double is exact.
inline float log10(float x) { return static_cast<float>(::log10(static_cast<double>(x))); }
inline double log10(double x) { return ::log10(x); }

// Plain overloads, which are preferred over the standard library's templates.
#define FB_CX(name)                                 \
    inline c64 name(c64 x) { return std::name(x); } \
    inline c128 name(c128 x) { return std::name(x); }
FB_CX(exp)
FB_CX(log)
FB_CX(log10)
FB_CX(sin)
FB_CX(cos)
FB_CX(tan)
FB_CX(asin)
FB_CX(acos)
FB_CX(atan)
FB_CX(sinh)
FB_CX(cosh)
FB_CX(tanh)
FB_CX(asinh)
FB_CX(acosh)
FB_CX(atanh)
FB_CX(sqrt)
#undef FB_CX
template <class T>
inline std::complex<T> exp2(std::complex<T> x) {
    return std::exp(x * T(0.693147180559945309417232121458));
}
template <class T>
inline std::complex<T> log2(std::complex<T> x) {
    return std::log(x) * T(1.44269504088896340735992468100);
}
template <class T>
inline std::complex<T> expm1(std::complex<T> x) {
    // expm1(a+bi) = expm1(a)cos(b) + (cos(b)-1) + i exp(a) sin(b), with cos(b)-1 = -2 sin²(b/2)
    T half = std::sin(x.imag() / 2);
    return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
}
template <class T>
inline std::complex<T> log1p(std::complex<T> x) {
    T re = x.real(), im = x.imag();
    // log|1+z| = log1p(2re + |z|²)/2 keeps precision near zero; for large z the plain logarithm is exact enough.
    T size = std::abs(x);
    T modulus = size < T(0.5) ? std::log1p(re * (re + 2) + im * im) / 2 : std::log(std::abs(T(1) + x));
    return {modulus, std::atan2(im, re + 1)};
}

inline float pow(float x, float y) { return ::powf(x, y); }
inline double pow(double x, double y) { return ::pow(x, y); }
template <class Z>
inline Z complex_pow(Z x, Z y) {
    if (y == Z(0)) return Z(1);
    if (x == Z(0) && y.real() > 0 && y.imag() == 0) return Z(0);
    return std::pow(x, y);
}
inline c64 pow(c64 x, c64 y) { return complex_pow(x, y); }
inline c128 pow(c128 x, c128 y) { return complex_pow(x, y); }
// Integer powers by squaring, wrapping; with a negative exponent only ±1 have nonzero results.
template <class T>
    requires(is_int<T>)
inline T pow(T x, T y) {
    if constexpr (std::is_signed_v<T>) {
        if (y < 0) return x == 1 ? T(1) : x == -1 ? (y % 2 ? T(-1) : T(1)) : T(0);
    }
    T result = 1;
    while (y > 0) {
        if (y & 1) result = mul(result, x);
        x = mul(x, x);
        y = static_cast<T>(y >> 1);
    }
    return result;
}
inline bool pow(bool x, bool y) { return x || !y; }

inline float atan2(float y, float x) { return ::atan2f(y, x); }
inline double atan2(double y, double x) { return ::atan2(y, x); }
inline float hypot(float x, float y) { return ::hypotf(x, y); }
inline double hypot(double x, double y) { return ::hypot(x, y); }

template <class T>
inline real_t<T> abs(T x) {
    if constexpr (is_cx<T>) return std::abs(x);
    else if constexpr (std::is_floating_point_v<T>) return fabs(x);
    else if constexpr (std::is_signed_v<T>) return x < 0 ? neg(x) : x;
    else return x;
}
template <class T>
inline T max(T x, T y) {
    T larger = x > y ? x : y;  // y if either is NaN
    return isnan(x) ? x : larger;
}
template <class T>
inline T min(T x, T y) {
    T smaller = x < y ? x : y;  // y if either is NaN
    return isnan(x) ? x : smaller;
}

template <class T>
inline T fmod(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) return std::fmod(x, y);
    else {
        if constexpr (std::is_signed_v<T>) {
            if (y == -1) return 0;  // the lowest number divided by -1 overflows
        }
        return static_cast<T>(x % (y == 0 ? T(1) : y));  // zeros were rejected by the op's checks
    }
}
template <class T>
inline T remainder(T x, T y) {
    T r = fmod(x, y);
    if constexpr (std::is_floating_point_v<T>) {
        if (r == 0) return std::copysign(r, y);  // Python's rule for zeros
    }
    return r != 0 && ((y < 0) != (r < 0)) ? add(r, y) : r;
}
template <class T>
inline T div_trunc(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) return trunc(x / y);
    else {
        if constexpr (std::is_signed_v<T>) {
            if (y == -1) return neg(x);
        }
        return static_cast<T>(x / (y == 0 ? T(1) : y));  // zeros were rejected by the op's checks
    }
}
template <class T>
inline T div_floor(T x, T y) {
    if constexpr (std::is_floating_point_v<T>) {
        if (y == 0) return x / y;
        T r = std::fmod(x, y), q = (x - r) / y;
        if (r != 0 && ((y < 0) != (r < 0))) q -= 1;
        if (q == 0) return std::copysign(T(0), x / y);
        T f = floor(q);
        return q - f > T(0.5) ? f + 1 : f;
    } else {
        T q = div_trunc(x, y);
        if constexpr (std::is_signed_v<T>) {
            T r = sub(x, mul(q, y));  // cheaper than a second division
            if (r != 0 && ((r < 0) != (y < 0))) return sub(q, T(1));
        }
        return q;
    }
}
// |x|, also for the lowest number, whose magnitude T cannot hold.
template <class T>
inline wrap_t<T> magnitude(T x) {
    return x < 0 ? wrap_t<T>(0) - static_cast<wrap_t<T>>(x) : static_cast<wrap_t<T>>(x);
}
template <class T>
inline T gcd(T x, T y) {
    wrap_t<T> a = magnitude(x), b = magnitude(y);
    while (b) {
        wrap_t<T> r = a % b;
        a = b;
        b = r;
    }
    return static_cast<T>(a);
}
template <class T>
inline T lcm(T x, T y) {
    wrap_t<T> g = magnitude(gcd(x, y));
    return g == 0 ? T(0) : abs(static_cast<T>(magnitude(x) / g * magnitude(y)));
}
template <class T>
inline T shift_left(T x, T y) {
    constexpr T bits = sizeof(T) * 8;
    if (y < 0 || y >= bits) return 0;
    return static_cast<T>(wrap_t<T>(x) << y);
}
template <class T>
inline T shift_right(T x, T y) {
    constexpr T bits = sizeof(T) * 8;
    if (y < 0 || y >= bits) return x < 0 ? T(-1) : T(0);
    return static_cast<T>(x >> y);
}

}  // namespace fb::m
