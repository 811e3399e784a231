// Cumulative sums, products and extremes. Along the last dimension a row is a chain; along others, whole rows are
// combined. float32 computes in double.
#include "device/scan.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/around_dim.h"
#include "backend/cpu/reduce_rows.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t tile = 256;
constexpr int64_t chunk = 1 << 16;  // long rows are scanned in chunks of this size, whatever the number of threads

template <class T>
using Wide = std::conditional_t<
    std::is_same_v<T, float>, double,
    std::conditional_t<std::is_same_v<T, c64>, c128, std::conditional_t<std::is_integral_v<T>, uint64_t, T>>>;

// As many doubles, or 64-bit integers, as a register holds: wider shuffles would go through memory.
#ifdef __AVX512F__
constexpr int64_t lanes = 8;
#else
constexpr int64_t lanes = 4;
#endif
template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(lanes * sizeof(T))));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class A, class T>
inline Vector<A> load(const T* x) {
    Vector<T> v;
    std::memcpy(&v, x, sizeof v);
    return __builtin_convertvector(v, Vector<A>);
}
template <class A, class T>
inline void store(T* y, Vector<A> v) {
    Vector<T> w = __builtin_convertvector(v, Vector<T>);
    std::memcpy(y, &w, sizeof w);
}

// The prefix sums of a vector, by shifted additions; and its last element broadcast.
#ifdef __AVX512F__
template <class V>
inline V prefix(V v) {
    const V zero = {};
    v += __builtin_shufflevector(zero, v, 0, 8, 9, 10, 11, 12, 13, 14);
    v += __builtin_shufflevector(zero, v, 0, 1, 8, 9, 10, 11, 12, 13);
    v += __builtin_shufflevector(zero, v, 0, 1, 2, 3, 8, 9, 10, 11);
    return v;
}
template <class V>
inline V last(V v) {
    return __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7);
}
#else
template <class V>
inline V prefix(V v) {
    const V zero = {};
    v += __builtin_shufflevector(zero, v, 0, 4, 5, 6);
    v += __builtin_shufflevector(zero, v, 0, 1, 4, 5);
    return v;
}
template <class V>
inline V last(V v) {
    return __builtin_shufflevector(v, v, 3, 3, 3, 3);
}
#endif

// Scans x from the identity; y[i] = offset ∘ scan. Returns the whole row's value without the offset. If y is null, only
// that.
template <class Row, class S, class T, class A>
A scan_row(const S* __restrict x, T* __restrict y, int64_t n, A offset) {
    A run = Row::template identity<A>();
    int64_t i = 0;
    if constexpr (std::is_same_v<Row, row::Sum> && (std::is_same_v<A, double> || std::is_same_v<A, uint64_t>)) {
        Vector<A> carry = {};
        const Vector<A> base = carry + offset;
        for (; i + lanes <= n; i += lanes) {
            // One addition leads from a vector to the next.
            Vector<A> inside = prefix(load<A>(x + i)), sums = inside + carry;
            carry += last(inside);
            if (y) store<A>(y + i, sums + base);
        }
        run = carry[0];
    }
    for (; i < n; i++) {
        run = Row::combine(run, A(x[i]));
        if (y) y[i] = static_cast<T>(Row::combine(offset, run));
    }
    return run;
}

template <class Row, class S, class T>
void scan_rows(const S* x, T* y, const AroundDim& s) {
    using A = Wide<T>;
    if (s.outer == 1 && s.size > chunk && num_threads() > 1) {
        int64_t chunks = (s.size + chunk - 1) / chunk;
        std::vector<A> totals(static_cast<size_t>(chunks));
        auto piece = [&](int64_t c, T* to, A offset) {
            return scan_row<Row, S, T, A>(x + c * chunk, to, std::min(chunk, s.size - c * chunk), offset);
        };
        parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
            for (int64_t c = begin; c < end; c++)
                totals[static_cast<size_t>(c)] = piece(c, nullptr, Row::template identity<A>());
        });
        A offset = Row::template identity<A>();
        for (A& total : totals) {
            A next = Row::combine(offset, total);
            total = offset;
            offset = next;
        }
        parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
            for (int64_t c = begin; c < end; c++) piece(c, y + c * chunk, totals[static_cast<size_t>(c)]);
        });
        return;
    }
    parallel_for(s.outer, std::max<int64_t>(1, parallel_grain / s.size), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r++) {
            A offset = Row::template identity<A>();
            for (int64_t first = 0; first < s.size; first += chunk) {
                int64_t at = r * s.size + first;
                offset = Row::combine(offset,
                                      scan_row<Row, S, T, A>(x + at, y + at, std::min(chunk, s.size - first), offset));
            }
        }
    });
}

