// Functions used by the rows, in addition to math.h.
#pragma once
#include "backend/cpu/math.h"

namespace fb::m {

template <class T>
inline T sign(T x) {
    return static_cast<T>((x > T(0)) - (std::is_unsigned_v<T> ? 0 : (x < T(0))));
}
template <class T>
inline T sgn(T x) {
    if constexpr (is_cx<T>) {
        auto r = std::abs(x);
        return r == 0 ? T(0) : x / r;
    } else return sign(x);
}
template <class T>
inline T floor_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return floor(x);
    else return x;
}
template <class T>
inline T ceil_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return ceil(x);
    else return x;
}
template <class T>
inline T trunc_any(T x) {
    if constexpr (std::is_floating_point_v<T>) return trunc(x);
    else return x;
}
template <class T>
inline T not_bits(T x) {
    if constexpr (std::is_same_v<T, bool>) return !x;
    else return static_cast<T>(~x);
}
template <class T>
inline auto angle(T x) {
    using R = real_t<T>;
    if constexpr (is_cx<T>) return std::arg(x);
    else if constexpr (std::is_floating_point_v<T>) return isnan(x) ? x : x < 0 ? R(3.14159265358979323846) : R(0);
    else return x;
}
template <class T>
inline auto imag_part(T x) {
    if constexpr (is_cx<T>) return x.imag();
    else return 0;
}
template <class T>
inline bool sign_bit(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::signbit(x);
    else if constexpr (std::is_signed_v<T>) return x < 0;
    else return false;
}

template <class T>
inline T copy_sign(T x, T y) {
    return std::copysign(x, y);
}
template <class T>
inline T next_after(T x, T y) {
    return std::nextafter(x, y);
}
template <class T>
inline T log_add_exp(T x, T y) {
    if constexpr (is_cx<T>) {
        T high = x.real() >= y.real() ? x : y, low = x.real() >= y.real() ? y : x;
        if (isinf(high.real()) && high.real() == low.real()) return high.real() < 0 ? high : log(exp(x) + exp(y));
        return high + log1p(exp(low - high));
    } else {
        T high = max(x, y);
        // Equal infinities would give inf - inf.
        return isinf(x) && x == y ? x : high + log1p(exp(-fabs(x - y)));
    }
}
template <class T>
inline T log_add_exp2(T x, T y) {
    T high = max(x, y);
    return isinf(x) && x == y ? x : high + log1p(exp2(-fabs(x - y))) * T(1.4426950408889634);
}

// Rounded to the precision of a half type.
template <class T>
inline T as_half(T x) {
    return static_cast<T>(Half(x));
}
template <class T>
inline T as_bfloat16(T x) {
    return static_cast<T>(BFloat16(x));
}
// Ties round to even. With decimals: scale, round and scale back.
template <class T>
inline T rint_any(T x) {
    if constexpr (std::is_integral_v<T>) return x;
    else return rint(x);
}
template <class T>
inline T round_to(T x, double decimals) {
    if (decimals == 0) return rint(x);
    T scale = static_cast<T>(std::pow(10.0, std::abs(decimals)));
    return decimals > 0 ? rint(x * scale) / scale : rint(x / scale) * scale;
}
template <class T>
inline T conj(T x) {
    return std::conj(x);
}
// Replaces NaN and infinities by numbers; infinite replacements mean the limits of T.
template <class T>
inline T finite_or(T x, double nan, double positive, double negative) {
    if constexpr (is_cx<T>)
        return T(finite_or(x.real(), nan, positive, negative), finite_or(x.imag(), nan, positive, negative));
    else {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        T high = positive == INFINITY ? std::numeric_limits<T>::max() : static_cast<T>(positive);
        T low = negative == -INFINITY ? std::numeric_limits<T>::lowest() : static_cast<T>(negative);
        T y = where(isnan(x), static_cast<T>(nan), x);
        y = where(x == infinity, high, y);
        return where(x == -infinity, low, y);
    }
}
// Clamps x to [e, 1 - e], unless e is negative.
template <class T>
inline T limited(T x, T e) {
    return e < 0 ? x : x < e ? e : x > T(1) - e ? T(1) - e : x;
}
template <class T>
inline T sinc(T x) {
    T y = x * static_cast<real_t<T>>(3.14159265358979323846);
    return x == T(0) ? T(1) : sin(y) / y;
}
// Clamps x to two numbers that are not NaN: the comparisons propagate a NaN in x.
template <class T>
inline T between(T x, T low, T high) {
    const T above = low > x ? low : x;
    return high < above ? high : above;
}
// The second form is exact for weight 1.
template <class T>
inline T lerp(T x, T y, T w) {
    if constexpr (is_cx<T>) return std::norm(w) < real_t<T>(0.25) ? x + w * (y - x) : y - (y - x) * (T(1) - w);
    else return fabs(w) < T(0.5) ? x + w * (y - x) : y - (y - x) * (T(1) - w);
}
// Floats are computed in double, so that a power of two beyond their range can scale a small mantissa.
template <class T>
inline T ldexp(T x, T e) {
    if constexpr (is_cx<T>) return x * std::exp(e * typename T::value_type(0.693147180559945309417));
    else if constexpr (std::is_same_v<T, float>)
        return static_cast<float>(static_cast<double>(x) * std::exp2(static_cast<double>(e)));
    else {
        double half = std::trunc(e / 2);
        return x * std::exp2(half) * std::exp2(e - half);
    }
}
// |x - y| <= atol + rtol |y|.
template <class T>
inline bool close(T x, T y, double rtol, double atol, double equal_nan) {
    if (x == y) return true;
    if constexpr (std::is_same_v<T, bool>) return std::fabs(double(x) - double(y)) <= atol + rtol * double(y);
    else if constexpr (std::is_integral_v<T>) {
        double distance = std::fabs(static_cast<double>(x) - static_cast<double>(y));
        return distance <= atol + std::fabs(rtol * static_cast<double>(y));
    } else {
        if (equal_nan != 0 && isnan(x) && isnan(y)) return true;
        using R = real_t<T>;
        R distance = std::abs(x - y);
        return isfinite(distance) && distance <= static_cast<R>(atol) + static_cast<R>(rtol) * std::abs(y);
    }
}

}  // namespace fb::m
