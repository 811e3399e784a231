// Kernels of pooling. Channels-last: a window is reduced for a register of channels at a time. Planes: a whole row of
// windows is reduced tap by tap.
#include "device/pooling.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/parallel.h"

namespace fb::cpu {
namespace {

using device::PoolingShape;
using device::Span;

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif

template <class T>
struct Lane {
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    static constexpr int64_t width = vector_bytes / sizeof(T);
    typedef T Vector __attribute__((vector_size(vector_bytes)));
    typedef Index Indices __attribute__((vector_size(vector_bytes)));
};

template <class T>
constexpr T lowest() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::min();
}

template <class F>
void with_type(DType d, F&& f) {
    dispatch<float, double, int64_t>(d, "float32, float64 or int64", std::forward<F>(f));
}
template <class F>
void with_index(const Tensor& indices, F&& f) {
    if (!indices.defined() || indices.dtype() == DType::I64) f(TypeTag<int64_t>{});
    else f(TypeTag<int32_t>{});
}

// Minimum number of rows of windows per thread.
int64_t row_grain(const PoolingShape& s, int64_t planes) {
    double taps = double(s.pixels()) / std::max<int64_t>(s.out[0] * s.out[1], 1) * planes;
    return std::max<int64_t>(1, int64_t(parallel_grain / 4 / std::max(taps, 1.0)));
}

struct Box {
    Span z, y, x;
};
// Calls f(output row n, first and second output coordinate) for rows [begin, end) of (batch, out 0, out 1).
template <class F>
void each_row(const PoolingShape& s, int64_t begin, int64_t end, F f) {
    for (int64_t row = begin; row < end; row++) {
        int64_t b = row % s.out[1], a = row / s.out[1] % s.out[0], n = row / (s.out[1] * s.out[0]);
        f(row, n, s.spans[0][a], s.spans[1][b]);
    }
}
// Calls f(position in the plane) for every tap.
template <class F>
inline void each_tap(const PoolingShape& s, const Box& box, F f) {
    for (int64_t z = box.z.begin; z < box.z.end; z += s.step[0])
        for (int64_t y = box.y.begin; y < box.y.end; y += s.step[1]) {
            int64_t base = (z * s.in[1] + y) * s.in[2];
            for (int64_t x = box.x.begin; x < box.x.end; x += s.step[2]) f(base + x);
        }
}
inline int64_t first_tap(const PoolingShape& s, const Box& box) {
    return (box.z.begin * s.in[1] + box.y.begin) * s.in[2] + box.x.begin;
}

// ---- maxima ---------------------------------------------------------------------------------------------------------

// NaN wins, the last of several; else the first of equal values.
template <class T, class I, bool with>
void max_last(const PoolingShape& s, T* y, I* indices, const T* x) {
    using L = Lane<T>;
    using Index = typename L::Index;
    const int64_t C = s.channels, W = L::width;
    parallel_for(s.batch * s.out[0] * s.out[1], row_grain(s, C), [&](int64_t begin, int64_t end) {
        each_row(s, begin, end, [&](int64_t row, int64_t n, Span z, Span v) {
            const T* image = x + n * s.pixels() * C;
            for (int64_t c = 0; c < s.out[2]; c++) {
                Box box{z, v, s.spans[2][c]};
                int64_t at = (row * s.out[2] + c) * C;
                Index first = Index(first_tap(s, box));
                if (C < W) {
                    for (int64_t k = 0; k < C; k++) {
                        T best = lowest<T>();
                        Index where = first;
                        each_tap(s, box, [&](int64_t p) {
                            T value = image[p * C + k];
                            if (value > best || value != value) {
                                best = value;
                                where = Index(p);
                            }
                        });
                        y[at + k] = best;
                        if (with) indices[at + k] = where;
                    }
                    continue;
                }
                for (int64_t k = 0; k < C; k += W) {
                    int64_t from = std::min(k, C - W);
                    typename L::Vector best = lowest<T>() - typename L::Vector{};
                    typename L::Indices where = first - typename L::Indices{};
                    each_tap(s, box, [&](int64_t p) {
                        typename L::Vector value;
                        std::memcpy(&value, image + p * C + from, sizeof value);
                        auto take = (value > best) | (value != value);
                        best = take ? value : best;
                        if (with) where = take ? Index(p) - typename L::Indices{} : where;
                    });
                    std::memcpy(y + at + from, &best, sizeof best);
                    if (with) {
                        for (int64_t i = 0; i < W; i++) indices[at + from + i] = I(where[i]);
                    }
                }
            }
        });
    });
}

// One tap of a row of windows.
template <class T, class I, bool with, int64_t fixed>
void max_taps(const T* x, int64_t stride, int64_t n, T* __restrict best, I* __restrict where, I position) {
    const int64_t step = fixed ? fixed : stride;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        T value = x[i * step];
        bool take = (value > best[i]) | (value != value);
        best[i] = take ? value : best[i];
        if (with) where[i] = take ? I(position + I(i * step)) : where[i];
    }
}

