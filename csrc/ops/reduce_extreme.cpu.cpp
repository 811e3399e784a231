// amax, amin, aminmax: a NaN wins and stays.
#include <limits>

#include "ops/reduce.h"
#include "ops/reduce_kernels.h"

namespace fb {
namespace {

template <class X>
using LaneOf = std::conditional_t<is_half_type<X>, float, X>;

template <class L, bool largest>
inline L better(L a, L x) {
    if constexpr (std::is_floating_point_v<L>) {
        bool take = (largest ? x > a : x < a) | (x != x);
        return take ? x : a;
    } else {
        return largest ? (x > a ? x : a) : (x < a ? x : a);
    }
}

template <class L, bool largest>
constexpr L worst() {
    if constexpr (std::is_floating_point_v<L>) return largest ? -std::numeric_limits<L>::infinity() : std::numeric_limits<L>::infinity();
    else return largest ? std::numeric_limits<L>::lowest() : std::numeric_limits<L>::max();
}

template <class X, bool largest>
struct Extreme {
    using T = X;
    using L = LaneOf<X>;
    using A = L;
    using R = L;
    static L unit() { return worst<L, largest>(); }
    static A neutral() { return unit(); }
    static L step(L l, T x) { return better<L, largest>(l, L(x)); }
    static A join(A a, A b) { return better<L, largest>(a, b); }
    static A widen(L l) { return l; }
    static R result(A a, const void*) { return a; }
};

template <class L>
struct Range {
    L low, high;
};

template <class X>
struct MinMax {
    using T = X;
    using S = LaneOf<X>;
    using L = Range<S>;
    using A = L;
    using R = S;
    static L unit() { return {worst<S, false>(), worst<S, true>()}; }
    static A neutral() { return unit(); }
    static L step(L l, T x) { return {better<S, false>(l.low, S(x)), better<S, true>(l.high, S(x))}; }
    static A join(A a, A b) { return {better<S, false>(a.low, b.low), better<S, true>(a.high, b.high)}; }
    static A widen(L l) { return l; }
    static R result(A a, const void*) { return a.low; }
    static void finish(char* const* out, const char* acc, int64_t n, const void*) {
        const A* a = reinterpret_cast<const A*>(acc);
        for (int64_t i = 0; i < n; i++) {
            reinterpret_cast<S*>(out[0])[i] = a[i].low;
            reinterpret_cast<S*>(out[1])[i] = a[i].high;
        }
    }
};

}  // namespace

ReduceKernel extreme_kernel(DType d, bool largest) {
    return dispatch_real(d, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return largest ? KernelOf<Extreme<T, true>>::kernel() : KernelOf<Extreme<T, false>>::kernel();
    });
}

ReduceKernel aminmax_kernel(DType d) {
    return dispatch_real(d, [&](auto tag) {
        using Op = MinMax<typename decltype(tag)::type>;
        ReduceKernel k = KernelOf<Op>::kernel();
        k.results = 2;
        k.finish = Op::finish;
        return k;
    });
}

}  // namespace fb
