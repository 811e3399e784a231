// The rows of plain.def that run in vector loops.
#include "backend/cpu/divide.h"
#include "backend/cpu/formula.h"
#include "backend/cpu/words.h"

namespace fb::cpu {
namespace {

using namespace fb::m;
using enum formulas::Domain;

#define ELEMENTS_1 T x
#define ELEMENTS_2 T x, T y
#define ELEMENTS_3 T x, T y, T z
#define PLAIN(name, inputs, domain, result, cost, text) \
    struct Row_##name {                                 \
        template <class T>                              \
        static auto f(ELEMENTS_##inputs) {              \
            return text;                                \
        }                                               \
    };                                                  \
    const Compiled compiled_##name(formulas::name, kernels<Row_##name, domain, inputs>());
#define NUMBERED(name, inputs, domain, result, cost, text)        \
    struct Row_##name {                                           \
        template <class T>                                        \
        static auto f(ELEMENTS_##inputs, const NumbersOf<T>& p) { \
            return text;                                          \
        }                                                         \
    };                                                            \
    const Compiled compiled_##name(formulas::name, kernels<Row_##name, domain, inputs>());
#define CHOICE(...)
#define LOOP(...)
#define WIDE(...)
#include "device/formulas/plain.def"
#undef PLAIN
#undef NUMBERED
#undef CHOICE
#undef LOOP
#undef WIDE

// ---- rows that only move elements -----------------------------------------------------------------------------------

template <class T>
void where_tile(char** data, int64_t n, const void*) {
    T* z = reinterpret_cast<T*>(data[0]);
    const Bool* c = reinterpret_cast<const Bool*>(data[1]);
    const T *x = reinterpret_cast<const T*>(data[2]), *y = reinterpret_cast<const T*>(data[3]);
    // Branch-free: masks are often random.
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            T keep = static_cast<T>(-static_cast<T>(bool(c[i])));
            z[i] = static_cast<T>((x[i] & keep) | (y[i] & static_cast<T>(~keep)));
        }
    } else {
        for (int64_t i = 0; i < n; i++) z[i] = c[i] ? x[i] : y[i];
    }
}
template <class T>
void masked_tile(char** data, int64_t n, const void*) {
    T* __restrict y = reinterpret_cast<T*>(data[0]);
    const T* x = reinterpret_cast<const T*>(data[1]);
    const Bool* mask = reinterpret_cast<const Bool*>(data[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? x[i] : T(0);
}

// ---- quicker kernels for some types: halves, and integer division ---------------------------------------------------

struct Sum {
    template <class T>
    static T f(T x, T y) {
        return x + y;
    }
};
struct Difference {
    template <class T>
    static T f(T x, T y) {
        return x - y;
    }
};
[[maybe_unused]] const bool more = [] {
    for (int i = 0; i < dtype_count; i++) {
        DType d = static_cast<DType>(i);
        dispatch_size(d, [&](auto tag) {
            using T = typename decltype(tag)::type;
            prepared_for(formulas::where, d) = {where_tile<T>, nullptr, d, d};
            prepared_for(formulas::masked, d) = {masked_tile<T>, nullptr, d, d};
        });
    }
    add_half_tiles<Sum>(formulas::add);
    add_half_tiles<Difference>(formulas::sub);
    add_divisions(formulas::truncate_divide, Division::Truncate);
    return true;
}();

}  // namespace
}  // namespace fb::cpu
