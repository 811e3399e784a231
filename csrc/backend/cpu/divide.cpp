#include "backend/cpu/divide.h"

#include "backend/cpu/math.h"

namespace fb::cpu {
namespace {

template <Division division, class T>
T divide_one(T x, T y) {
    switch (division) {
        case Division::Floor:
            return m::div_floor(x, y);
        case Division::FloorRemainder:
            return m::remainder(x, y);
        case Division::Truncate:
            return m::div_trunc(x, y);
        default:
            return m::fmod(x, y);
    }
}

// The quotient of two integers below 2⁵³ differs from the next whole number by more than double's rounding, so it
// never rounds up to one.
template <Division division, class T>
void divide_exactly(T* z, const T* x, const T* y, int64_t n) {
    constexpr bool floor = division == Division::Floor || division == Division::FloorRemainder;
    constexpr bool quotient = division == Division::Floor || division == Division::Truncate;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double ratio = static_cast<double>(x[i]) / static_cast<double>(y[i]);
        int64_t q = static_cast<int64_t>(floor ? __builtin_floor(ratio) : ratio);
        z[i] = static_cast<T>(quotient ? q : static_cast<int64_t>(x[i]) - q * static_cast<int64_t>(y[i]));
    }
}

template <Division division, class T>
void tile(char** data, int64_t n, const void*) {
    T* z = reinterpret_cast<T*>(data[0]);
    const T *x = reinterpret_cast<const T*>(data[1]), *y = reinterpret_cast<const T*>(data[2]);
    if constexpr (sizeof(T) == 4) return divide_exactly<division>(z, x, y, n);
    constexpr int64_t block = 256;
    for (int64_t first = 0; first < n; first += block) {
        int64_t last = std::min(n, first + block);
        uint64_t bits = 0;  // of all magnitudes
#pragma omp simd reduction(| : bits)
        for (int64_t i = first; i < last; i++)
            bits |= static_cast<uint64_t>((x[i] ^ (x[i] < 0 ? -1 : 0)) | (y[i] ^ (y[i] < 0 ? -1 : 0)));
        if (bits >> 53 == 0) {
            divide_exactly<division>(z + first, x + first, y + first, last - first);
        } else {
            for (int64_t i = first; i < last; i++) z[i] = divide_one<division>(x[i], y[i]);
        }
    }
}

template <Division division>
TileFn of_dtype(DType dtype) {
    if (dtype == DType::I32) return tile<division, int32_t>;
    return dtype == DType::I64 ? tile<division, int64_t> : nullptr;
}

}  // namespace

TileFn division_tile(DType dtype, Division division) {
    switch (division) {
        case Division::Floor:
            return of_dtype<Division::Floor>(dtype);
        case Division::FloorRemainder:
            return of_dtype<Division::FloorRemainder>(dtype);
        case Division::Truncate:
            return of_dtype<Division::Truncate>(dtype);
        default:
            return of_dtype<Division::TruncateRemainder>(dtype);
    }
}

}  // namespace fb::cpu