// Calls f(offset of the first element, columns) for tiles of adjacent columns.
template <class F>
void each_tile(const AroundDim& s, F&& f) {
    int64_t per_row = (s.inner + tile - 1) / tile;
    int64_t work = s.size * std::min(tile, s.inner);
    parallel_for(s.outer * per_row, std::max<int64_t>(1, parallel_grain / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t k = begin; k < end; k++) {
                         int64_t first = k % per_row * tile;
                         f(k / per_row * s.size * s.inner + first, std::min(tile, s.inner - first));
                     }
                 });
}

template <class Row, class S, class T>
void scan_columns(const S* x, T* y, const AroundDim& s) {
    using A = Wide<T>;
    each_tile(s, [&](int64_t first, int64_t cols) {
        A run[tile];
        for (int64_t j = 0; j < cols; j++) run[j] = Row::template identity<A>();
        for (int64_t r = 0; r < s.size; r++) {
            const S* __restrict from = x + first + r * s.inner;
            T* __restrict to = y + first + r * s.inner;
#pragma omp simd
            for (int64_t j = 0; j < cols; j++) {
                run[j] = Row::combine(run[j], A(from[j]));
                to[j] = static_cast<T>(run[j]);
            }
        }
    });
}

template <class Row>
void scan(const Tensor& in, const Tensor& out, int64_t dim) {
    if (in.numel() == 0) return;
    AroundDim s = around(in, dim);
    dispatch<uint8_t, int32_t, int64_t, float, double, c64, c128>(in.dtype(), "a dtype that scans", [&](auto tag) {
        using S = typename decltype(tag)::type;
        using T = std::conditional_t<std::is_integral_v<S>, int64_t, S>;
        if (s.inner == 1) scan_rows<Row, S, T>(in.data<S>(), out.data<T>(), s);
        else scan_columns<Row, S, T>(in.data<S>(), out.data<T>(), s);
    });
}

// log Σ exp as m + log(s): m is the largest so far, s the sum scaled by it.
template <class T>
struct LogSum {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    T add(T value) {
        double x = value;
        if (x != x || top != top) top = std::numeric_limits<double>::quiet_NaN();
        else if (x == top) sum += 1;
        else if (x < top) sum += std::exp(x - top);
        else {
            sum = sum * std::exp(top - x) + 1;
            top = x;
        }
        return static_cast<T>(std::isinf(top) ? top : top + std::log(sum));
    }
};
// Complex numbers: the one with the larger real part, plus log(1 + exp(other - it)). The angle may exceed π.
template <class R>
struct LogSum<std::complex<R>> {
    c128 run{-std::numeric_limits<double>::infinity(), 0};
    std::complex<R> add(std::complex<R> value) {
        c128 low(value.real(), value.imag()), high = run;
        if (low.real() > high.real()) std::swap(low, high);
        if (low != low || high != high)
            run = c128(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN());
        else if (low.real() == -std::numeric_limits<double>::infinity()) run = high;
        else run = high + std::log(1.0 + std::exp(low - high));
        return {static_cast<R>(run.real()), static_cast<R>(run.imag())};
    }
};