// Windows [low, high) of a row for which tap number `tap` is inside.
void inside(const PoolingShape& s, int64_t tap, int64_t& low, int64_t& high) {
    int64_t shift = tap * s.step[2] - s.padding;
    low = shift >= 0 ? 0 : (-shift + s.stride - 1) / s.stride;
    int64_t room = s.in[2] - 1 - shift;
    high = room < 0 ? 0 : std::min(s.out[2], room / s.stride + 1);
    low = std::min(low, high);
}

template <class T, class I, bool with>
void max_planes(const PoolingShape& s, T* y, I* indices, const T* x) {
    parallel_for(s.batch * s.channels * s.out[0] * s.out[1], row_grain(s, 1), [&](int64_t begin, int64_t end) {
        each_row(s, begin, end, [&](int64_t row, int64_t n, Span z, Span v) {
            const T* plane = x + n * s.pixels();
            T* best = y + row * s.out[2];
            I* where = with ? indices + row * s.out[2] : nullptr;
            for (int64_t c = 0; c < s.out[2]; c++) {
                best[c] = lowest<T>();
                if (with) where[c] = I(first_tap(s, {z, v, s.spans[2][c]}));
            }
            if (!s.stride) {
                for (int64_t c = 0; c < s.out[2]; c++)
                    each_tap(s, {z, v, s.spans[2][c]}, [&](int64_t p) {
                        if (plane[p] > best[c] || plane[p] != plane[p]) {
                            best[c] = plane[p];
                            if (with) where[c] = I(p);
                        }
                    });
                return;
            }
            for (int64_t a = z.begin; a < z.end; a += s.step[0])
                for (int64_t b = v.begin; b < v.end; b += s.step[1])
                    for (int64_t tap = 0; tap < s.kernel; tap++) {
                        int64_t low, high;
                        inside(s, tap, low, high);
                        int64_t p = (a * s.in[1] + b) * s.in[2] + low * s.stride - s.padding + tap * s.step[2];
                        auto run = s.stride == 1   ? max_taps<T, I, with, 1>
                                   : s.stride == 2 ? max_taps<T, I, with, 2>
                                                   : max_taps<T, I, with, 0>;
                        if (low < high)
                            run(plane + p, s.stride, high - low, best + low, with ? where + low : nullptr, I(p));
                    }
        });
    });
}

// ---- averages -------------------------------------------------------------------------------------------------------

template <class T>
T divisor_of(const PoolingShape& s, const Box& box) {
    return s.divisor != 0 ? T(s.divisor) : T(box.z.count * box.y.count * box.x.count);
}

