// Variance and norms. The variance of a block is taken around the block's own mean while it is in the cache; blocks are
// merged in double by the parallel update formula, so neither large means nor long inputs lose precision.
#include <cmath>
#include <limits>

#include "backend/cpu/loops.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/reduce_rows.h"
#include "base/vector_math.h"

namespace fb::cpu {
namespace {

struct Moments {
    double count, mean, squares;
};

inline Moments join(const Moments& a, const Moments& b) {
    auto [count, mean, squares] = row::Moments::combine(a.count, a.mean, a.squares, b.count, b.mean, b.squares);
    return {count, mean, squares};
}

template <class T>
struct Variance {
    using L = std::conditional_t<std::is_same_v<T, double>, double, float>;

    static void init(char* acc, int64_t n) {
        Moments* a = reinterpret_cast<Moments*>(acc);
        for (int64_t i = 0; i < n; i++) a[i] = {0, 0, 0};
    }
    static void row(char* acc, const char* p, int64_t n) {
        if (n == 0) return;
        const T* x = reinterpret_cast<const T*>(p);
        double mean = total(x, n, [](L v) { return v; }) / static_cast<double>(n);
        L center = std::isfinite(mean) ? static_cast<L>(mean) : L(0);
        double drift = total(x, n, [center](L v) { return v - center; });
        double squares = total(x, n, [center](L v) { return (v - center) * (v - center); });
        add(*reinterpret_cast<Moments*>(acc), n, center, drift, squares);
    }
    static void rows(char* acc, const char* p, int64_t stride, int64_t rows, int64_t cols) {
        constexpr int64_t width = 256;
        alignas(64) L sums[width], centers[width], drifts[width], squares[width];
        Moments* a = reinterpret_cast<Moments*>(acc);
        for (int64_t first = 0; first < cols; first += width) {
            int64_t n = std::min(width, cols - first);
            for (int64_t j = 0; j < n; j++) sums[j] = drifts[j] = squares[j] = 0;
            for (int64_t r = 0; r < rows; r++) {
                const T* __restrict x = reinterpret_cast<const T*>(p + r * stride) + first;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) sums[j] += L(x[j]);
            }
            for (int64_t j = 0; j < n; j++) {
                centers[j] = sums[j] / static_cast<L>(rows);
                if (!std::isfinite(centers[j])) centers[j] = 0;
            }
            for (int64_t r = 0; r < rows; r++) {
                const T* __restrict x = reinterpret_cast<const T*>(p + r * stride) + first;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) {
                    L d = L(x[j]) - centers[j];
                    drifts[j] += d;
                    squares[j] += d * d;
                }
            }
            for (int64_t j = 0; j < n; j++) add(a[first + j], rows, centers[j], drifts[j], squares[j]);
        }
    }
    static void merge(char* acc, const char* other, int64_t n) {
        Moments* a = reinterpret_cast<Moments*>(acc);
        const Moments* b = reinterpret_cast<const Moments*>(other);
        for (int64_t i = 0; i < n; i++) a[i] = join(a[i], b[i]);
    }
    static void finish(char* const* out, const char* acc, int64_t n, const void* context) {
        const Moments* a = reinterpret_cast<const Moments*>(acc);
        const RowNumbers numbers(context, row::Moments::numbers);
        for (int64_t i = 0; i < n; i++) {
            auto [variance, mean] = row::Moments::finish(a[i].count, a[i].mean, a[i].squares, numbers);
            reinterpret_cast<L*>(out[0])[i] = static_cast<L>(variance);
            reinterpret_cast<L*>(out[1])[i] = static_cast<L>(mean);
        }
    }

