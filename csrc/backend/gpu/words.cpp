// The functions used in formulas, as text. T is the compute type, K(0.5) a number of that type.
#include "backend/gpu/source.h"

namespace fb::gpu {
namespace {

constexpr const char* common = R"(
FN f32 half_value(u16 h) {
    u32 sign = (u32)(h & 0x8000) << 16, rest = h & 0x7fff;
    f32 small = (f32)rest * 5.9604644775390625e-8f;
    if (rest >= 0x7c00) return float_of_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);
    if (rest >= 0x0400) return float_of_bits(sign | ((rest << 13) + 0x38000000u));
    return sign ? -small : small;
}
FN u16 half_of(f32 f) {
    u32 u = bits_of_float(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (u16)(sign | 0x7e00);
    if (u >= 0x477ff000u) return (u16)(sign | 0x7c00);
    if (u < 0x38800000u) return (u16)(sign | (u32)rint(float_of_bits(u) * 16777216.0f));
    return (u16)(sign | ((u + 0xfff + (u >> 13 & 1)) - 0x38000000u) >> 13);
}
FN f32 bfloat_value(u16 b) { return float_of_bits((u32)b << 16); }
FN u16 bfloat_of(f32 f) {
    u32 u = bits_of_float(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)(u >> 16 | 0x40);
    return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
)";

// To half precision from double with one rounding: the intermediate float keeps a sticky bit of the lost part.
constexpr const char* doubles = R"(
FN f32 odd_of(f64 d) {
    f32 f = (f32)d;
    u32 u = bits_of_float(f);
    f64 back = (f64)f;
    if (back == d || d != d || (u & 0x7f800000u) == 0x7f800000u) return f;
    if ((back < 0 ? -back : back) > (d < 0 ? -d : d)) u -= 1;
    return float_of_bits(u | 1);
}
)";

constexpr const char* floats = R"(
FN u64 u64_of(T x) {
    if (x >= K(9223372036854775808.0)) return x < K(18446744073709551616.0) ? (u64)x : (u64)1 << 63;
    return x >= K(-9223372036854775808.0) ? (u64)(i64)x : (u64)1 << 63;
}
FN i64 i64_of(T x) { return x >= K(-9223372036854775808.0) && x < K(9223372036854775808.0) ? (i64)x : (i64)((u64)1 << 63); }
FN u32 u32_of(T x) { return (u32)i64_of(x); }
FN i32 i32_of(T x) { return x > K(-2147483904.0) && x < K(2147483648.0) ? (i32)(i64)x : (i32)-2147483647 - 1; }
FN i32 small_of(T x) { return x > K(-2147483649.0) && x < K(2147483648.0) ? (i32)x : 0; }
#define m_isnan(x) ((x) != (x))
FN int m_isinf(T x) { return fabs(x) == INF; }
FN int m_isfinite(T x) { return fabs(x) < INF; }
#define m_exp exp
#define m_exp2 exp2
#define m_expm1 expm1
#define m_log log
#define m_log2 log2
#define m_log10 log10
#define m_log1p log1p
#define m_sin sin
#define m_cos cos
#define m_tan tan
#define m_asin asin
#define m_acos acos
#define m_atan atan
#define m_sinh sinh
#define m_cosh cosh
#define m_tanh tanh
#define m_asinh asinh
#define m_acosh acosh
#define m_atanh atanh
#define m_erf erf
#define m_erfc erfc
#define m_sqrt sqrt
#define m_lgamma lgamma
#define m_atan2 atan2
#define m_hypot hypot
#define m_next_after nextafter
#define m_copy_sign copysign
#define m_trunc trunc
#define m_floor_any floor
#define m_ceil_any ceil
#define m_trunc_any trunc
#define m_rint_any rint
#define m_abs fabs
#define m_fmod fmod
#define m_pow pow
FN T m_add(T x, T y) { return x + y; }
FN T m_sub(T x, T y) { return x - y; }
FN T m_mul(T x, T y) { return x * y; }
FN T m_neg(T x) { return -x; }
FN T m_max(T x, T y) { return ((x > y) | (x != x)) ? x : y; }
FN T m_min(T x, T y) { return ((x < y) | (x != x)) ? x : y; }
FN T m_sign(T x) { return (T)((x > 0) - (x < 0)); }
FN int m_sign_bit(T x) { return (BITS(x) >> (sizeof(T) * 8 - 1)) != 0; }
FN T m_angle(T x) { return x != x ? x : x < 0 ? K(3.14159265358979323846) : (T)0; }
FN T m_remainder(T x, T y) {
    T r = fmod(x, y);
    if (r == 0) return copysign(r, y);
    return (y < 0) != (r < 0) ? r + y : r;
}
FN T m_div_trunc(T x, T y) { return trunc(x / y); }
FN T m_round_to(T x, T decimals, T scale) {
    return decimals == 0 ? rint(x) : decimals > 0 ? rint(x * scale) / scale : rint(x / scale) * scale;
}
// Twice half the power of two, which need not be a number as a whole.
FN T m_ldexp(T x, T e) {
    const T part = trunc(e / 2);
    return x * exp2(part) * exp2(e - part);
}
FN T m_div_floor(T x, T y) {
    T r = fmod(x, y), q = (x - r) / y, f;
    if (y == 0) return x / y;
    if (r != 0 && (y < 0) != (r < 0)) q -= 1;
    if (q == 0) return copysign((T)0, x / y);
    f = floor(q);
    return q - f > K(0.5) ? f + 1 : f;
}
FN T m_between(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
FN T m_limited(T x, T eps) { return eps < 0 ? x : m_between(x, eps, (T)1 - eps); }
FN T m_lerp(T x, T y, T w) { return fabs(w) < K(0.5) ? x + w * (y - x) : y - (y - x) * ((T)1 - w); }
FN T m_sigmoid(T x) { return (T)1 / ((T)1 + exp(-x)); }
FN T m_density(T x) { return K(0.398942280401432678) * exp(K(-0.5) * x * x); }
FN T m_below(T x) { return K(0.5) * erfc(K(-0.707106781186547524) * x); }
FN T m_ramp(T x) { return x < (T)-3 ? (T)0 : x > (T)3 ? (T)6 : x + (T)3; }
FN T m_log_add_exp(T x, T y) {
    T high = m_max(x, y);
    return m_isinf(x) && x == y ? x : high + log1p(exp(-fabs(x - y)));
}
FN T m_log_add_exp2(T x, T y) {
    T high = m_max(x, y);
    return m_isinf(x) && x == y ? x : high + log1p(exp2(-fabs(x - y))) * K(1.44269504088896340736);
}
FN T m_mish_gate(T x) { return tanh(m_log_add_exp(x, (T)0)); }
FN T m_bend(T x) { return x * (K(1.5957691216057308) + K(0.07135481282716262) * x * x); }
FN T m_tanh_gelu_slope(T x, T s) {
    return s * ((T)1 + x * ((T)1 - s) * (K(1.5957691216057308) + K(0.21406443848148786) * x * x));
}
FN T m_silu_slope(T x, T s) { return s * ((T)1 + x * ((T)1 - s)); }
FN T m_mish_slope(T x, T gate) { return gate + x * ((T)1 - gate * gate) * m_sigmoid(x); }
FN T m_sinc(T x) { T a = K(3.14159265358979323846) * x; return x == 0 ? (T)1 : sin(a) / a; }
FN T m_finite_or(T x, T nan, T high, T low) {
    const T top = high == INF ? LARGEST : high, bottom = low == -INF ? -LARGEST : low;
    return x != x ? nan : x == INF ? top : x == -INF ? bottom : x;
}
FN int m_close(T x, T y, T rtol, T atol, T equal_nan) {
    T distance = fabs(x - y);
    return x == y || (m_isfinite(distance) && distance <= atol + rtol * fabs(y)) || (equal_nan != 0 && x != x && y != y);
}
FN T m_as_half(T x) { return (T)half_value(half_of((f32)x)); }
FN T m_as_bfloat16(T x) { return (T)bfloat_value(bfloat_of((f32)x)); }
FN T m_mantissa(T x) {
    int e;
    return m_isfinite(x) ? frexp(x, &e) : x;
}
FN int m_exponent(T x) {
    int e = 0;
    T m = m_isfinite(x) ? frexp(x, &e) : x;
    return m == m ? e : 0;
}
#define m_lowest(x) (-INF)
#define m_highest(x) INF
#define m_modulus fabs
FN T m_squared_modulus(T x) { return x * x; }
FN T m_nan_like(T x) { return INF - INF; }
FN T m_root_if(T on, T x) { return on != 0 ? sqrt(x) : x; }
)";

constexpr const char* integers = R"(
#define m_isnan(x) 0
#define m_isinf(x) 0
#define m_isfinite(x) 1
#define m_trunc(x) (x)
#define m_floor_any(x) (x)
#define m_ceil_any(x) (x)
#define m_trunc_any(x) (x)
#define m_rint_any(x) (x)
FN T m_add(T x, T y) { return (T)(x + y); }
FN T m_sub(T x, T y) { return (T)(x - y); }
FN T m_mul(T x, T y) { return (T)((u64)x * (u64)y); }
FN T m_neg(T x) { return (T)-x; }
FN T m_abs(T x) { return x < 0 ? (T)-x : x; }
FN T m_max(T x, T y) { return x > y ? x : y; }
FN T m_min(T x, T y) { return x < y ? x : y; }
FN T m_sign(T x) { return (T)((x > 0) - (x < 0)); }
FN int m_sign_bit(T x) { return x < 0; }
FN T m_not_bits(T x) { return (T)~x; }
FN T m_fmod(T x, T y) { return SIGNED && y == (T)-1 ? (T)0 : (T)(x % (y == 0 ? (T)1 : y)); }
FN T m_remainder(T x, T y) {
    T r = m_fmod(x, y);
    return r != 0 && (y < 0) != (r < 0) ? (T)(r + y) : r;
}
FN T m_div_trunc(T x, T y) { return SIGNED && y == (T)-1 ? (T)-x : (T)(x / (y == 0 ? (T)1 : y)); }
FN T m_div_floor(T x, T y) {
    T q = m_div_trunc(x, y), r = (T)(x - m_mul(q, y));
    return SIGNED && r != 0 && (r < 0) != (y < 0) ? (T)(q - 1) : q;
}
FN T m_pow(T x, T y) {
    T result = (T)1;
    if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? (T)-1 : (T)1) : (T)0;
    for (; y > 0; y = (T)(y >> 1)) {
        if (y & 1) result = m_mul(result, x);
        x = m_mul(x, x);
    }
    return result;
}
FN u64 magnitude(T x) { return x < 0 ? (u64)0 - (u64)x : (u64)x; }
FN T m_gcd(T x, T y) {
    u64 a = magnitude(x), b = magnitude(y);
    while (b != 0) {
        u64 r = a % b;
        a = b;
        b = r;
    }
    return (T)a;
}
FN T m_lcm(T x, T y) {
    u64 g = magnitude(m_gcd(x, y));
    return g == 0 ? (T)0 : m_abs((T)(magnitude(x) / (g == 0 ? 1 : g) * magnitude(y)));
}
FN T m_shift_left(T x, T y) { return y < 0 || y >= (T)(sizeof(T) * 8) ? (T)0 : (T)((u64)x << y); }
FN T m_shift_right(T x, T y) { return y < 0 || y >= (T)(sizeof(T) * 8) ? (x < 0 ? (T)-1 : (T)0) : (T)(x >> y); }
FN T m_between(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
#define m_finite_or(x, nan, high, low) (x)
#define m_lowest(x) LOWEST
#define m_highest(x) HIGHEST
)";