template <class T>
void avg_last(const PoolingShape& s, T* y, const T* x) {
    using L = Lane<T>;
    const int64_t C = s.channels, W = L::width;
    parallel_for(s.batch * s.out[0] * s.out[1], row_grain(s, C), [&](int64_t begin, int64_t end) {
        each_row(s, begin, end, [&](int64_t row, int64_t n, Span z, Span v) {
            const T* image = x + n * s.pixels() * C;
            for (int64_t c = 0; c < s.out[2]; c++) {
                Box box{z, v, s.spans[2][c]};
                T* to = y + (row * s.out[2] + c) * C;
                T divisor = divisor_of<T>(s, box);
                if (C < W) {
                    for (int64_t k = 0; k < C; k++) {
                        T sum = 0;
                        each_tap(s, box, [&](int64_t p) { sum += image[p * C + k]; });
                        to[k] = sum / divisor;
                    }
                    continue;
                }
                for (int64_t k = 0; k < C; k += W) {
                    int64_t from = std::min(k, C - W);
                    typename L::Vector sum{};
                    each_tap(s, box, [&](int64_t p) {
                        typename L::Vector value;
                        std::memcpy(&value, image + p * C + from, sizeof value);
                        sum += value;
                    });
                    sum /= divisor;
                    std::memcpy(to + from, &sum, sizeof sum);
                }
            }
        });
    });
}

template <class T, int64_t fixed>
void sum_taps(const T* x, int64_t stride, int64_t n, T* __restrict sum) {
    const int64_t step = fixed ? fixed : stride;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sum[i] += x[i * step];
}

// One window that is the whole plane.
bool covers_plane(const PoolingShape& s) {
    for (int d = 0; d < 3; d++) {
        if (s.out[d] != 1 || s.spans[d][0].begin != 0 || s.spans[d][0].end != s.in[d] || s.step[d] != 1) return false;
    }
    return true;
}
// Four vectors of partial sums, so that additions are independent.
template <class T>
T sum_run(const T* x, int64_t n) {
    using V = typename Lane<T>::Vector;
    constexpr int64_t W = Lane<T>::width;
    V sum[4] = {};
    int64_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            V value;
            std::memcpy(&value, x + i + q * W, sizeof value);
            sum[q] += value;
        }
    }
    V all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    T total = 0;
    for (int64_t k = 0; k < W; k++) total += all[k];
    for (; i < n; i++) total += x[i];
    return total;
}
template <class T>
void avg_whole(const PoolingShape& s, T* y, const T* x) {
    int64_t pixels = s.pixels();
    T divisor = divisor_of<T>(s, {s.spans[0][0], s.spans[1][0], s.spans[2][0]});
    parallel_for(s.batch * s.channels, std::max<int64_t>(1, parallel_grain / pixels), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) y[i] = sum_run(x + i * pixels, pixels) / divisor;
    });
}

template <class T>
void avg_planes(const PoolingShape& s, T* y, const T* x) {
    if (covers_plane(s)) return avg_whole(s, y, x);
    parallel_for(s.batch * s.channels * s.out[0] * s.out[1], row_grain(s, 1), [&](int64_t begin, int64_t end) {
        each_row(s, begin, end, [&](int64_t row, int64_t n, Span z, Span v) {
            const T* plane = x + n * s.pixels();
            T* sum = y + row * s.out[2];
            std::fill(sum, sum + s.out[2], T(0));
            for (int64_t a = z.begin; a < z.end; a++)
                for (int64_t b = v.begin; b < v.end; b++) {
                    const T* line = plane + (a * s.in[1] + b) * s.in[2];
                    if (!s.stride) {
                        for (int64_t c = 0; c < s.out[2]; c++) {
                            T part = 0;
                            const Span span = s.spans[2][c];
#pragma omp simd reduction(+ : part)
                            for (int64_t i = span.begin; i < span.end; i++) part += line[i];
                            sum[c] += part;
                        }
                        continue;
                    }
                    for (int64_t tap = 0; tap < s.kernel; tap++) {
                        int64_t low, high;
                        inside(s, tap, low, high);
                        auto run = s.stride == 1 ? sum_taps<T, 1> : s.stride == 2 ? sum_taps<T, 2> : sum_taps<T, 0>;
                        if (low < high) run(line + low * s.stride - s.padding + tap, s.stride, high - low, sum + low);
                    }
                }
            for (int64_t c = 0; c < s.out[2]; c++) sum[c] /= divisor_of<T>(s, {z, v, s.spans[2][c]});
        });
    });
}

