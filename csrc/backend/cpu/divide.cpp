#include "backend/cpu/divide.h"

#include <bit>

#include "backend/cpu/formula.h"
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

// Without AVX-512 there is no instruction between int64 and double: adding 1.5 · 2⁵² puts an integer into the low bits
// of a double, which is valid below 2⁵¹.
#ifdef __AVX512DQ__
constexpr int exact_bits = 53;
inline double to_double(int64_t x) { return static_cast<double>(x); }
inline int64_t to_integer(double x) { return static_cast<int64_t>(x); }
#else
constexpr int exact_bits = 51;
constexpr double shift = 6755399441055744.0;
inline double to_double(int64_t x) { return std::bit_cast<double>(x + std::bit_cast<int64_t>(shift)) - shift; }
inline int64_t to_integer(double x) { return std::bit_cast<int64_t>(x + shift) - std::bit_cast<int64_t>(shift); }
#endif
inline double to_double(int32_t x) { return static_cast<double>(x); }

// The quotient of two integers below 2⁵³ differs from the next integer by more than double's rounding error, so it
// never rounds up to one.
template <Division division, class T>
void divide_exactly(T* z, const T* x, const T* y, int64_t n) {
    constexpr bool floor = division == Division::Floor || division == Division::FloorRemainder;
    constexpr bool quotient = division == Division::Floor || division == Division::Truncate;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double ratio = to_double(x[i]) / to_double(y[i]);
        int64_t q = to_integer(floor ? __builtin_floor(ratio) : __builtin_trunc(ratio));
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
        uint64_t bits = 0;  // bitwise or of all magnitudes
#pragma omp simd reduction(| : bits)
        for (int64_t i = first; i < last; i++)
            bits |= static_cast<uint64_t>((x[i] ^ (x[i] < 0 ? -1 : 0)) | (y[i] ^ (y[i] < 0 ? -1 : 0)));
        if (bits >> exact_bits == 0) {
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

void add_divisions(const Formula& formula, Division division) {
    for (DType d : {DType::I32, DType::I64}) prepared_for(formula, d).fn = division_tile(d, division);
}

}  // namespace fb::cpu