template <class T, bool largest>
void extreme_columns(const T* x, const AroundDim& s, T* v, int64_t* at) {
    auto nan = [](T a) { return a != a; };
    each_tile(s, [&](int64_t first, int64_t cols) {
        T best[tile];
        int64_t place[tile];
        for (int64_t r = 0; r < s.size; r++) {
            const T* __restrict from = x + first + r * s.inner;
            if (r == 0) {
                for (int64_t j = 0; j < cols; j++) {
                    best[j] = from[j];
                    place[j] = 0;
                }
            }
            T* __restrict values = v + first + r * s.inner;
            int64_t* __restrict places = at + first + r * s.inner;
            for (int64_t j = 0; j < cols; j++) {
                T a = from[j];
                bool take = nan(a) | (!nan(best[j]) & (largest ? a >= best[j] : a <= best[j]));
                best[j] = take ? a : best[j];
                place[j] = take ? r : place[j];
                values[j] = best[j];
                places[j] = place[j];
            }
        }
    });
}

// Along the last dimension new extremes are rare: a block without one is only filled.
template <class T, bool largest>
void extreme_rows(const T* x, const AroundDim& s, T* v, int64_t* at) {
    constexpr int64_t block = 32;
    parallel_for(s.outer, std::max<int64_t>(1, parallel_grain / s.size), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; row++) {
            const T* __restrict from = x + row * s.size;
            T* __restrict values = v + row * s.size;
            int64_t* __restrict places = at + row * s.size;
            T best = from[0];
            int64_t place = 0;
            for (int64_t first = 0; first < s.size; first += block) {
                int64_t stop = std::min(s.size, first + block);
                int record = 0;
#pragma omp simd reduction(| : record)
                for (int64_t i = first; i < stop; i++) record |= !(largest ? from[i] < best : from[i] > best);
                if (!record) {
                    for (int64_t i = first; i < stop; i++) values[i] = best;
                    for (int64_t i = first; i < stop; i++) places[i] = place;
                    continue;
                }
                for (int64_t i = first; i < stop; i++) {
                    T a = from[i];
                    if (a != a || (best == best && (largest ? a >= best : a <= best))) {
                        best = a;
                        place = i;
                    }
                    values[i] = best;
                    places[i] = place;
                }
            }
        }
    });
}

template <class T, bool largest>
void extremes(const T* x, const AroundDim& s, T* v, int64_t* at) {
    if (s.inner == 1) extreme_rows<T, largest>(x, s, v, at);
    else extreme_columns<T, largest>(x, s, v, at);
}

}  // namespace

static void scan_sum(const Tensor& in, const Tensor& out, int64_t dim) { scan<row::Sum>(in, out, dim); }
static void scan_product(const Tensor& in, const Tensor& out, int64_t dim) { scan<row::Product>(in, out, dim); }

static void scan_logsumexp(const Tensor& in, const Tensor& out, int64_t dim) {
    if (in.numel() == 0) return;
    AroundDim s = around(in, dim);
    dispatch<float, double, c64, c128>(in.dtype(), "a floating point or complex dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = in.data<T>();
        T* y = out.data<T>();
        parallel_for(s.outer * s.inner, std::max<int64_t>(1, parallel_grain / (32 * s.size)),
                     [&](int64_t begin, int64_t end) {
                         for (int64_t k = begin; k < end; k++) {
                             LogSum<T> run;
                             int64_t first = k / s.inner * s.size * s.inner + k % s.inner;
                             for (int64_t r = 0; r < s.size; r++)
                                 y[first + r * s.inner] = run.add(x[first + r * s.inner]);
                         }
                     });
    });
}

static void scan_extreme(const Tensor& in, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
    if (in.numel() == 0) return;
    AroundDim s = around(in, dim);
    dispatch<uint8_t, int32_t, int64_t, uint64_t, float, double>(in.dtype(), "a real dtype", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (largest) extremes<T, true>(in.data<T>(), s, values.data<T>(), indices.data<int64_t>());
        else extremes<T, false>(in.data<T>(), s, values.data<T>(), indices.data<int64_t>());
    });
}

namespace {
const device::Provide<device::Scanning> provided(DeviceType::CPU, {.sum = scan_sum,
                                                                   .product = scan_product,
                                                                   .logsumexp = scan_logsumexp,
                                                                   .extreme = scan_extreme,
                                                                   .linear = linear_scan,
                                                                   .softmax = softmax,
                                                                   .softmax_backward = softmax_backward});
}  // namespace

}  // namespace fb::cpu
