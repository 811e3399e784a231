// The rows of activation.def.
#include "backend/cpu/curves.h"
#include "backend/cpu/formula.h"

namespace fb::cpu {

using curve::below, curve::density, curve::exp, curve::mish_gate, curve::sigmoid;
using m::abs, m::expm1, m::log1p, m::where;

namespace {

template <class T>
inline T number(T, double value) {
    return T(value);
}
inline bool both(bool x, bool y) { return x && y; }
template <class T>
[[gnu::always_inline]] inline T ramp(T x) {
    return where(x <= T(-3), T(0), where(x >= T(3), T(6), x + T(3)));
}
#include "device/formulas/activation_words.h"

#define ACTIVATION(name, cost, value, rise)                                                                 \
    struct Row_##name {                                                                                     \
        template <class T>                                                                                  \
        static T f(T x, [[maybe_unused]] const NumbersOf<T>& p) {                                           \
            return value;                                                                                   \
        }                                                                                                   \
    };                                                                                                      \
    struct Row_##name##_backward {                                                                          \
        template <class T>                                                                                  \
        static T f(T x, T y, [[maybe_unused]] const NumbersOf<T>& p) {                                      \
            return y * (rise);                                                                              \
        }                                                                                                   \
    };                                                                                                      \
    const Compiled compiled_##name(formulas::name, unary_kernels<Row_##name, formulas::F>());               \
    const Compiled compiled_##name##_backward(formulas::name##_backward,                                    \
                                              make_kernels<formulas::F>([]<class T>(TypeTag<T>) -> TileFn { \
                                                  return binary_tile<Row_##name##_backward, T>;             \
                                              }));
#include "device/formulas/activation.def"
#undef ACTIVATION

}  // namespace
}  // namespace fb::cpu
