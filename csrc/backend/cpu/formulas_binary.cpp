// The rows of binary.def.
#include "backend/cpu/divide.h"
#include "backend/cpu/formula.h"
#include "backend/cpu/words.h"

namespace fb::cpu {
namespace {

using namespace fb::m;
using enum formulas::Domain;

// The neighbouring half number: computed in float32 it would be rounded back to the argument.
template <class H>
inline H next_half(H x, H y) {
    if (std::isnan(float(x)) || std::isnan(float(y))) return H(std::numeric_limits<float>::quiet_NaN());
    if (float(x) == float(y)) return y;
    if (float(x) == 0) x.bits = uint16_t((y.bits & 0x8000u) | 1u);
    else x.bits = uint16_t(x.bits + ((float(x) < float(y)) == (float(x) > 0) ? 1 : -1));
    return x;
}
template <class H>
void next_half_tile(char** data, int64_t n, const void*) {
    const H *x = reinterpret_cast<const H*>(data[1]), *y = reinterpret_cast<const H*>(data[2]);
    for (int64_t i = 0; i < n; i++) reinterpret_cast<H*>(data[0])[i] = next_half(x[i], y[i]);
}

#define BINARY(name, operands, domain, result, cost, text, ...) \
    struct Row_##name {                                         \
        template <class T>                                      \
        static auto f(T x, T y) {                               \
            return text;                                        \
        }                                                       \
    };                                                          \
    const Compiled compiled_##name(formulas::name, binary_kernels<Row_##name, domain>());
#include "device/formulas/binary.def"
#undef BINARY

// Faster kernels for some types: halves, and integer division.
struct Product {
    template <class T>
    static T f(T x, T y) {
        return x * y;
    }
};
struct Quotient {
    template <class T>
    static T f(T x, T y) {
        return x / y;
    }
};
[[maybe_unused]] const bool quicker = [] {
    add_half_tiles<Product>(formulas::mul);
    add_half_tiles<Quotient>(formulas::true_divide);
    add_divisions(formulas::floor_divide, Division::Floor);
    add_divisions(formulas::remainder, Division::FloorRemainder);
    add_divisions(formulas::fmod, Division::TruncateRemainder);
    prepared_for(formulas::nextafter, DType::F16).native = next_half_tile<Half>;
    prepared_for(formulas::nextafter, DType::BF16).native = next_half_tile<BFloat16>;
    return true;
}();

}  // namespace
}  // namespace fb::cpu