// Calls f(first channel, one past the last, image) on several threads; pieces have disjoint elements.
template <class F>
void by_channels(const PoolingShape& s, F f) {
    int64_t block = s.last ? std::max<int64_t>(64, (s.channels + 7) / 8) : 1;
    int64_t blocks = (s.channels + block - 1) / block;
    int64_t work = std::max<int64_t>(1, std::max(s.pixels(), s.places()) * std::min(block, s.channels));
    int64_t grain = std::max<int64_t>(1, parallel_grain / 4 / work);
    parallel_for(s.batch * blocks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
            f(i % blocks * block, std::min(s.channels, (i % blocks + 1) * block), i / blocks);
    });
}

template <class T>
void zero_channels(const PoolingShape& s, T* big, int64_t first, int64_t end, int64_t n) {
    T* image = big + n * s.pixels() * s.channels;
    if (!s.last) std::fill(image + first * s.pixels(), image + end * s.pixels(), T(0));
    else
        for (int64_t p = 0; p < s.pixels(); p++)
            std::fill(image + p * s.channels + first, image + p * s.channels + end, T(0));
}

// Expands a row of shares, one per window, to a row of pixels.
template <class T>
void widen(const PoolingShape& s, T* __restrict line, const T* __restrict share) {
    if (s.stride == 2 && s.kernel == 2 && s.padding == 0) {
        int64_t pairs = std::min(s.out[2], s.in[2] / 2);
#pragma omp simd
        for (int64_t i = 0; i < pairs; i++) line[2 * i] = line[2 * i + 1] = share[i];
        for (int64_t i = 2 * pairs; i < s.in[2]; i++) line[i] = pairs < s.out[2] ? share[pairs] : T(0);
        return;
    }
    std::fill(line, line + s.in[2], T(0));
    for (int64_t c = 0; !s.stride && c < s.out[2]; c++) {
        for (int64_t i = s.spans[2][c].begin; i < s.spans[2][c].end; i++) line[i] += share[c];
    }
    for (int64_t tap = 0; s.stride && tap < s.kernel; tap++) {
        int64_t low, high;
        inside(s, tap, low, high);
        for (int64_t i = low; i < high; i++) line[i * s.stride - s.padding + tap] += share[i];
    }
}

template <class T>
void spread_planes(const PoolingShape& s, T* gx, const T* g) {
    by_channels(s, [&](int64_t first, int64_t end, int64_t n) {
        zero_channels(s, gx, first, end, n);
        std::vector<T> line(static_cast<size_t>(s.in[2])), share(static_cast<size_t>(s.out[2]));
        for (int64_t k = n * s.channels + first; k < n * s.channels + end; k++) {
            const T* from = g + k * s.places();
            for (const Span& z : s.spans[0])
                for (const Span& v : s.spans[1]) {
                    for (int64_t c = 0; c < s.out[2]; c++) share[c] = from[c] / divisor_of<T>(s, {z, v, s.spans[2][c]});
                    widen(s, line.data(), share.data());
                    for (int64_t a = z.begin; a < z.end; a++)
                        for (int64_t b = v.begin; b < v.end; b++) {
                            T* to = gx + k * s.pixels() + (a * s.in[1] + b) * s.in[2];
#pragma omp simd
                            for (int64_t i = 0; i < s.in[2]; i++) to[i] += line[i];
                        }
                    from += s.out[2];
                }
        }
    });
}