// Numbers of a call are f64 where T is an integer.
constexpr const char* integers_and_doubles = R"(
FN int m_close(T x, T y, f64 rtol, f64 atol, f64 equal_nan) {
    f64 distance = fabs((f64)x - (f64)y), reach = atol + fabs(rtol * (f64)y);
    return x == y || distance <= reach;
}
)";

// A bool is a byte of 0 or 1.
constexpr const char* bools = R"(
#define m_isnan(x) 0
#define m_isinf(x) 0
#define m_isfinite(x) 1
FN T m_add(T x, T y) { return x | y; }
FN T m_mul(T x, T y) { return x & y; }
FN T m_max(T x, T y) { return x | y; }
FN T m_min(T x, T y) { return x & y; }
FN T m_sign(T x) { return x; }
FN int m_sign_bit(T x) { return 0; }
FN T m_not_bits(T x) { return !x; }
FN T m_pow(T x, T y) { return x | !y; }
#define m_close(x, y, rtol, atol, equal_nan) ((x) == (y))
#define m_lowest(x) 0
#define m_highest(x) 1
)";

constexpr const char* all_types = R"(
#define m_sgn m_sign
#define m_imag_part(x) 0
#define m_number(x, value) ((T)(value))
#define m_both(x, y) ((x) && (y))
#define m_nonzero(x) ((x) != 0)
)";

}  // namespace

