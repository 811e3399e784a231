#include "backend/gpu/source.h"

#include <set>

namespace fb::gpu {
namespace {

// Words by themselves: functions of the prelude with the same name and an m_ in front.
const std::set<std::string>& words() {
    static const std::set<std::string> all{"abs",         "acos",
                                           "acosh",       "add",
                                           "angle",       "asin",
                                           "asinh",       "atan",
                                           "atan2",       "atanh",
                                           "below",       "bend",
                                           "between",     "both",
                                           "ceil_any",    "close",
                                           "copy_sign",   "cos",
                                           "cosh",        "density",
                                           "div_floor",   "div_trunc",
                                           "erf",         "erfc",
                                           "exp",         "exp2",
                                           "expm1",       "finite_or",
                                           "floor_any",   "fmod",
                                           "gcd",         "hypot",
                                           "imag_part",   "isfinite",
                                           "isinf",       "isnan",
                                           "lcm",         "lerp",
                                           "lgamma",      "limited",
                                           "log",         "log10",
                                           "log1p",       "log2",
                                           "log_add_exp", "log_add_exp2",
                                           "max",         "min",
                                           "mish_gate",   "mish_slope",
                                           "mul",         "neg",
                                           "next_after",  "not_bits",
                                           "number",      "pow",
                                           "ramp",        "remainder",
                                           "rint_any",    "sgn",
                                           "shift_left",  "shift_right",
                                           "sigmoid",     "sign",
                                           "sign_bit",    "silu_slope",
                                           "sin",         "sinc",
                                           "sinh",        "sqrt",
                                           "sub",         "tan",
                                           "tanh",        "tanh_gelu_slope",
                                           "trunc",       "trunc_any",
                                           "where"};
    return all;
}
bool is_operator(const std::string& name) {
    static const std::set<std::string> all{
        "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "&", "|", "^", "!", "~"};
    return all.contains(name);
}

bool write(const Expression& e, std::string& text) {
    if (e.type == Expression::Type::Literal) {
        text += e.name;
        return true;
    }
    if (e.type == Expression::Type::Name) {
        bool known = e.name == "x" || e.name == "y" || e.name == "z" || e.name.starts_with("p.");
        text += e.name.starts_with("p.") ? "p_" + e.name.substr(2) : e.name;
        return known;
    }
    bool infix = is_operator(e.name);
    if (!infix && e.name != "T" && e.name != "bool" && !words().contains(e.name)) return false;
    std::string between = ", ";
    if (infix && e.arguments.size() == 2) {
        text += "(";
        between = " " + e.name + " ";
    } else {
        text += (infix || e.name == "T" || e.name == "bool" ? e.name : "m_" + e.name) + "(";
    }
    for (size_t i = 0; i < e.arguments.size(); i++) {
        if (i) text += between;
        if (!write(e.arguments[i], text)) return false;
    }
    text += ")";
    return true;
}

constexpr const char* vocabulary = R"(
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <limits>
#include <type_traits>
typedef int64_t i64;
struct half_bits { uint16_t bits; };
struct bfloat_bits { uint16_t bits; };
// ---- loads and stores
template <class T, class S> inline T load(const char* at) { return (T) * (const S*)at; }
template <> inline bool load<bool, bool>(const char* at) { return *(const uint8_t*)at != 0; }
#define LOAD_BOOL(T) template <> inline T load<T, bool>(const char* at) { return (T)(*(const uint8_t*)at != 0); }
LOAD_BOOL(uint8_t) LOAD_BOOL(uint16_t) LOAD_BOOL(uint32_t) LOAD_BOOL(uint64_t) LOAD_BOOL(int8_t) LOAD_BOOL(int16_t)
LOAD_BOOL(int32_t) LOAD_BOOL(int64_t) LOAD_BOOL(float) LOAD_BOOL(double)
inline float from_bits(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
inline uint32_t bits_of(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }
inline float half_value(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) return from_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x0400) return from_bits(sign | ((rest << 13) + 0x38000000));
    float small = (float)rest * 5.9604644775390625e-8f;
    return sign ? -small : small;
}
inline uint16_t half_of(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) return (uint16_t)(sign | (uint32_t)rintf(from_bits(u) * 16777216.0f));
    return (uint16_t)(sign | ((u + 0xfff + (u >> 13 & 1)) - 0x38000000) >> 13);
}
inline uint16_t bfloat_of(float f) {
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
#define LOAD_HALF(T) \
    template <> inline T load<T, half_bits>(const char* at) { return (T)half_value(*(const uint16_t*)at); } \
    template <> inline T load<T, bfloat_bits>(const char* at) { return (T)from_bits((uint32_t) * (const uint16_t*)at << 16); }
LOAD_HALF(float) LOAD_HALF(double)
template <> inline bool load<bool, half_bits>(const char* at) { return half_value(*(const uint16_t*)at) != 0; }
template <> inline bool load<bool, bfloat_bits>(const char* at) { return (*(const uint16_t*)at & 0x7fff) != 0; }
template <class S, class T> struct Store { static void put(char* at, T x) { *(S*)at = (S)x; } };
template <class T> struct Store<bool, T> { static void put(char* at, T x) { *(uint8_t*)at = x != 0; } };
template <class T> struct Store<half_bits, T> { static void put(char* at, T x) { *(uint16_t*)at = half_of((float)x); } };
template <class T> struct Store<bfloat_bits, T> { static void put(char* at, T x) { *(uint16_t*)at = bfloat_of((float)x); } };
template <class S, class T> inline void store(char* at, T x) { Store<S, T>::put(at, x); }

// ---- words
template <class T> constexpr bool floats = std::is_floating_point<T>::value;
template <class T> inline bool m_isnan(T x) { return x != x; }
template <class T> inline bool m_isinf(T x) { if constexpr (floats<T>) return fabs((double)x) == INFINITY; else return false; }
template <class T> inline bool m_isfinite(T x) { if constexpr (floats<T>) return fabs((double)x) < INFINITY; else return true; }
template <class T> inline T m_where(bool c, T x, T y) { return c ? x : y; }
#define REAL(name) \
    inline float m_##name(float x) { return name##f(x); } \
    inline double m_##name(double x) { return name(x); }
REAL(exp) REAL(exp2) REAL(expm1) REAL(log) REAL(log2) REAL(log1p) REAL(sin) REAL(cos) REAL(tan) REAL(asin) REAL(acos)
REAL(atan) REAL(sinh) REAL(cosh) REAL(tanh) REAL(asinh) REAL(acosh) REAL(atanh) REAL(erf) REAL(erfc) REAL(sqrt)
REAL(trunc) REAL(lgamma)
inline float m_log10(float x) { return (float)log10((double)x); }
inline double m_log10(double x) { return log10(x); }
inline float m_atan2(float y, float x) { return atan2f(y, x); }
inline double m_atan2(double y, double x) { return atan2(y, x); }
inline float m_hypot(float y, float x) { return hypotf(y, x); }
inline double m_hypot(double y, double x) { return hypot(y, x); }
inline float m_next_after(float x, float y) { return nextafterf(x, y); }
inline double m_next_after(double x, double y) { return nextafter(x, y); }
inline float m_copy_sign(float x, float y) { return copysignf(x, y); }
inline double m_copy_sign(double x, double y) { return copysign(x, y); }
template <class T> inline T m_add(T x, T y) { if constexpr (std::is_same<T, bool>::value) return x || y; else return (T)(x + y); }
template <class T> inline T m_sub(T x, T y) { return (T)(x - y); }
template <class T> inline T m_mul(T x, T y) {
    if constexpr (std::is_same<T, bool>::value) return x && y;
    else if constexpr (floats<T>) return x * y;
    else return (T)((uint64_t)x * (uint64_t)y);
}
template <class T> inline T m_neg(T x) { return (T)-x; }
template <class T> inline T m_abs(T x) {
    if constexpr (floats<T>) return copysign(x, (T)1);
    else return x < 0 ? (T)-x : x;
}
template <class T> inline T m_max(T x, T y) { T larger = x > y ? x : y; return m_isnan(x) ? x : larger; }
template <class T> inline T m_min(T x, T y) { T smaller = x < y ? x : y; return m_isnan(x) ? x : smaller; }
template <class T> inline T m_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <> inline bool m_sign(bool x) { return x; }
template <class T> inline T m_sgn(T x) { return m_sign(x); }
template <class T> inline bool m_sign_bit(T x) { if constexpr (floats<T>) return signbit(x); else return x < 0; }
template <class T> inline double m_imag_part(T) { return 0; }
template <class T> inline T m_floor_any(T x) { if constexpr (floats<T>) return floor(x); else return x; }
template <class T> inline T m_ceil_any(T x) { if constexpr (floats<T>) return ceil(x); else return x; }
template <class T> inline T m_trunc_any(T x) { if constexpr (floats<T>) return trunc(x); else return x; }
template <class T> inline T m_rint_any(T x) { if constexpr (floats<T>) return rint(x); else return x; }
template <class T> inline T m_not_bits(T x) { if constexpr (std::is_same<T, bool>::value) return !x; else return (T)~x; }
template <class T> inline T m_angle(T x) { return m_isnan(x) ? x : x < 0 ? (T)3.14159265358979323846 : (T)0; }
template <class T> inline T m_fmod(T x, T y) {
    if constexpr (floats<T>) return fmod(x, y);
    else { if (std::is_signed<T>::value && y == (T)-1) return 0; return (T)(x % (y == 0 ? (T)1 : y)); }
}
template <class T> inline T m_remainder(T x, T y) {
    T r = m_fmod(x, y);
    if constexpr (floats<T>) { if (r == 0) return copysign(r, y); }
    return r != 0 && (y < 0) != (r < 0) ? (T)(r + y) : r;
}
template <class T> inline T m_div_trunc(T x, T y) {
    if constexpr (floats<T>) return trunc(x / y);
    else { if (std::is_signed<T>::value && y == (T)-1) return (T)-x; return (T)(x / (y == 0 ? (T)1 : y)); }
}
template <class T> inline T m_div_floor(T x, T y) {
    if constexpr (floats<T>) {
        if (y == 0) return x / y;
        T r = fmod(x, y), q = (x - r) / y;
        if (r != 0 && (y < 0) != (r < 0)) q -= 1;
        if (q == 0) return copysign((T)0, x / y);
        T f = floor(q);
        return q - f > (T)0.5 ? f + 1 : f;
    } else {
        T q = m_div_trunc(x, y), r = (T)(x - m_mul(q, y));
        return std::is_signed<T>::value && r != 0 && (r < 0) != (y < 0) ? (T)(q - 1) : q;
    }
}
template <class T> inline T m_pow(T x, T y) {
    if constexpr (std::is_same<T, float>::value) return powf(x, y);
    else if constexpr (floats<T>) return pow(x, y);
    else if constexpr (std::is_same<T, bool>::value) return x || !y;
    else {
        if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? (y % 2 ? (T)-1 : (T)1) : (T)0;
        T result = 1;
        for (; y > 0; y = (T)(y >> 1), x = m_mul(x, x)) if (y & 1) result = m_mul(result, x);
        return result;
    }
}
template <class T> inline uint64_t magnitude(T x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }
template <class T> inline T m_gcd(T x, T y) {
    uint64_t a = magnitude(x), b = magnitude(y);
    while (b) { uint64_t r = a % b; a = b; b = r; }
    return (T)a;
}
template <class T> inline T m_lcm(T x, T y) {
    uint64_t g = magnitude(m_gcd(x, y));
    return g == 0 ? (T)0 : m_abs((T)(magnitude(x) / g * magnitude(y)));
}
template <class T> inline T m_shift_left(T x, T y) { return y < 0 || y >= (T)(sizeof(T) * 8) ? (T)0 : (T)((uint64_t)x << y); }
template <class T> inline T m_shift_right(T x, T y) { return y < 0 || y >= (T)(sizeof(T) * 8) ? (x < 0 ? (T)-1 : (T)0) : (T)(x >> y); }
template <class T> inline T m_between(T x, T low, T high) { return x < low ? low : x > high ? high : x; }
template <class T> inline T m_limited(T x, T eps) { return eps < 0 ? x : m_between(x, eps, (T)1 - eps); }
template <class T> inline T m_lerp(T x, T y, T w) { return fabs((double)w) < 0.5 ? x + w * (y - x) : y - (y - x) * ((T)1 - w); }
template <class T> inline T m_number(T, double value) { return (T)value; }
inline bool m_both(bool x, bool y) { return x && y; }
template <class T> inline T m_sigmoid(T x) { return (T)1 / ((T)1 + m_exp(-x)); }
template <class T> inline T m_density(T x) { return (T)0.398942280401432678 * m_exp((T)-0.5 * x * x); }
template <class T> inline T m_below(T x) { return (T)0.5 * m_erfc((T)-0.707106781186547524 * x); }
template <class T> inline T m_ramp(T x) { return x < (T)-3 ? (T)0 : x > (T)3 ? (T)6 : m_isnan(x) ? x : x + (T)3; }
template <class T> inline T m_log_add(T x, T y) {
    T high = m_max(x, y);
    return m_isinf(x) && x == y ? x : high + m_log1p(m_exp(-m_abs(x - y)));
}
template <class T> inline T m_log_add_exp(T x, T y) { return m_log_add(x, y); }
template <class T> inline T m_log_add_exp2(T x, T y) {
    T high = m_max(x, y);
    return m_isinf(x) && x == y ? x : high + m_log1p(m_exp2(-m_abs(x - y))) * (T)1.44269504088896340736;
}
template <class T> inline T m_mish_gate(T x) { return m_tanh(m_log_add(x, (T)0)); }
template <class T> inline T m_bend(T x) { return x * ((T)1.5957691216057308 + (T)(0.044715 * 1.5957691216057308) * x * x); }
template <class T> inline T m_tanh_gelu_slope(T x, T s) {
    return s * ((T)1 + x * ((T)1 - s) * ((T)1.5957691216057308 + (T)(3 * 0.044715 * 1.5957691216057308) * x * x));
}
template <class T> inline T m_silu_slope(T x, T s) { return s * ((T)1 + x * ((T)1 - s)); }
template <class T> inline T m_mish_slope(T x, T gate) { return gate + x * ((T)1 - gate * gate) * m_sigmoid(x); }
template <class T> inline T m_sinc(T x) { T a = (T)3.14159265358979323846 * x; return x == 0 ? (T)1 : m_sin(a) / a; }
template <class T> inline T m_finite_or(T x, double nan, double high, double low) {
    if constexpr (floats<T>) return m_isnan(x) ? (T)nan : m_isinf(x) ? (x > 0 ? (T)high : (T)low) : x; else return x;
}
template <class T> inline bool m_close(T x, T y, double rtol, double atol, double equal_nan) {
    if constexpr (floats<T>) {
        T distance = m_abs(x - y);
        return x == y || (m_isfinite(distance) && distance <= (T)atol + (T)rtol * m_abs(y)) || (equal_nan != 0 && m_isnan(x) && m_isnan(y));
    } else return x == y || fabs((double)x - (double)y) <= atol + fabs(rtol * (double)y);
}
#define KERNEL extern "C" __attribute__((visibility("default"))) void kernel(const void* arguments, i64 begin, i64 end)
)";

}  // namespace