  private:
    // Sum of f over the block in 64 lanes.
    template <class F>
    static double total(const T* __restrict x, int64_t n, F f) {
        constexpr int64_t width = 64;
        alignas(64) L lanes[width];
        for (int64_t j = 0; j < width; j++) lanes[j] = 0;
        int64_t i = 0;
        for (; i + 4 * width <= n; i += 4 * width) {
#pragma omp simd
            for (int64_t j = 0; j < width; j++) {
                lanes[j] += (f(L(x[i + j])) + f(L(x[i + j + width]))) +
                            (f(L(x[i + j + 2 * width])) + f(L(x[i + j + 3 * width])));
            }
        }
        for (; i < n; i += width) {
            int64_t m = std::min(width, n - i);
            for (int64_t j = 0; j < m; j++) lanes[j] += f(L(x[i + j]));
        }
        for (int64_t left = width; left > 8; left /= 2) {
#pragma omp simd
            for (int64_t j = 0; j < left / 2; j++) lanes[j] += lanes[j + left / 2];
        }
        double s = 0;
        for (int64_t j = 0; j < 8; j++) s += lanes[j];
        return s;
    }
    // A block of n elements, relative to `center`.
    static void add(Moments& a, int64_t n, double center, double drift, double squares) {
        double count = static_cast<double>(n), shift = drift / count;
        a = join(a, Moments{count, center + shift, squares - drift * shift});
    }
};

// Any other order: |x|^p elementwise first, then a sum.
template <class X>
void power_tile(char** data, int64_t n, const void* context) {
    using L = std::conditional_t<std::is_same_v<X, double> || std::is_same_v<X, c128>, double, float>;
    L ord = static_cast<L>(*static_cast<const double*>(context));
    L* __restrict y = reinterpret_cast<L*>(data[0]);
    const X* __restrict x = reinterpret_cast<const X*>(data[1]);
    if constexpr (is_complex_type<X>) {
        for (int64_t i = 0; i < n; i++) y[i] = std::pow(std::hypot(x[i].real(), x[i].imag()), ord);
    } else if constexpr (std::is_same_v<X, float>) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = ::powf(std::fabs(x[i]), ord);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = ::pow(std::fabs(x[i]), ord);
    }
}

void root_tile(char** data, int64_t n, const void* context) {
    double inverse = 1 / *static_cast<const double*>(context);
    double* y = reinterpret_cast<double*>(data[0]);
    const double* x = reinterpret_cast<const double*>(data[1]);
    for (int64_t i = 0; i < n; i++) y[i] = std::pow(x[i], inverse);
}

template <class Row>
ReduceKernel norm_of(DType d) {
    return dispatch<BFloat16, float, double, c64, c128>(
        d == DType::F16 ? DType::F32 : d, "a floating point or complex dtype",
        [](auto tag) { return KernelOf<RowOp<Row, typename decltype(tag)::type>>::kernel(); });
}

}  // namespace

ReduceKernel moments_kernel(DType d) {
    return dispatch<BFloat16, float, double>(d == DType::F16 ? DType::F32 : d, "a floating point dtype", [](auto tag) {
        using T = typename decltype(tag)::type;
        using V = Variance<T>;
        return ReduceKernel{
            dtype_of<T>(), dtype_of<typename V::L>(), sizeof(Moments), 2, V::init, V::row, V::rows, V::merge,
            V::finish};
    });
}

ReduceKernel norm_kernel(DType d, double ord) {
    if (ord == 0) return norm_of<row::NonZeros>(d);
    if (ord == 1) return norm_of<row::Absolutes>(d);
    if (ord == 2) return norm_of<row::Euclidean>(d);
    return ord > 0 ? norm_of<row::LargestAbsolute>(d) : norm_of<row::SmallestAbsolute>(d);
}

void absolute_power(const Tensor& t, const Tensor& result, double ord) {
    LoopPlan plan;
    const Tensor* operands[] = {&result, &t};
    make_plan(plan, t.shape(), operands, 2);
    dispatch<float, double, c64, c128>(compute_dtype(t.dtype()), "a floating point or complex dtype", [&](auto tag) {
        DType compute[] = {result.dtype(), compute_dtype(t.dtype())};
        run_tiles(plan, compute, 1, power_tile<typename decltype(tag)::type>, &ord, 20);
    });
}

void take_root(const Tensor& t, double ord) {
    LoopPlan plan;
    const Tensor* operands[] = {&t, &t};
    make_plan(plan, t.shape(), operands, 2);
    DType compute[] = {DType::F64, DType::F64};
    run_tiles(plan, compute, 1, root_tile, &ord, 20);
}

}  // namespace fb::cpu
