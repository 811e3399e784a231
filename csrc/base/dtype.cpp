#include "base/dtype.h"

#include <atomic>

namespace fb {

const DTypeInfo dtype_infos[dtype_count] = {
    {"bool", 1, Kind::Bool, false},          {"uint8", 1, Kind::Integral, false},
    {"uint16", 2, Kind::Integral, false},    {"uint32", 4, Kind::Integral, false},
    {"uint64", 8, Kind::Integral, false},    {"int8", 1, Kind::Integral, true},
    {"int16", 2, Kind::Integral, true},      {"int32", 4, Kind::Integral, true},
    {"int64", 8, Kind::Integral, true},      {"float16", 2, Kind::Floating, true},
    {"bfloat16", 2, Kind::Floating, true},   {"float32", 4, Kind::Floating, true},
    {"float64", 8, Kind::Floating, true},    {"complex64", 8, Kind::Complex, true},
    {"complex128", 16, Kind::Complex, true},
};

DType real_of(DType d) { return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : d; }

DType complex_of(DType d) {
    if (is_complex(d)) return d;
    return d == DType::F64 ? DType::C128 : DType::C64;
}

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (kind(a) > kind(b)) std::swap(a, b);
    Kind ka = kind(a), kb = kind(b);
    if (ka == Kind::Bool) return b;
    if (kb == Kind::Complex) {
        // complex64 meets float64 (or complex128): the wider real part wins.
        return a == DType::F64 || a == DType::C128 || b == DType::C128 ? DType::C128 : DType::C64;
    }
    if (kb == Kind::Floating) {
        if (ka == Kind::Integral) return b;
        if (is_half(a) && is_half(b)) return DType::F32;  // float16 with bfloat16
        return itemsize(a) > itemsize(b) ? a : b;
    }
    // Two different integer types.
    if (info(a).is_signed == info(b).is_signed) return itemsize(a) > itemsize(b) ? a : b;
    DType u = info(a).is_signed ? b : a, s = info(a).is_signed ? a : b;
    if (itemsize(s) > itemsize(u)) return s;
    switch (itemsize(u)) {
        case 1:
            return DType::I16;
        case 2:
            return DType::I32;
        case 4:
            return DType::I64;
        default:
            return DType::F64;  // uint64 with a signed type has no integer home; NumPy goes the same way
    }
}

bool can_cast(DType from, DType to) {
    if (kind(from) > kind(to)) return false;
    // Signed results do not fit unsigned targets, but Python habit (and PyTorch) allows uint8 += int.
    return true;
}

static std::atomic<DType> default_dtype_{DType::F32};
DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }
void set_default_dtype(DType d) {
    if (!is_floating(d)) fail_type("set_default_dtype takes a floating point dtype, got ", d);
    default_dtype_ = d;
}

void fail_dtype(DType d, const char* expected) { fail_type("dtype ", d, " is not supported; expected ", expected); }

}  // namespace fb