template <class T>
void spread(const PoolingShape& s, T* gx, const T* g) {
    if (!s.last && covers_plane(s)) {
        T divisor = divisor_of<T>(s, {s.spans[0][0], s.spans[1][0], s.spans[2][0]});
        int64_t pixels = s.pixels(), grain = std::max<int64_t>(1, parallel_grain / pixels);
        parallel_for(s.batch * s.channels, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++) std::fill(gx + i * pixels, gx + (i + 1) * pixels, g[i] / divisor);
        });
        return;
    }
    if (!s.last) return spread_planes(s, gx, g);
    by_channels(s, [&](int64_t first, int64_t end, int64_t n) {
        zero_channels(s, gx, first, end, n);
        std::vector<T> share(static_cast<size_t>(end - first));
        int64_t place = 0;
        for (const Span& z : s.spans[0])
            for (const Span& v : s.spans[1])
                for (const Span& x : s.spans[2]) {
                    Box box{z, v, x};
                    T divisor = divisor_of<T>(s, box);
                    const T* from = g + (n * s.places() + place) * s.channels + first;
                    for (int64_t k = 0; k < end - first; k++) share[k] = from[k] / divisor;
                    each_tap(s, box, [&](int64_t p) {
                        T* to = gx + (n * s.pixels() + p) * s.channels + first;
                        for (int64_t k = 0; k < end - first; k++) to[k] += share[k];
                    });
                    place++;
                }
    });
}

// ---- by index -------------------------------------------------------------------------------------------------------

// Calls f(offset in the big tensor, offset in the small one) for channels [first, end) of image n.
template <class I, class F>
void each_index(const PoolingShape& s, const I* indices, int64_t first, int64_t end, int64_t n, F f) {
    int64_t pixels = s.pixels(), places = s.places(), C = s.channels;
    auto checked = [&](I index) {
        if (index < 0 || index >= pixels)
            fail_value("found an invalid max index ", int64_t(index), " for planes of ", pixels, " elements (sizes ",
                       Dims{s.in[0], s.in[1], s.in[2]}, ")");
        return int64_t(index);
    };
    if (s.last) {
        for (int64_t p = 0; p < places; p++)
            for (int64_t k = first; k < end; k++) {
                int64_t at = (n * places + p) * C + k;
                f((n * pixels + checked(indices[at])) * C + k, at);
            }
    } else {
        for (int64_t at = (n * C + first) * places, k = first; k < end; k++)
            for (int64_t p = 0; p < places; p++, at++) f((n * C + k) * pixels + checked(indices[at]), at);
    }
}

// The starts of windows along one dimension, spread by a random number, usually in [0, 1).
template <class T>
void fractional_starts(T sample, int64_t in, int64_t out, int64_t kernel, int32_t* starts) {
    check(std::abs(sample) < T(1 << 20), "_random_samples must lie in [0, 1), got ", double(sample));
    if (out > 1) {
        T alpha = T(in - kernel) / T(out - 1);
        for (int64_t i = 0; i + 1 < out; i++) {
            int64_t start = int64_t((T(i) + sample) * alpha) - int64_t(sample * alpha);
            starts[i] = int32_t(std::clamp<int64_t>(start, 0, in - kernel));
        }
    }
    if (out > 0) starts[out - 1] = int32_t(in - kernel);
}

void max_pool(const PoolingShape& s, const Tensor& y, const Tensor& indices, const Tensor& x) {
    if (y.numel() == 0) return;
    with_type(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (!indices.defined()) {
            if (s.last) max_last<T, int32_t, false>(s, y.data<T>(), nullptr, x.data<T>());
            else max_planes<T, int32_t, false>(s, y.data<T>(), nullptr, x.data<T>());
            return;
        }
        with_index(indices, [&](auto index) {
            using I = typename decltype(index)::type;
            if (s.last) max_last<T, I, true>(s, y.data<T>(), indices.data<I>(), x.data<T>());
            else max_planes<T, I, true>(s, y.data<T>(), indices.data<I>(), x.data<T>());
        });
    });
}

void average_pool(const PoolingShape& s, const Tensor& y, const Tensor& x) {
    if (y.numel() == 0) return;
    with_type(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (s.last) avg_last<T>(s, y.data<T>(), x.data<T>());
        else avg_planes<T>(s, y.data<T>(), x.data<T>());
    });
}

