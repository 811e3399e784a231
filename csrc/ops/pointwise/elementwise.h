// Elementwise ops: rows turned into kernels for each compute type, and the doors that promote, broadcast and launch
// them.
#pragma once
#include "backend/cpu/halves.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math.h"
#include "base/bool.h"
#include "ops/table/common.h"

namespace fb::ew {

using cpu::TileFn, cpu::TileForms;

enum Domain : unsigned {
    B = 1,
    I = 2,
    F = 4,
    C = 8,
    BI = B | I,
    IF = I | F,
    BIF = B | I | F,
    FC = F | C,
    IFC = I | F | C,
    ALL = 15,
    E = 16  // 8-bit floats too, computed in float32; see Note [Storage dtypes]
};

// What comes out: the common dtype; a float of it; bool; the real part's dtype; a float, real.
enum class Result { Same, Float, Bool, Real, FloatReal };

// One kernel per compute type, outputs of one type; nullptr where the domain excludes it.
struct Kernels {
    TileForms by_dtype[dtype_count] = {};
    bool float8 = false;
    const TileForms& operator[](DType d) const { return by_dtype[static_cast<int>(d)]; }
};

template <class T>
constexpr unsigned domain_of() {
    if constexpr (std::is_same_v<T, bool>) return B;
    else if constexpr (std::is_integral_v<T>) return I;
    else if constexpr (std::is_floating_point_v<T>) return F;
    else return C;
}

// Note [Tails]: a vector function and its scalar twin may differ in the last bit, so which elements a loop leaves to
// its scalar tail must not depend on how the work was split. Tails therefore go through a padded block of full vectors.
inline constexpr int64_t block = 16;

// Calls body(i) for i in [0, n) in vector blocks; loads and stores of the last, partial block go through copies.
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

template <class Fn, class T>
void unary_tile(char** data, int64_t n, const void*) {
    using R = decltype(Fn::f(T()));
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1])};
    in_blocks<R, S, 1>(reinterpret_cast<R*>(data[0]), in, n, [](R* y, const S* const(&p)[1], int64_t count) {
        const S* x = p[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = Fn::f(T(x[i]));
    });
}
template <class Fn, class T>
void binary_tile(char** data, int64_t n, const void*) {
    using R = decltype(Fn::f(T(), T()));
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1]), reinterpret_cast<const S*>(data[2])};
    in_blocks<R, S, 2>(reinterpret_cast<R*>(data[0]), in, n, [](R* z, const S* const(&p)[2], int64_t count) {
        const S *x = p[0], *y = p[1];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] = Fn::f(T(x[i]), T(y[i]));
    });
}
// Halves without a tile in between, for formulas that work on vectors. Tails as in Note [Tails].
template <class Fn, class H>
void half_tile(char** data, int64_t n, const void*) {
    H* z = reinterpret_cast<H*>(data[0]);
    const H *x = reinterpret_cast<const H*>(data[1]), *y = reinterpret_cast<const H*>(data[2]);
    auto run = [](H* to, const H* a, const H* b) {
        cpu::Floats8 p[2], q[2];
        cpu::load_pair(a, p[0], p[1]);
        cpu::load_pair(b, q[0], q[1]);
        cpu::store_pair(to, Fn::f(p[0], q[0]), Fn::f(p[1], q[1]));
    };
    int64_t i = 0;
    for (; i + cpu::pair_lanes <= n; i += cpu::pair_lanes) run(z + i, x + i, y + i);
    if (i == n) return;
    H tail[3][cpu::pair_lanes] = {};
    std::copy(x + i, x + n, tail[1]);
    std::copy(y + i, y + n, tail[2]);
    run(tail[0], tail[1], tail[2]);
    std::copy(tail[0], tail[0] + (n - i), z + i);
}
template <class Fn>
void add_half_tiles(Kernels& kernels) {
    kernels.by_dtype[static_cast<int>(DType::F16)] = half_tile<Fn, Half>;
    kernels.by_dtype[static_cast<int>(DType::BF16)] = half_tile<Fn, BFloat16>;
}
// One of the operands is a single element.
template <class Fn, class T, bool first>
void fixed_tile(char** data, int64_t n, const void*) {
    using R = decltype(Fn::f(T(), T()));
    const T fixed = *reinterpret_cast<const T*>(data[first ? 1 : 2]);
    const T* in[] = {reinterpret_cast<const T*>(data[first ? 2 : 1])};
    in_blocks<R, T, 1>(reinterpret_cast<R*>(data[0]), in, n, [fixed](R* z, const T* const(&p)[1], int64_t count) {
        const T* x = p[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] = first ? Fn::f(fixed, x[i]) : Fn::f(x[i], fixed);
    });
}
template <class Fn, class T>
void ternary_tile(char** data, int64_t n, const void*) {
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1]), reinterpret_cast<const S*>(data[2]),
                     reinterpret_cast<const S*>(data[3])};
    in_blocks<T, S, 3>(reinterpret_cast<T*>(data[0]), in, n, [](T* y, const S* const(&p)[3], int64_t count) {
        const S *a = p[0], *b = p[1], *c = p[2];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = Fn::f(T(a[i]), T(b[i]), T(c[i]));
    });
}
// With a context: Fn::f(x, const Context&).
template <class Fn, class Context, class T>
void context_tile(char** data, int64_t n, const void* context) {
    using R = decltype(Fn::f(T(), std::declval<const Context&>()));
    const Context c = *static_cast<const Context*>(context);
    using S = Stored<T>;
    const S* in[] = {reinterpret_cast<const S*>(data[1])};
    in_blocks<R, S, 1>(reinterpret_cast<R*>(data[0]), in, n, [&c](R* y, const S* const(&p)[1], int64_t count) {
        const S* x = p[0];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) y[i] = Fn::f(T(x[i]), c);
    });
}

