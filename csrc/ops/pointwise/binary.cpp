// Binary elementwise ops: the rows of binary.def. The kernels of the comparisons and of the rest are compiled in two
// units (binary.cpp and arithmetic.cpp) to share the work between cores.
#include "backend/cpu/divide.h"
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

using namespace fb::m;
using cpu::Division;

template <class T>
inline T copy_sign(T x, T y) {
    return std::copysign(x, y);
}
template <class T>
inline T next_after(T x, T y) {
    return std::nextafter(x, y);
}
// The neighbour among half numbers: computed in float32 it would be rounded back to where it came from.
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
// PyTorch's rule for heaviside, which does not promote.
void check_step(const Tensor& x, const Tensor& values) {
    check(!is_complex(x.dtype()) && !is_complex(values.dtype()),
          "heaviside is not yet implemented for complex tensors.");
    check(x.dtype() == values.dtype(), "heaviside is not yet implemented for tensors with different dtypes: got ",
          x.dtype(), " and ", values.dtype(), "; convert one with .to(dtype)");
}
// Whose result depends on the spacing of the result's numbers, so that operands are converted first.
constexpr bool is_step(std::string_view name) { return name == "nextafter"; }
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

struct Product {
    template <class T>
    static T f(T x, T y) {
        return x * y;
    }
};

constexpr bool is_division(std::string_view name) {
    return name == "floor_divide" || name == "remainder" || name == "fmod";
}

// Kernels of a row; integer divisions have quicker ones.
template <class Row, unsigned domain>
Kernels kernels_of(std::string_view name) {
    Kernels kernels = binary_kernels<Row, domain>();
    if (name == "mul") add_half_tiles<Product>(kernels);
    if (!is_division(name)) return kernels;
    auto division = name == "floor_divide" ? Division::Floor
                    : name == "remainder"  ? Division::FloorRemainder
                                           : Division::TruncateRemainder;
    for (DType d : {DType::I32, DType::I64}) kernels.by_dtype[static_cast<int>(d)] = cpu::division_tile(d, division);
    return kernels;
}

// How the two arguments may be given; see binary.def.
enum class Operands { TT, TS, SS, NN, TV };

struct RegisterBinary {
    RegisterBinary(const char* name, Operands operands, OpFn fn, const char* doc) {
        std::string head = name;
        const char* args[] = {"(Tensor input, Tensor other) -> Tensor", "(Tensor input, Operand other) -> Tensor",
                              "(Tensor input, Operand other) -> Tensor", "(Tensor input, Operand other) -> Tensor",
                              "(Tensor input, Tensor values) -> Tensor"};
        Register((head + args[static_cast<int>(operands)]).c_str(), POINTWISE | FREE, fn, doc);
        if (operands == Operands::SS)
            Register((head + "(Operand input, Tensor other) -> Tensor").c_str(), FUNCTION | OUT, fn);
        if (operands == Operands::NN)
            Register((head + "(Operand input, Operand other) -> Tensor").c_str(), FUNCTION | OUT | FREE, fn);
    }
};

#define BINARY(name, operands, domain, result, cost, formula, summary, example, shown)                           \
    struct Row_##name {                                                                                          \
        template <class T>                                                                                       \
        static auto f(T x, T y) {                                                                                \
            return formula;                                                                                      \
        }                                                                                                        \
    };                                                                                                           \
    Value call_##name(Args& a) {                                                                                 \
        static const Kernels kernels = kernels_of<Row_##name, domain>(#name);                                    \
        if (is_division(#name)) check_divisor(a.tensor(0), a.tensor(1));                                         \
        if (std::string_view(#name) == "heaviside") check_step(a.tensor(0), a.tensor(1));                        \
        if (is_step(#name)) {                                                                                    \
            DType common = result_type({a.tensor(0), a.tensor(1)});                                              \
            Tensor x = to_dtype(a.tensor(0), common), y = to_dtype(a.tensor(1), common);                         \
            TileFn half = common == DType::F16 ? next_half_tile<Half> : next_half_tile<BFloat16>;                \
            if (is_half(common)) return launch(a, {x, y}, common, common, {common, common}, half);               \
            return binary(a, x, y, kernels, Result::result, cost);                                               \
        }                                                                                                        \
        return binary(a, a.tensor(0), a.tensor(1), kernels, Result::result, cost);                               \
    }                                                                                                            \
    const RegisterBinary register_##name(                                                                        \
        #name, Operands::operands, call_##name,                                                                  \
        summary                                                                                                  \
        "\n\nArgs:\n    input: the first operand.\n    other: the second operand.\n\nExample:\n    >>> " example \
        "\n    " shown "\n");
#include "ops/pointwise/binary.def"
#undef BINARY

OP_ALIAS("multiply", "mul");
OP_ALIAS("arctan2", "atan2");
OP_ALIAS("not_equal", "ne");
OP_ALIAS("less", "lt");
OP_ALIAS("less_equal", "le");
OP_ALIAS("greater", "gt");
OP_ALIAS("greater_equal", "ge");
OP_ALIAS("special.xlogy", "xlogy");

}  // namespace
}  // namespace fb::ew