void average_pool_gradient(const PoolingShape& s, const Tensor& gx, const Tensor& g) {
    if (gx.numel() == 0) return;
    with_type(g.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        spread<T>(s, gx.data<T>(), g.data<T>());
    });
}

void fractional_max(const PoolingShape& s, const int64_t (&kernel)[3], int64_t spatial, const Tensor& samples,
                    const Tensor& y, const Tensor& indices, const Tensor& x) {
    std::vector<int32_t> starts[3];
    int64_t planes = s.batch * s.channels;
    for (int64_t i = 0; i < 3; i++) {
        starts[i].resize(static_cast<size_t>(planes * s.out[i]));
        if (i < 3 - spatial) continue;
        // The numbers of an image are in reverse order (width first), those of a volume in the order of its dimensions.
        int64_t which = spatial == 2 ? 2 - i : i - (3 - spatial);
        dispatch<float, double>(x.dtype(), "a floating point dtype", [&](auto tag) {
            using T = typename decltype(tag)::type;
            for (int64_t p = 0; p < planes; p++)
                fractional_starts<T>(samples.data<T>()[p * spatial + which], s.in[i], s.out[i], kernel[i],
                                     starts[i].data() + p * s.out[i]);
        });
    }
    dispatch<float, double>(x.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(s.batch * s.channels, 1, [&](int64_t begin, int64_t end) {
            for (int64_t plane = begin; plane < end; plane++) {
                const T* from = x.data<T>() + plane * s.pixels();
                int64_t at = plane * s.places();
                auto span = [&](int d, int64_t i) {
                    int64_t low = starts[d][static_cast<size_t>(plane * s.out[d] + i)];
                    return Span{low, low + kernel[d], 1};
                };
                for (int64_t a = 0; a < s.out[0]; a++)
                    for (int64_t b = 0; b < s.out[1]; b++)
                        for (int64_t c = 0; c < s.out[2]; c++, at++) {
                            Box box{span(0, a), span(1, b), span(2, c)};
                            T best = lowest<T>();
                            int64_t where = first_tap(s, box);
                            each_tap(s, box, [&](int64_t p) {
                                if (from[p] > best || from[p] != from[p]) {
                                    best = from[p];
                                    where = p;
                                }
                            });
                            y.data<T>()[at] = best;
                            indices.data<int64_t>()[at] = where;
                        }
            }
        });
    });
}

void pool_scatter(const PoolingShape& s, const Tensor& big, const Tensor& small, const Tensor& indices, bool add) {
    if (big.numel() == 0 && small.numel() == 0) return;
    with_type(big.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        with_index(indices, [&](auto index) {
            using I = typename decltype(index)::type;
            T* to = big.data<T>();
            const T* from = small.data<T>();
            by_channels(s, [&](int64_t first, int64_t end, int64_t n) {
                zero_channels(s, to, first, end, n);
                const I* where = indices.data<I>();
                if (add) each_index(s, where, first, end, n, [&](int64_t b, int64_t a) { to[b] += from[a]; });
                else each_index(s, where, first, end, n, [&](int64_t b, int64_t a) { to[b] = from[a]; });
            });
        });
    });
}

void pool_gather(const PoolingShape& s, const Tensor& small, const Tensor& big, const Tensor& indices) {
    if (small.numel() == 0) return;
    with_type(big.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        with_index(indices, [&](auto index) {
            using I = typename decltype(index)::type;
            T* to = small.data<T>();
            const T* from = big.data<T>();
            by_channels(s, [&](int64_t first, int64_t end, int64_t n) {
                each_index(s, indices.data<I>(), first, end, n, [&](int64_t b, int64_t a) { to[a] = from[b]; });
            });
        });
    });
}

const device::Provide<device::Pooling> provided(DeviceType::CPU, {.max = max_pool,
                                                                  .average = average_pool,
                                                                  .average_gradient = average_pool_gradient,
                                                                  .fractional_max = fractional_max,
                                                                  .scatter = pool_scatter,
                                                                  .gather = pool_gather});

}  // namespace
}  // namespace fb::cpu