const char* prelude() { return vocabulary; }

const char* compute_type(DType d) {
    switch (d) {
        case DType::Bool:
            return "bool";
        case DType::U8:
            return "uint8_t";
        case DType::U16:
            return "uint16_t";
        case DType::U32:
            return "uint32_t";
        case DType::U64:
            return "uint64_t";
        case DType::I8:
            return "int8_t";
        case DType::I16:
            return "int16_t";
        case DType::I32:
            return "int32_t";
        case DType::I64:
            return "int64_t";
        case DType::F16:
        case DType::BF16:
        case DType::F32:
            return "float";
        case DType::F64:
            return "double";
        default:
            return nullptr;
    }
}
const char* stored_type(DType d) {
    return d == DType::F16 ? "half_bits" : d == DType::BF16 ? "bfloat_bits" : compute_type(d);
}

bool converts(DType from, DType to) {
    if (!compute_type(from) || !compute_type(to)) return false;
    // Numbers out of range become what the CPU's instructions make of them. From double to half there are two
    // roundings.
    bool to_integer = is_floating(from) && is_integral(to), twice = from == DType::F64 && is_half(to);
    return !to_integer && !twice;
}

std::optional<std::string> expression(const Formula& formula) {
    std::string text;
    if (!write(parse_formula(formula.text), text)) return std::nullopt;
    return text;
}

}  // namespace fb::gpu
