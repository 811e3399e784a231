// The rows of special.def and the loops of plain.def.
#include "backend/cpu/formula.h"
#include "backend/cpu/special_math.h"

namespace fb::cpu {
namespace {

using namespace fb::sp;

// ---- functions in addition to special_math.h ------------------------------------------------------------------------

// Logarithm of the multivariate gamma function of dimension p.
double multigamma(double p, double x) {
    double sum = p * (p - 1) / 4 * 1.14472988584940017414;  // log(pi)
    for (int64_t j = 0; static_cast<double>(j) < p; j++) sum += lgamma(x - 0.5 * static_cast<double>(j));
    return sum;
}
// Degrees are floats; those that do not fit an integer are far beyond every loop.
int64_t degree(double n) {
    return n >= 9e18 ? int64_t(9e18) : n <= -9e18 || std::isnan(n) ? -1 : static_cast<int64_t>(n);
}
// float overflows long before double: Hermite polynomials beyond this degree are NaN, as in PyTorch.
int64_t hermite_limit(float) { return 128; }
int64_t hermite_limit(double) { return 512; }
template <class T>
double hermite_h(double x, int64_t n, T zero) {
    return n > hermite_limit(zero) ? nan : sp::hermite_h(x, n);
}
template <class T>
double hermite_he(double x, int64_t n, T zero) {
    return n > hermite_limit(zero) ? nan : sp::hermite_he(x, n);
}

// float computes in double and rounds once.
#define WIDE_ROW(name, text)                                            \
    struct Row_##name {                                                 \
        template <class T>                                              \
        static T f(T element, [[maybe_unused]] const NumbersOf<T>& p) { \
            double x = static_cast<double>(element);                    \
            return static_cast<T>(text);                                \
        }                                                               \
    };
#define SPECIAL(name, op, flags, text, ...) \
    WIDE_ROW(name, text)                    \
    const Compiled compiled_##name(formulas::name, loop_kernels<Row_##name, 1>());
#define VECTOR(name, op, flags, text, ...) \
    WIDE_ROW(name, text)                   \
    const Compiled compiled_##name(formulas::name, unary_kernels<Row_##name, formulas::F>());
#include "device/formulas/special.def"
#undef SPECIAL
#undef VECTOR

#define ELEMENTS_1 double x = element
#define ELEMENTS_2 double x = element, y = second
#define WIDE(name, inputs, result, cost, text)                                                     \
    struct Row_##name {                                                                            \
        template <class T>                                                                         \
        static T f(T element, [[maybe_unused]] const NumbersOf<T>& p) {                            \
            return f(element, element, p);                                                         \
        }                                                                                          \
        template <class T>                                                                         \
        static T f(T element, [[maybe_unused]] T second, [[maybe_unused]] const NumbersOf<T>& p) { \
            ELEMENTS_##inputs;                                                                     \
            return static_cast<T>(text);                                                           \
        }                                                                                          \
    };                                                                                             \
    const Compiled compiled_##name(formulas::name, loop_kernels<Row_##name, inputs>());
#define LOOP(name, inputs, result, cost, text) \
    struct Row_##name {                        \
        template <class T>                     \
        static T f(T x) {                      \
            return text;                       \
        }                                      \
    };                                         \
    const Compiled compiled_##name(formulas::name, loop_kernels<Row_##name, inputs>());
#define PLAIN(...)
#define NUMBERED(...)
#define CHOICE(...)
#include "device/formulas/plain.def"
#undef PLAIN
#undef NUMBERED
#undef CHOICE
#undef LOOP
#undef WIDE

}  // namespace
}  // namespace fb::cpu
