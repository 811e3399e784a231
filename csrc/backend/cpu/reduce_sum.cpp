// Sums, products and counts. float32 gathers in short float lanes that join in double: as quick as one long float sum
// and more exact than it.
#include "backend/cpu/reduce.h"
#include "backend/cpu/reduce_kernels.h"

namespace fb::cpu {
namespace {

template <class X>
struct Wide {  // lane and accumulator of a sum
    using L = std::conditional_t<is_half_type<X>, float, std::conditional_t<std::is_integral_v<X>, int64_t, X>>;
    using A = std::conditional_t<std::is_same_v<L, float>, double, std::conditional_t<std::is_same_v<L, c64>, c128, L>>;
    using R = L;
};

inline int64_t wrapping_add(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrapping_mul(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class X>
struct Sum : Wide<X> {
    using T = X;
    using typename Wide<X>::L;
    using typename Wide<X>::A;
    using typename Wide<X>::R;
    static L unit() { return L(0); }
    static A neutral() { return A(0); }
    static L step(L l, T x) {
        if constexpr (std::is_same_v<L, int64_t>) return wrapping_add(l, static_cast<int64_t>(x));
        else return l + L(x);
    }
    static L fold(L a, L b) {
        if constexpr (std::is_same_v<L, int64_t>) return wrapping_add(a, b);
        else return a + b;
    }
    static A join(A a, A b) {
        if constexpr (std::is_same_v<A, int64_t>) return wrapping_add(a, b);
        else return a + b;
    }
    static A widen(L l) { return A(l); }
    static R result(A a, const void*) { return R(a); }
};

template <class X>
struct NanSum : Sum<X> {
    using typename Sum<X>::L;
    static L step(L l, X x) {
        L v = L(x);
        return l + (v == v ? v : L(0));
    }
};

template <class X>
struct Mean : Sum<X> {
    using typename Sum<X>::A;
    using typename Sum<X>::R;
    static R result(A a, const void* count) { return R(a / *static_cast<const double*>(count)); }
};

template <class X>
struct Prod : Wide<X> {
    using T = X;
    using typename Wide<X>::L;
    using typename Wide<X>::A;
    using typename Wide<X>::R;
    static L unit() { return L(1); }
    static A neutral() { return A(1); }
    static L step(L l, T x) {
        if constexpr (std::is_same_v<L, int64_t>) return wrapping_mul(l, static_cast<int64_t>(x));
        else return l * L(x);
    }
    static L fold(L a, L b) {
        if constexpr (std::is_same_v<L, int64_t>) return wrapping_mul(a, b);
        else return a * b;
    }
    static A join(A a, A b) {
        if constexpr (std::is_same_v<A, int64_t>) return wrapping_mul(a, b);
        else return a * b;
    }
    static A widen(L l) { return A(l); }
    static R result(A a, const void*) { return R(a); }
};

template <class X>
struct Count {
    using T = X;
    using L = int64_t;
    using A = int64_t;
    using R = int64_t;
    static L unit() { return 0; }
    static A neutral() { return 0; }
    static L step(L l, T x) {
        if constexpr (is_half_type<T>) return l + ((x.bits & 0x7fff) != 0);
        else return l + (x != T(0));
    }
    static L fold(L a, L b) { return a + b; }
    static A join(A a, A b) { return a + b; }
    static A widen(L l) { return l; }
    static R result(A a, const void*) { return a; }
};

// any: some element is not zero. all: no element is zero, kept as "some element is zero".
template <class X, bool every>
struct Truth {
    using T = X;
    using L = uint8_t;
    using A = uint8_t;
    using R = bool;
    static L unit() { return 0; }
    static A neutral() { return 0; }
    static L step(L l, T x) {
        bool zero;
        if constexpr (is_half_type<T>) zero = (x.bits & 0x7fff) == 0;
        else zero = x == T(0);
        return static_cast<L>(l | (zero == every ? 1 : 0));
    }
    static L fold(L a, L b) { return a | b; }
    static A join(A a, A b) { return a | b; }
    static A widen(L l) { return l; }
    static R result(A a, const void*) { return (a != 0) != every; }
};

bool found(const char* acc) { return *acc != 0; }

// float16 arrives converted: the driver does that faster than a loop over single elements.
DType as_read(DType d) { return d == DType::F16 ? DType::F32 : d; }

template <template <class> class Op>
ReduceKernel floating(DType d) {
    return dispatch<BFloat16, float, double>(as_read(d), "a floating point dtype", [](auto tag) {
        return KernelOf<Op<typename decltype(tag)::type>>::kernel();
    });
}

}  // namespace

ReduceKernel sum_kernel(DType d) {
    return dispatch<bool, FB_INTS, BFloat16, float, double>(
        as_read(d), "a real dtype", [](auto tag) { return KernelOf<Sum<typename decltype(tag)::type>>::kernel(); });
}
ReduceKernel nansum_kernel(DType d) { return floating<NanSum>(d); }
ReduceKernel mean_kernel(DType d) { return floating<Mean>(d); }
ReduceKernel prod_kernel(DType d) {
    return dispatch<bool, FB_INTS, BFloat16, float, double, c64, c128>(
        as_read(d), "any dtype", [](auto tag) { return KernelOf<Prod<typename decltype(tag)::type>>::kernel(); });
}
ReduceKernel count_kernel(DType d) {
    return dispatch_all(d, [](auto tag) { return KernelOf<Count<typename decltype(tag)::type>>::kernel(); });
}

ReduceKernel truth_kernel(DType d, bool all) {
    return dispatch_all(d, [&](auto tag) {
        using T = typename decltype(tag)::type;
        ReduceKernel k = all ? KernelOf<Truth<T, true>>::kernel() : KernelOf<Truth<T, false>>::kernel();
        k.done = found;
        return k;
    });
}

}  // namespace fb::cpu
