// The compiled rows of reduction.def. RowOp<row::Sum, T> is the description of a sum of elements T from which
// reduce_kernels.h builds a kernel; for rows with several parts, hand-written kernels use what they can.
#pragma once
#include <array>

#include "backend/cpu/reduce_kernels.h"
#include "backend/cpu/words.h"
#include "device/reduction.h"

namespace fb::cpu {

// Functions used by these rows, in addition to words.h.
namespace reduce_words {
using namespace fb::m;
template <class T>
inline bool nonzero(T x) {
    if constexpr (is_half_type<T>) return (x.bits & 0x7fff) != 0;
    else return x != T(0);
}
template <class T>
constexpr T lowest(T) {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest(T) {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::max();
}
template <class T>
constexpr T nan_like(T) {
    return std::numeric_limits<T>::quiet_NaN();
}
// Faster in loops than abs(), which is a library call for complex numbers.
template <class T>
inline real_t<T> modulus(T x) {
    if constexpr (is_cx<T>) return std::hypot(x.real(), x.imag());
    else return fabs(x);
}
template <class T>
inline real_t<T> squared_modulus(T x) {
    if constexpr (is_cx<T>) return x.real() * x.real() + x.imag() * x.imag();
    else return fabs(x) * fabs(x);
}
template <class T>
inline T root_if(double wanted, T x) {
    return wanted != 0 ? sqrt(x) : x;
}
template <class... P>
inline auto parts(P... p) {
    return std::array{p...};
}
}  // namespace reduce_words

// L accumulates elements X, A combines lanes, R is the result; see() converts elements.
template <Lanes lanes, class X>
struct LaneTypes;
template <class X>
struct LaneTypes<Lanes::Sums, X> {
    using L = std::conditional_t<is_half_type<X>, float, std::conditional_t<std::is_integral_v<X>, int64_t, X>>;
    using A = std::conditional_t<std::is_same_v<L, float>, double, std::conditional_t<std::is_same_v<L, c64>, c128, L>>;
    using R = L;
    static L see(X x) { return L(x); }
};
template <class X>
struct LaneTypes<Lanes::Counts, X> {
    using L = int64_t;
    using A = int64_t;
    using R = int64_t;
    static X see(X x) { return x; }
};
template <class X>
struct LaneTypes<Lanes::Flags, X> {
    using L = uint8_t;
    using A = uint8_t;
    using R = bool;
    static X see(X x) { return x; }
};
// Half types compare in float, bools as the numbers 0 and 1: the compiler vectorises these.
template <class X>
struct LaneTypes<Lanes::Own, X> {
    using L = std::conditional_t<is_half_type<X>, float, std::conditional_t<std::is_same_v<X, bool>, uint8_t, X>>;
    using A = L;
    using R = std::conditional_t<std::is_same_v<X, bool>, bool, L>;
    static L see(X x) { return L(x); }
};
template <class X>
struct LaneTypes<Lanes::Moduli, X> {
    using L = std::conditional_t<std::is_same_v<X, double> || std::is_same_v<X, c128>, double, float>;
    using A = double;
    using R = L;
    static auto see(X x) {
        if constexpr (is_complex_type<X>) return x;
        else return L(x);
    }
};

// The numbers of a call; a row reads only those it has.
struct RowNumbers {
    double a = 0, b = 0;
    RowNumbers(const void* context, int count) {
        const double* numbers = static_cast<const double*>(context);
        if (count > 0) a = numbers[0];
        if (count > 1) b = numbers[1];
    }
};

namespace row {
using namespace reduce_words;
#define REDUCTION(row, domain, kind, count, identity_text, element_text, combine_text, finish_text) \
    struct row {                                                                                    \
        static constexpr Lanes lanes = Lanes::kind;                                                 \
        static constexpr int numbers = count;                                                       \
        template <class T>                                                                          \
        static constexpr T identity() {                                                             \
            return identity_text;                                                                   \
        }                                                                                           \
        template <class T, class X>                                                                 \
        [[gnu::always_inline]] static T element(X x) {                                              \
            return element_text;                                                                    \
        }                                                                                           \
        template <class T>                                                                          \
        [[gnu::always_inline]] static T combine(T a, T u) {                                         \
            return static_cast<T>(combine_text);                                                    \
        }                                                                                           \
        template <class T>                                                                          \
        static auto finish(T a, [[maybe_unused]] const RowNumbers& p) {                             \
            return finish_text;                                                                     \
        }                                                                                           \
    };
#define STATES(row, domain, count, identity_text, element_text, combine_text, finish_text)         \
    struct row {                                                                                   \
        static constexpr int numbers = count;                                                      \
        template <class T>                                                                         \
        static auto combine(T a, T b, [[maybe_unused]] T c, T u, T v, [[maybe_unused]] T w) {      \
            return combine_text;                                                                   \
        }                                                                                          \
        template <class T>                                                                         \
        static auto finish(T a, T b, [[maybe_unused]] T c, [[maybe_unused]] const RowNumbers& p) { \
            return finish_text;                                                                    \
        }                                                                                          \
    };
#define PLACES(...)
#define SCAN(...)
#include "device/formulas/reduction.def"
#undef REDUCTION
#undef STATES
#undef PLACES
#undef SCAN
}  // namespace row

template <class Row, class X>
struct RowOp {
    using T = X;
    using Types = LaneTypes<Row::lanes, X>;
    using L = typename Types::L;
    using A = typename Types::A;
    using R = typename Types::R;
    static constexpr L unit() { return Row::template identity<L>(); }
    static constexpr A neutral() { return Row::template identity<A>(); }
    static L step(L l, T x) { return Row::combine(l, Row::template element<L>(Types::see(x))); }
    static L fold(L a, L b) { return Row::combine(a, b); }
    static A join(A a, A b) { return Row::combine(a, b); }
    static A widen(L l) { return A(l); }
    static R result(A a, const void* context) {
        return static_cast<R>(Row::finish(a, RowNumbers(context, Row::numbers)));
    }
};

}  // namespace fb::cpu
