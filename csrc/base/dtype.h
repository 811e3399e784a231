// Element types, their properties, promotion, and dispatch from a run-time dtype to a C++ type.
//
// Note [Storage dtypes]: complex32 and the 8-bit floats are for storage, not for computing. Ops that move elements by
// size (copies, views, indexing, joining) accept them, and the conversion table connects them to their value_dtype().
// Kernels do not list them, so dispatch() rejects them; an op that accepts them nevertheless converts first. complex32
// has complex64 as its compute_dtype(), so elementwise ops work on it.
#pragma once
#include <complex>
#include <cstdint>
#include <ostream>
#include <type_traits>

#include "base/error.h"
#include "base/float8.h"
#include "base/half.h"

namespace fb {

// The storage dtypes come last.
enum class DType : uint8_t {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    C32,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU
};
inline constexpr int dtype_count = 21;

// Categories in promotion order.
enum class Kind : uint8_t { Bool, Integral, Floating, Complex };

using c64 = std::complex<float>;
using c128 = std::complex<double>;

struct DTypeInfo {
    const char* name;
    int itemsize;
    Kind kind;
    bool is_signed;
    const char* torch_name;  // the name in PyTorch's error messages
};
extern const DTypeInfo dtype_infos[dtype_count];

inline const DTypeInfo& info(DType d) { return dtype_infos[static_cast<int>(d)]; }
inline int itemsize(DType d) { return info(d).itemsize; }
inline const char* name(DType d) { return info(d).name; }
inline Kind kind(DType d) { return info(d).kind; }
// Real floating point dtypes that ops compute with; the 8-bit ones are excluded.
inline bool is_floating(DType d) { return d >= DType::F16 && d <= DType::F64; }
inline bool is_float8(DType d) { return d >= DType::F8E4M3FN; }
inline bool is_storage(DType d) { return d >= DType::C32; }
inline bool is_floating_point(DType d) { return kind(d) == Kind::Floating; }  // includes the 8-bit ones
inline bool is_complex(DType d) { return kind(d) == Kind::Complex; }
inline bool is_integral(DType d) { return kind(d) == Kind::Integral; }  // excludes bool
inline bool is_integral_or_bool(DType d) { return kind(d) <= Kind::Integral; }
inline bool is_half(DType d) { return d == DType::F16 || d == DType::BF16; }
inline std::ostream& operator<<(std::ostream& out, DType d) { return out << name(d); }

// The dtype of |z|: the real part's dtype for a complex dtype, else the dtype itself.
DType real_of(DType d);
// The complex counterpart of a real floating dtype (complex64 for bfloat16).
DType complex_of(DType d);
// PyTorch's promotion of two dtypes of the same category priority.
DType promote(DType a, DType b);
// Whether a result of dtype `from` may be written into a tensor of dtype `to` (the kind may not decrease).
bool can_cast(DType from, DType to);

// torch.get_default_dtype(); the complex default follows it.
DType default_dtype();
void set_default_dtype(DType d);

// Arithmetic type in which a dtype computes: half types compute in float, complex32 in complex64.
inline DType compute_dtype(DType d) { return is_half(d) ? DType::F32 : d == DType::C32 ? DType::C64 : d; }
// Like compute_dtype(), and float32 for 8-bit floats: a dtype that holds all values and that kernels support.
inline DType value_dtype(DType d) { return is_float8(d) ? DType::F32 : compute_dtype(d); }

template <class T>
struct TypeTag {
    using type = T;
};

template <class T>
constexpr DType dtype_of() {
    if constexpr (std::is_same_v<T, bool>) return DType::Bool;
    else if constexpr (std::is_same_v<T, uint8_t>) return DType::U8;
    else if constexpr (std::is_same_v<T, uint16_t>) return DType::U16;
    else if constexpr (std::is_same_v<T, uint32_t>) return DType::U32;
    else if constexpr (std::is_same_v<T, uint64_t>) return DType::U64;
    else if constexpr (std::is_same_v<T, int8_t>) return DType::I8;
    else if constexpr (std::is_same_v<T, int16_t>) return DType::I16;
    else if constexpr (std::is_same_v<T, int32_t>) return DType::I32;
    else if constexpr (std::is_same_v<T, int64_t>) return DType::I64;
    else if constexpr (std::is_same_v<T, Half>) return DType::F16;
    else if constexpr (std::is_same_v<T, BFloat16>) return DType::BF16;
    else if constexpr (std::is_same_v<T, float>) return DType::F32;
    else if constexpr (std::is_same_v<T, double>) return DType::F64;
    else if constexpr (std::is_same_v<T, c64>) return DType::C64;
    else if constexpr (std::is_same_v<T, c128>) return DType::C128;
    else if constexpr (std::is_same_v<T, c32>) return DType::C32;
    else if constexpr (std::is_same_v<T, Float8E4M3FN>) return DType::F8E4M3FN;
    else if constexpr (std::is_same_v<T, Float8E4M3FNUZ>) return DType::F8E4M3FNUZ;
    else if constexpr (std::is_same_v<T, Float8E5M2>) return DType::F8E5M2;
    else if constexpr (std::is_same_v<T, Float8E5M2FNUZ>) return DType::F8E5M2FNUZ;
    else {
        static_assert(std::is_same_v<T, Float8E8M0FNU>);
        return DType::F8E8M0FNU;
    }
}

template <class T>
inline constexpr bool is_complex_type = std::is_same_v<T, c64> || std::is_same_v<T, c128> || std::is_same_v<T, c32>;
template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// Types that convert to and from float only.
template <class T>
inline constexpr bool is_narrow_type = is_half_type<T> || (dtype_of<T>() >= DType::F8E4M3FN);

[[noreturn]] void fail_dtype(DType d, const char* expected);
// Raises the error for a storage dtype, in PyTorch's words.
[[noreturn]] void fail_storage(DType d);

// dispatch<float, double>(dtype, "float32 or float64", [&](auto tag) { using T = typename decltype(tag)::type; … });
// Instantiates the body for the listed types only; raises a TypeError for any other dtype.
template <class First, class... Rest, class F>
decltype(auto) dispatch(DType d, const char* expected, F&& f) {
    if (d == dtype_of<First>()) return f(TypeTag<First>{});
    if constexpr (sizeof...(Rest) > 0) return dispatch<Rest...>(d, expected, std::forward<F>(f));
    else fail_dtype(d, expected);
}

// Predefined sets. The "compute" sets exclude the half types (convert them to float first).
#define FB_FLOAT8 Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0FNU
#define FB_INTS uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t
template <class F>
decltype(auto) dispatch_all(DType d, F&& f) {
    return dispatch<bool, FB_INTS, Half, BFloat16, float, double, c64, c128>(d, "any dtype", std::forward<F>(f));
}
// Includes the storage dtypes: for reading and writing single values.
template <class F>
decltype(auto) dispatch_values(DType d, F&& f) {
    return dispatch<bool, FB_INTS, Half, BFloat16, float, double, c64, c128, c32, FB_FLOAT8>(d, "any dtype",
                                                                                             std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_real(DType d, F&& f) {  // bool, integers, all floats
    return dispatch<bool, FB_INTS, Half, BFloat16, float, double>(d, "a real dtype", std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_compute(DType d, F&& f) {  // all types except the half types
    return dispatch<bool, FB_INTS, float, double, c64, c128>(d, "a computing dtype", std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_floating(DType d, F&& f) {
    return dispatch<Half, BFloat16, float, double>(d, "a floating point dtype", std::forward<F>(f));
}
template <class F>
decltype(auto) dispatch_lapack(DType d, F&& f) {
    return dispatch<float, double, c64, c128>(d, "float32, float64, complex64 or complex128", std::forward<F>(f));
}
// Dispatch on the item size only, for moving elements without interpreting them.
template <class F>
decltype(auto) dispatch_size(DType d, F&& f) {
    switch (itemsize(d)) {
        case 1:
            return f(TypeTag<uint8_t>{});
        case 2:
            return f(TypeTag<uint16_t>{});
        case 4:
            return f(TypeTag<uint32_t>{});
        case 8:
            return f(TypeTag<uint64_t>{});
        default:
            return f(TypeTag<c128>{});
    }
}

// Conversion of values with defined results: float → integer wraps through int64 without saturation, like PyTorch's;
// complex → real drops the imaginary part; anything → bool is "not zero".
template <class To, class From>
inline To convert(From x) {
    if constexpr (std::is_same_v<To, From>) return x;
    else if constexpr (is_narrow_type<From>) return convert<To>(static_cast<float>(x));
    else if constexpr (is_complex_type<From>) {
        if constexpr (is_complex_type<To>)
            return To(typename To::value_type(x.real()), typename To::value_type(x.imag()));
        else if constexpr (std::is_same_v<To, bool>) return x.real() != 0 || x.imag() != 0;
        else return convert<To>(x.real());
    } else if constexpr (is_complex_type<To>) return To(convert<typename To::value_type>(x), 0);
    else if constexpr (is_narrow_type<To>) {
        if constexpr (std::is_same_v<From, double>) return To(x);
        else return To(static_cast<float>(x));
    } else if constexpr (std::is_same_v<To, bool>) return x != From(0);
    else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        // Casting a value out of range is undefined in C++; int64's conversion gives its minimum on x86, so
        // range-check, convert to int64, then wrap to the narrower type.
        if constexpr (sizeof(To) < 4)
            return static_cast<To>(x > From(-2147483649.0) && x < From(2147483648.0) ? static_cast<int32_t>(x)
                                                                                     : int32_t(0));
        else if constexpr (std::is_same_v<To, uint64_t>) {
            if (x >= From(9223372036854775808.0))
                return x < From(18446744073709551616.0) ? static_cast<uint64_t>(x) : uint64_t(0x8000000000000000ull);
            return static_cast<uint64_t>(x >= From(-9223372036854775808.0) ? static_cast<int64_t>(x)
                                                                           : std::numeric_limits<int64_t>::min());
        } else if constexpr (std::is_same_v<To, int32_t>) {
            return x > From(-2147483904.0) && x < From(2147483648.0) ? static_cast<int32_t>(static_cast<int64_t>(x))
                                                                     : std::numeric_limits<int32_t>::min();
        } else {
            int64_t wide = x >= From(-9223372036854775808.0) && x < From(9223372036854775808.0)
                               ? static_cast<int64_t>(x)
                               : std::numeric_limits<int64_t>::min();
            return static_cast<To>(wide);
        }
    } else return static_cast<To>(x);
}

}  // namespace fb
