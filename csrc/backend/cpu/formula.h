// The compiled rows of device/formulas: a row's text is the body of a function, and the tiles below run it over
// contiguous elements of every compute type of its domain.
#pragma once
#include "backend/cpu/halves.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math.h"
#include "base/bool.h"
#include "device/formula.h"

namespace fb::cpu {

// One kernel per compute type, outputs of one type; nullptr where the domain excludes it.
struct Kernels {
    TileForms by_dtype[dtype_count] = {};
    const TileForms& operator[](DType d) const { return by_dtype[static_cast<int>(d)]; }
};
// How to compute a formula for operands of one dtype: the kernel, and its input and output dtypes. Some formulas have a
// faster kernel for operands that all have the dtype itself.
struct Prepared {
    TileForms fn;
    TileFn native = nullptr;
    DType compute{}, result{};
};
constinit inline Prepared prepared[formulas::most][dtype_count] = {};
inline Prepared& prepared_for(const Formula& formula, DType d) { return prepared[formula.id][static_cast<int>(d)]; }

// The compiled kernels of a row, indexed by its number.
struct Compiled {
    Compiled(const Formula& formula, const Kernels& kernels);
};

template <class T>
constexpr unsigned domain_of_type() {
    if constexpr (std::is_same_v<T, bool>) return formulas::B;
    else if constexpr (std::is_integral_v<T>) return formulas::I;
    else if constexpr (std::is_floating_point_v<T>) return formulas::F;
    else return formulas::C;
}

// Note [Tails]: a vector function and its scalar twin may differ in the last bit, so the split of the work must not
// decide which elements a loop leaves to its scalar tail. Tails therefore go through a padded block of full vectors.
inline constexpr int64_t block = 16;

// Calls body(i) for i in [0, n) in vector blocks; the last, partial block is loaded and stored through copies.
template <class R, class T, int inputs, class F>
inline void in_blocks(R* out, const T* const (&in)[inputs], int64_t n, F f) {
    constexpr bool exact = !std::is_floating_point_v<T>;
    int64_t whole = exact ? n : n / block * block;
    f(out, in, whole);
    if (whole == n) return;
    R tail_out[block];
    T tail_in[inputs][block];
    const T* tail[inputs];
    for (int k = 0; k < inputs; k++) {
        for (int64_t i = 0; i < block; i++) tail_in[k][i] = in[k][whole + i < n ? whole + i : whole];
        tail[k] = tail_in[k];
    }
    f(tail_out, tail, block);
    for (int64_t i = whole; i < n; i++) out[i] = tail_out[i - whole];
}

// The numbers of a call, converted for kernels on elements T.
template <class T>
struct NumbersOf {
    double a, b, c;
    T value;
    explicit NumbersOf(const Numbers& p) : a(p.a), b(p.b), c(p.c), value(static_cast<T>(p.value)) {}
};

// A row as a function of elements, and of the call's numbers if it uses them.
template <class Fn, class... T>
auto bound(const void* context) {
    using Element = std::common_type_t<T...>;
    if constexpr (requires(NumbersOf<Element> p, T... x) { Fn::f(x..., p); })
        return [p = NumbersOf<Element>(*static_cast<const Numbers*>(context))](T... x) { return Fn::f(x..., p); };
    else return [](T... x) { return Fn::f(x...); };
}

template <class Fn, class T>
void unary_tile(char** data, int64_t n, const void* context) {
    auto f = bound<Fn, T>(context);
    using R = decltype(f(T()));
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1])};
    in_blocks<R, S, 1>(reinterpret_cast<R*>(data[0]), in, n, [f](R* y, const S* const(&p)[1], int64_t count) {
        const S* x = p[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = f(T(x[i]));
    });
}
template <class Fn, class T>
void binary_tile(char** data, int64_t n, const void* context) {
    auto f = bound<Fn, T, T>(context);
    using R = decltype(f(T(), T()));
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1]), reinterpret_cast<const S*>(data[2])};
    in_blocks<R, S, 2>(reinterpret_cast<R*>(data[0]), in, n, [f](R* z, const S* const(&p)[2], int64_t count) {
        const S *x = p[0], *y = p[1];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] = f(T(x[i]), T(y[i]));
    });
}
// Half types converted in registers, without a packed tile, for formulas that work on vectors. Tails as in Note
// [Tails].
template <class Fn, class H>
void half_tile(char** data, int64_t n, const void*) {
    H* z = reinterpret_cast<H*>(data[0]);
    const H *x = reinterpret_cast<const H*>(data[1]), *y = reinterpret_cast<const H*>(data[2]);
    auto run = [](H* to, const H* a, const H* b) {
        Floats8 p[2], q[2];
        load_pair(a, p[0], p[1]);
        load_pair(b, q[0], q[1]);
        store_pair(to, Fn::f(p[0], q[0]), Fn::f(p[1], q[1]));
    };
    int64_t i = 0;
    for (; i + pair_lanes <= n; i += pair_lanes) run(z + i, x + i, y + i);
    if (i == n) return;
    H tail[3][pair_lanes] = {};
    std::copy(x + i, x + n, tail[1]);
    std::copy(y + i, y + n, tail[2]);
    run(tail[0], tail[1], tail[2]);
    std::copy(tail[0], tail[0] + (n - i), z + i);
}
template <class Fn>
void add_half_tiles(const Formula& formula) {
    prepared_for(formula, DType::F16).native = half_tile<Fn, Half>;
    prepared_for(formula, DType::BF16).native = half_tile<Fn, BFloat16>;
}
// For two operands of which one is a single element.
template <class Fn, class T, bool first>
void fixed_tile(char** data, int64_t n, const void* context) {
    auto f = bound<Fn, T, T>(context);
    using R = decltype(f(T(), T()));
    const T fixed = *reinterpret_cast<const T*>(data[first ? 1 : 2]);
    const T* in[] = {reinterpret_cast<const T*>(data[first ? 2 : 1])};
    in_blocks<R, T, 1>(reinterpret_cast<R*>(data[0]), in, n, [f, fixed](R* z, const T* const(&p)[1], int64_t count) {
        const T* x = p[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] = first ? f(fixed, x[i]) : f(x[i], fixed);
    });
}
template <class Fn, class T>
void ternary_tile(char** data, int64_t n, const void* context) {
    auto f = bound<Fn, T, T, T>(context);
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1]), reinterpret_cast<const S*>(data[2]),
                     reinterpret_cast<const S*>(data[3])};
    in_blocks<T, S, 3>(reinterpret_cast<T*>(data[0]), in, n, [f](T* y, const S* const(&p)[3], int64_t count) {
        const S *a = p[0], *b = p[1], *c = p[2];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = f(T(a[i]), T(b[i]), T(c[i]));
    });
}
template <unsigned domain, class Make>
Kernels make_kernels(Make make) {
    Kernels k;
    auto put = [&]<class T>(TypeTag<T> tag) {
        if constexpr ((domain_of_type<T>() & domain) != 0) k.by_dtype[static_cast<int>(dtype_of<T>())] = make(tag);
    };
    put(TypeTag<bool>{}), put(TypeTag<uint8_t>{}), put(TypeTag<uint16_t>{}), put(TypeTag<uint32_t>{}),
        put(TypeTag<uint64_t>{});
    put(TypeTag<int8_t>{}), put(TypeTag<int16_t>{}), put(TypeTag<int32_t>{}), put(TypeTag<int64_t>{});
    put(TypeTag<float>{}), put(TypeTag<double>{}), put(TypeTag<c64>{}), put(TypeTag<c128>{});
    return k;
}
template <class Fn, unsigned domain>
Kernels unary_kernels() {
    return make_kernels<domain>([]<class T>(TypeTag<T>) -> TileFn { return unary_tile<Fn, T>; });
}
template <class Fn, unsigned domain>
Kernels binary_kernels() {
    return make_kernels<domain>([]<class T>(TypeTag<T>) -> TileForms {
        if constexpr (std::is_floating_point_v<T>)
            return {binary_tile<Fn, T>, fixed_tile<Fn, T, true>, fixed_tile<Fn, T, false>};
        else return binary_tile<Fn, T>;
    });
}
template <class Fn, unsigned domain>
Kernels ternary_kernels() {
    return make_kernels<domain>([]<class T>(TypeTag<T>) -> TileFn { return ternary_tile<Fn, T>; });
}
// Loops with branches, which the compiler does not vectorise, so they need no padded tails.
template <class Fn, class T, int inputs>
void loop_tile(char** data, int64_t n, const void* context) {
    T* y = reinterpret_cast<T*>(data[0]);
    const T* x = reinterpret_cast<const T*>(data[1]);
    if constexpr (inputs == 1) {
        auto f = bound<Fn, T>(context);
        for (int64_t i = 0; i < n; i++) y[i] = f(x[i]);
    } else {
        auto f = bound<Fn, T, T>(context);
        const T* z = reinterpret_cast<const T*>(data[2]);
        for (int64_t i = 0; i < n; i++) y[i] = f(x[i], z[i]);
    }
}
template <class Fn, int inputs>
Kernels loop_kernels() {
    return make_kernels<formulas::F>([]<class T>(TypeTag<T>) -> TileFn { return loop_tile<Fn, T, inputs>; });
}
template <class Fn, unsigned domain, int inputs>
Kernels kernels() {
    if constexpr (inputs == 1) return unary_kernels<Fn, domain>();
    else if constexpr (inputs == 2) return binary_kernels<Fn, domain>();
    else return ternary_kernels<Fn, domain>();
}

}  // namespace fb::cpu
