// The rows of pair.def.
#include "backend/cpu/curves.h"
#include "backend/cpu/formula.h"

namespace fb::cpu {

using curve::exp;
using m::abs, m::log1p, m::where;

namespace {

template <class T>
inline T mantissa(T x) {
    int e;
    return std::frexp(x, &e);
}
template <class T>
inline int32_t exponent(T x) {
    int e = 0;
    std::frexp(x, &e);
    return std::isfinite(x) ? e : 0;  // unspecified in C
}

#define PAIR(name, cost, text, second_result, second_text) \
    struct Row_##name {                                    \
        template <class T>                                 \
        [[gnu::always_inline]] static T first(T x) {       \
            return text;                                   \
        }                                                  \
        template <class T>                                 \
        [[gnu::always_inline]] static auto second(T x) {   \
            return second_text;                            \
        }                                                  \
    };
#include "device/formulas/pair.def"
#undef PAIR

template <class Row, class T>
void pair_tile(char** data, int64_t n, const void*) {
    using R = decltype(Row::second(T()));
    auto run = [](T* y, R* z, const T* x, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            y[i] = Row::first(x[i]);
            z[i] = Row::second(x[i]);
        }
    };
    T* y = reinterpret_cast<T*>(data[0]);
    R* z = reinterpret_cast<R*>(data[1]);
    const T* x = reinterpret_cast<const T*>(data[2]);
    int64_t whole = n / block * block;
    run(y, z, x, whole);
    if (whole == n) return;
    T tail[2][block] = {};  // Note [Tails]
    R second[block];
    std::copy(x + whole, x + n, tail[1]);
    run(tail[0], second, tail[1], block);
    std::copy(tail[0], tail[0] + (n - whole), y + whole);
    std::copy(second, second + (n - whole), z + whole);
}
// Both results of one call, not vectorised.
template <class T>
void frexp_tile(char** data, int64_t n, const void*) {
    T* y = reinterpret_cast<T*>(data[0]);
    int32_t* z = reinterpret_cast<int32_t*>(data[1]);
    const T* x = reinterpret_cast<const T*>(data[2]);
    for (int64_t i = 0; i < n; i++) {
        int e = 0;
        y[i] = std::frexp(x[i], &e);
        z[i] = std::isfinite(x[i]) ? e : 0;
    }
}

template <class Row>
Kernels pair_kernels() {
    return make_kernels<formulas::F>([]<class T>(TypeTag<T>) -> TileFn {
        if constexpr (std::is_same_v<Row, Row_frexp>) return frexp_tile<T>;
        else return pair_tile<Row, T>;
    });
}
#define PAIR(name, ...) const Compiled compiled_##name(formulas::name, pair_kernels<Row_##name>());
#include "device/formulas/pair.def"
#undef PAIR

}  // namespace
}  // namespace fb::cpu
