#include "cluster/join.h"

#include <type_traits>

namespace fb::cluster {
namespace {

template <class T>
constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool is_complex_type = std::is_same_v<T, c64> || std::is_same_v<T, c128>;
template <class T>
constexpr bool is_bits = std::is_integral_v<T>;

template <class T, class F>
void each(T* out, const T* a, const T* b, size_t count, F f) {
    for (size_t i = 0; i < count; i++) {
        if constexpr (is_half_type<T>) out[i] = T(f(float(a[i]), float(b[i])));
        else out[i] = f(a[i], b[i]);
    }
}

// Any byte but 0 is true (Note [Bytes of bools]); results are 0 or 1.
void join_bools(Join op, uint8_t* out, const uint8_t* a, const uint8_t* b, size_t count) {
    switch (op) {
        case Join::Product:
        case Join::Min:
        case Join::And:
            for (size_t i = 0; i < count; i++) out[i] = (a[i] != 0) & (b[i] != 0);
            break;
        case Join::Xor:
            for (size_t i = 0; i < count; i++) out[i] = (a[i] != 0) ^ (b[i] != 0);
            break;
        default:
            for (size_t i = 0; i < count; i++) out[i] = (a[i] != 0) | (b[i] != 0);
    }
}

template <class T>
void join_as(Join op, T* out, const T* a, const T* b, size_t count) {
    // Integers wrap: unsigned arithmetic of at least the width of int, where overflow is defined.
    auto wrapping = [](auto f) {
        return [f](auto x, auto y) {
            using E = decltype(x);
            if constexpr (std::is_integral_v<E>) {
                using U = std::conditional_t<sizeof(E) == 8, uint64_t, uint32_t>;
                return static_cast<E>(f(static_cast<U>(x), static_cast<U>(y)));
            } else {
                return f(x, y);
            }
        };
    };
    switch (op) {
        case Join::Sum:
        case Join::Average:
            return each(out, a, b, count, wrapping([](auto x, auto y) { return x + y; }));
        case Join::Product:
            if constexpr (is_complex_type<T>)
                return each(out, a, b, count, [](T x, T y) {  // without the library's check for infinities
                    return T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
                });
            else return each(out, a, b, count, wrapping([](auto x, auto y) { return x * y; }));
        case Join::Min:
            if constexpr (!is_complex_type<T>)  // NaN wins, as in minimum()
                return each(out, a, b, count, [](auto x, auto y) { return x < y || x != x ? x : y; });
            break;
        case Join::Max:
            if constexpr (!is_complex_type<T>)
                return each(out, a, b, count, [](auto x, auto y) { return x > y || x != x ? x : y; });
            break;
        case Join::And:
            if constexpr (is_bits<T>) return each(out, a, b, count, [](T x, T y) { return T(x & y); });
            break;
        case Join::Or:
            if constexpr (is_bits<T>) return each(out, a, b, count, [](T x, T y) { return T(x | y); });
            break;
        case Join::Xor:
            if constexpr (is_bits<T>) return each(out, a, b, count, [](T x, T y) { return T(x ^ y); });
            break;
    }
}

template <class T>
void divide_as(T* x, size_t count, int by) {
    for (size_t i = 0; i < count; i++) {
        if constexpr (is_half_type<T>) x[i] = T(float(x[i]) / float(by));
        else if constexpr (is_complex_type<T>) x[i] /= typename T::value_type(by);
        else if constexpr (std::is_integral_v<T>)
            x[i] = T(x[i] / std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(by));
        else x[i] /= T(by);
    }
}

template <class F>
bool with_type(DType dtype, F f) {
    switch (dtype) {
        case DType::U8:
            return f(uint8_t()), true;
        case DType::U16:
            return f(uint16_t()), true;
        case DType::U32:
            return f(uint32_t()), true;
        case DType::U64:
            return f(uint64_t()), true;
        case DType::I8:
            return f(int8_t()), true;
        case DType::I16:
            return f(int16_t()), true;
        case DType::I32:
            return f(int32_t()), true;
        case DType::I64:
            return f(int64_t()), true;
        case DType::F16:
            return f(Half()), true;
        case DType::BF16:
            return f(BFloat16()), true;
        case DType::F32:
            return f(float()), true;
        case DType::F64:
            return f(double()), true;
        case DType::C64:
            return f(c64()), true;
        case DType::C128:
            return f(c128()), true;
        default:
            return false;
    }
}

}  // namespace

bool can_join(DType dtype, Join op) {
    if (dtype == DType::Bool) return op != Join::Average;
    bool bits = op == Join::And || op == Join::Or || op == Join::Xor, ordered = op == Join::Min || op == Join::Max;
    if (bits && !is_integral(dtype)) return false;
    if (ordered && is_complex(dtype)) return false;
    return with_type(dtype, [](auto) {});
}

void join(DType dtype, Join op, void* out, const void* a, const void* b, size_t count) {
    if (dtype == DType::Bool)
        return join_bools(op, static_cast<uint8_t*>(out), static_cast<const uint8_t*>(a),
                          static_cast<const uint8_t*>(b), count);
    with_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        join_as(op, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), count);
    });
}

void divide(DType dtype, void* x, size_t count, int by) {
    with_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        divide_as(static_cast<T*>(x), count, by);
    });
}

}  // namespace fb::cluster