const char* common_words() { return common; }

std::string words_of(DType compute) {
    std::string text = std::string("typedef ") + compute_type(compute) + " T;\n";
    switch (compute) {
        case DType::F32:
            text +=
                "#define K(x) x##f\n#define INF float_of_bits(0x7f800000u)\n#define BITS bits_of_float\n#define "
                "LARGEST float_of_bits(0x7f7fffffu)\ntypedef f32 "
                "N;\n";
            return text + floats + all_types;
        case DType::F64:
            text +=
                "#define K(x) x\n#define INF ((f64)float_of_bits(0x7f800000u))\n#define BITS bits_of_double\n#define "
                "LARGEST double_of_bits(0x7fefffffffffffff)\ntypedef f64 N;\n";
            return text + doubles + floats + all_types + special_words();
        case DType::Bool:
            return text + "typedef f64 N;\n" + bools + all_types;
        default: {
            bool is_signed = compute >= DType::I8 && compute <= DType::I64;
            text += std::string("#define SIGNED ") + (is_signed ? "1\n" : "0\n");
            text += is_signed ? "#define HIGHEST ((T)(((u64)1 << (sizeof(T) * 8 - 1)) - 1))\n#define LOWEST "
                                "((T)(-HIGHEST - 1))\n"
                              : "#define HIGHEST ((T)~(T)0)\n#define LOWEST ((T)0)\n";
            return text + "typedef f64 N;\n" + integers + integers_and_doubles + all_types;
        }
    }
}

}  // namespace fb::gpu
