#include "base/dtype.h"

#include <atomic>

namespace fb {

const DTypeInfo dtype_infos[dtype_count] = {
    {"bool", 1, Kind::Bool, false, "Bool"},
    {"uint8", 1, Kind::Integral, false, "Byte"},
    {"uint16", 2, Kind::Integral, false, "UInt16"},
    {"uint32", 4, Kind::Integral, false, "UInt32"},
    {"uint64", 8, Kind::Integral, false, "UInt64"},
    {"int8", 1, Kind::Integral, true, "Char"},
    {"int16", 2, Kind::Integral, true, "Short"},
    {"int32", 4, Kind::Integral, true, "Int"},
    {"int64", 8, Kind::Integral, true, "Long"},
    {"float16", 2, Kind::Floating, true, "Half"},
    {"bfloat16", 2, Kind::Floating, true, "BFloat16"},
    {"float32", 4, Kind::Floating, true, "Float"},
    {"float64", 8, Kind::Floating, true, "Double"},
    {"complex64", 8, Kind::Complex, true, "ComplexFloat"},
    {"complex128", 16, Kind::Complex, true, "ComplexDouble"},
    {"complex32", 4, Kind::Complex, true, "ComplexHalf"},
    {"float8_e4m3fn", 1, Kind::Floating, true, "Float8_e4m3fn"},
    {"float8_e4m3fnuz", 1, Kind::Floating, true, "Float8_e4m3fnuz"},
    {"float8_e5m2", 1, Kind::Floating, true, "Float8_e5m2"},
    {"float8_e5m2fnuz", 1, Kind::Floating, true, "Float8_e5m2fnuz"},
    {"float8_e8m0fnu", 1, Kind::Floating, false, "Float8_e8m0fnu"},
};

DType real_of(DType d) {
    return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : d == DType::C32 ? DType::F16 : d;
}

DType complex_of(DType d) {
    if (is_complex(d)) return d;
    if (is_float8(d)) fail_type("Unknown Complex ScalarType for ", info(d).torch_name, "; convert with .to(float32)");
    if (d == DType::F16) return DType::C32;
    return d == DType::F64 ? DType::C128 : DType::C64;
}

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (is_float8(a) || is_float8(b))
        fail_type("Promotion for Float8 Types is not supported, attempted to promote ", info(a).torch_name, " and ",
                  info(b).torch_name, "; convert one of them with .to()");
    if (kind(a) > kind(b)) std::swap(a, b);
    Kind ka = kind(a), kb = kind(b);
    if (ka == Kind::Bool) return b;
    if (kb == Kind::Complex) {
        // complex64 with float64 (or complex128): the wider real part wins.
        if (a == DType::F64 || a == DType::C128 || b == DType::C128) return DType::C128;
        return b == DType::C32 && (a == DType::F16 || ka == Kind::Integral) ? DType::C32 : DType::C64;
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
            return DType::F64;  // no integer type holds uint64 and a signed type; NumPy promotes to float64 too
    }
}

bool can_cast(DType from, DType to) {
    if (kind(from) > kind(to)) return false;
    // Signed results do not fit unsigned targets, but Python code (and PyTorch) uses uint8 += int.
    return true;
}

static std::atomic<DType> default_dtype_{DType::F32};
DType default_dtype() { return default_dtype_.load(std::memory_order_relaxed); }
void set_default_dtype(DType d) {
    if (!is_floating(d)) fail_type("set_default_dtype takes a floating point dtype, got ", d);
    default_dtype_ = d;
}

void fail_dtype(DType d, const char* expected) {
    if (is_storage(d)) fail_storage(d);
    fail_type("dtype ", d, " is not supported; expected ", expected);
}

void fail_storage(DType d) {
    fail(ErrorKind::NotImplemented, '"', current_op ? current_op : "op", "\" not implemented for '", info(d).torch_name,
         "': ", name(d), " is a dtype for storage; compute in another one, say .to(", name(value_dtype(d)), ")");
}

}  // namespace fb