template <unsigned domain, class Make>
constexpr Kernels make_kernels(Make make) {
    Kernels k;
    auto put = [&]<class T>(TypeTag<T> tag) {
        if constexpr ((domain_of<T>() & domain) != 0) k.by_dtype[static_cast<int>(dtype_of<T>())] = make(tag);
    };
    put(TypeTag<bool>{}), put(TypeTag<uint8_t>{}), put(TypeTag<uint16_t>{}), put(TypeTag<uint32_t>{}),
        put(TypeTag<uint64_t>{});
    put(TypeTag<int8_t>{}), put(TypeTag<int16_t>{}), put(TypeTag<int32_t>{}), put(TypeTag<int64_t>{});
    put(TypeTag<float>{}), put(TypeTag<double>{}), put(TypeTag<c64>{}), put(TypeTag<c128>{});
    k.float8 = (domain & E) != 0;
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
template <class Fn, class Context, unsigned domain>
Kernels context_kernels() {
    return make_kernels<domain>([]<class T>(TypeTag<T>) -> TileFn { return context_tile<Fn, Context, T>; });
}

// ---- doors
// -----------------------------------------------------------------------------------------------------------------

// Broadcasts the inputs, makes the output, runs the kernel. `compute` is how the kernel sees each input.
Tensor launch(Args& a, Tensors inputs, DType out_dtype, DType out_compute, std::initializer_list<DType> compute,
              const TileForms& fn, const void* context = nullptr, double cost = 1);

// The common cases: all inputs in one compute type.
Tensor unary(Args& a, const Tensor& x, const Kernels& kernels, Result result, double cost = 1,
             const void* context = nullptr);
Tensor binary(Args& a, const Tensor& x, const Tensor& y, const Kernels& kernels, Result result, double cost = 1);
Tensor ternary(Args& a, const Tensor& x, const Tensor& y, const Tensor& z, const Kernels& kernels, double cost = 1);

// Integer division by zero is an error before anything is written; floats divide to inf and nan.
void check_divisor(const Tensor& x, const Tensor& y);

// For other families: without out=.
Tensor unary(const Tensor& x, const Kernels& kernels, Result result);

}  // namespace fb::ew
