// Kernels of normalization. Sums are taken over blocks and merged in float64 in an order that does not depend on the
// number of threads.
#include "backend/cpu/norm.h"

#include <unistd.h>

#include <cmath>

#include "backend/cpu/norm_moments.h"
#include "backend/cpu/stream_store.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t block_rows = 64;  // pixels per block, channels-last

// Calls f(type, whether there is a gate).
template <class F>
void with_gate(DType d, const Gate& gate, F&& f) {
    dispatch<float, double>(d, "float32 or float64", [&](auto tag) {
        if (gate.scale) f(tag, std::true_type());
        else f(tag, std::false_type());
    });
}
// Applies the gate at x to g.
template <bool gated, class T>
T passed(T g, [[maybe_unused]] T x, [[maybe_unused]] T scale, [[maybe_unused]] T shift) {
    if constexpr (gated) return x * scale + shift <= T(0) ? T(0) : g;
    else return g;
}

// ---- rows of channels -----------------------------------------------------------------------------------------------
//
// Separate functions, so that their loops have all registers. When a long stream of rows is combined with one short row
// again and again (coefficients, sums), the hardware prefetcher loses track of the stream, which made these loops up to
// five times slower on data from memory. So they prefetch explicitly.

template <class T>
inline constexpr int64_t line = 64 / sizeof(T);
template <int lines, class T>
inline void fetch_ahead(const T* p) {
#pragma GCC unroll 4
    for (int k = 0; k < lines; k++) __builtin_prefetch(p + 8192 / sizeof(T) + k * line<T>);
}
// Calls f(first channel, channels) for every cache line of a row, and for the remainder.
template <class T, class F>
[[gnu::always_inline]] inline void each_line(int64_t C, F f) {
    int64_t c = 0;
    for (; c + line<T> <= C; c += line<T>) f(c, line<T>);
    if (c < C) f(c, C - c);
}

template <class T>
[[gnu::noinline]] void add_rows(T* __restrict sums, const T* x, int64_t rows, int64_t C) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * C) {
        const T *b = x + C, *d = b + C, *e = d + C;
        each_line<T>(C, [&](int64_t first, int64_t n) {
            fetch_ahead<4>(x + 4 * first);
#pragma omp simd
            for (int64_t c = first; c < first + n; c++) sums[c] += (x[c] + b[c]) + (d[c] + e[c]);
        });
    }
    for (; r < rows; r++, x += C) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) sums[c] += x[c];
    }
}
// m and q: sums of the distances from the pivot, and of their squares.
template <class T>
[[gnu::noinline]] void add_moments(T* __restrict m, T* __restrict q, const T* pivot, const T* x, int64_t rows,
                                   int64_t C) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * C) {
        const T *b = x + C, *d = b + C, *e = d + C;
        each_line<T>(C, [&](int64_t first, int64_t n) {
            fetch_ahead<4>(x + 4 * first);
#pragma omp simd
            for (int64_t c = first; c < first + n; c++) {
                T p = pivot[c], t = x[c] - p, u = b[c] - p, v = d[c] - p, w = e[c] - p;
                m[c] += (t + u) + (v + w);
                q[c] += (t * t + u * u) + (v * v + w * w);
            }
        });
    }
    for (; r < rows; r++, x += C) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            T t = x[c] - pivot[c];
            m[c] += t;
            q[c] += t * t;
        }
    }
}
// p and q: sums of g, and of g times the distance from the center.
template <bool gated, class T>
[[gnu::noinline]] void add_products(T* __restrict p, T* __restrict q, const T* g, const T* x, const T* middle,
                                    const T* scale, const T* shift, int64_t rows, int64_t C) {
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2, g += 2 * C, x += 2 * C) {
        const T *h = g + C, *y = x + C;
        each_line<T>(C, [&](int64_t first, int64_t n) {
            fetch_ahead<2>(g + 2 * first);
            fetch_ahead<2>(x + 2 * first);
#pragma omp simd
            for (int64_t c = first; c < first + n; c++) {
                T u = passed<gated>(g[c], x[c], scale[c], shift[c]), v = passed<gated>(h[c], y[c], scale[c], shift[c]);
                p[c] += u + v;
                q[c] += u * (x[c] - middle[c]) + v * (y[c] - middle[c]);
            }
        });
    }
    for (; r < rows; r++, g += C, x += C) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            T u = passed<gated>(g[c], x[c], scale[c], shift[c]);
            p[c] += u;
            q[c] += u * (x[c] - middle[c]);
        }
    }
}
// Results too large for the caches bypass them.
template <bool past, class T, class F>
[[gnu::always_inline]] inline void write_line(T* __restrict to, int64_t n, F f) {
    if constexpr (past && can_stream) {
        alignas(64) T made[line<T>];
#pragma omp simd
        for (int64_t i = 0; i < line<T>; i++) made[i] = f(i);
        stream_line(to, made);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = f(i);
}
bool goes_past(const Tensor& result, int64_t channels) {
    static const int64_t cache = std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 1 << 24);
    int64_t bytes = result.numel() * itemsize(result.dtype());
    return bytes >= cache / 2 && channels * itemsize(result.dtype()) % 64 == 0 &&
           reinterpret_cast<uintptr_t>(result.raw()) % 64 == 0;
}

template <bool relu, class T>
T cut(T y) {
    if constexpr (relu) return y < T(0) ? T(0) : y;
    else return y;
}
template <bool relu, bool past, class T>
[[gnu::noinline]] void map_rows(T* __restrict y, const T* x, const T* scale, const T* shift, int64_t rows, int64_t C) {
    for (int64_t r = 0; r < rows; r++, x += C, y += C)
        each_line<T>(C, [&](int64_t first, int64_t n) {
            fetch_ahead<1>(x + first);
            write_line<past>(y + first, n, [&](int64_t i) {
                int64_t c = first + i;
                return cut<relu>(x[c] * scale[c] + shift[c]);
            });
        });
    if constexpr (past) end_stream();
}
// The parts of a gradient: g * scale + (x - middle) * slope + shift, and the gate of g.
template <class T>
struct Combination {
    const T *scale, *slope, *middle, *shift, *gate_scale, *gate_shift;
    Combination at(int64_t k) const {
        return {scale + k, slope + k, middle + k, shift + k, gate_scale + k, gate_shift + k};
    }
};
template <bool gated, bool past, class T>
[[gnu::noinline]] void combine_rows(T* __restrict to, const T* g, const T* x, const Combination<T> by, int64_t rows,
                                    int64_t C) {
    const T *scale = by.scale, *slope = by.slope, *middle = by.middle, *shift = by.shift;
    const T *u = by.gate_scale, *v = by.gate_shift;
    for (int64_t r = 0; r < rows; r++, g += C, x += C, to += C)
        each_line<T>(C, [&](int64_t first, int64_t n) {
            fetch_ahead<1>(g + first);
            fetch_ahead<1>(x + first);
            write_line<past>(to + first, n, [&](int64_t i) {
                int64_t c = first + i;
                return passed<gated>(g[c], x[c], u[c], v[c]) * scale[c] + (x[c] - middle[c]) * slope[c] + shift[c];
            });
        });
    if constexpr (past) end_stream();
}

// Note [There and back]: the images of a batch often exceed the caches, and were just written, their end last. So sums
// are taken from the end to the beginning, and results computed from the beginning to the end: each pass begins with
// what the one before has left in the caches.

// Calls f(segment, its first element, pixels) for channels-last, the last segment first.
template <class F>
void each_segment(const NormShape& s, F f) {
    int64_t size = s.pixels / s.parts * s.channels;
    parallel_for(s.segments(), grain_of(size), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; k++) {
            int64_t i = s.segments() - 1 - k, part = i % s.parts;
            f(i, (i / s.parts * s.pixels + s.first_pixel(part)) * s.channels, s.part_size(part));
        }
    });
}
// Calls f(plane, its first element).
template <class F>
void each_plane(const NormShape& s, F f) {
    parallel_for(s.batch * s.channels, grain_of(s.pixels), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) f(i, i * s.pixels);
    });
}
template <class F>
void each_plane_back(const NormShape& s, F f) {
    int64_t last = s.batch * s.channels - 1;
    each_plane(s, [&](int64_t i, int64_t) { f(last - i, (last - i) * s.pixels); });
}
// Index of the coefficients of a plane or sample.
int64_t plane_coefficient(const NormShape& s, int64_t plane) { return s.shared ? plane % s.channels : plane; }
int64_t sample_coefficient(const NormShape& s, int64_t n) { return s.shared ? 0 : n * s.channels; }

// Calls f(sample, first element, pixels) over runs of pixels, channels-last; for elementwise work.
template <class F>
void each_run(const NormShape& s, F f) {
    int64_t run = std::max<int64_t>(1, chunk / s.channels), runs = (s.pixels + run - 1) / run;
    parallel_for(s.batch * runs, grain_of(run * s.channels), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            int64_t n = i / runs, first = i % runs * run;
            f(n, (n * s.pixels + first) * s.channels, std::min(run, s.pixels - first));
        }
    });
}

}  // namespace

void channel_moments(const NormShape& s, const Tensor& input, std::vector<double>& mean, std::vector<double>& spread) {
    const int64_t C = s.channels;
    mean.assign(static_cast<size_t>(s.segments() * C), 0);
    spread.assign(mean.size(), 0);
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = input.data<T>();
        if (!s.last) {
            each_plane_back(s, [&](int64_t i, int64_t at) {
                Moments m = moments_of(x + at, s.pixels);
                mean[static_cast<size_t>(i)] = m.mean;
                spread[static_cast<size_t>(i)] = m.spread;
            });
            return;
        }
        each_segment(s, [&](int64_t segment, int64_t at, int64_t pixels) {
            std::vector<T> average(static_cast<size_t>(C)), squares(static_cast<size_t>(C));
            T* __restrict m = average.data(), * __restrict q = squares.data();
            double *to_mean = mean.data() + segment * C, *to_spread = spread.data() + segment * C;
            for (int64_t done = 0; done < pixels; done += block_rows) {
                int64_t n = std::min(block_rows, pixels - done);
                const T* from = x + at + done * C;
                std::fill(average.begin(), average.end(), T(0));
                std::fill(squares.begin(), squares.end(), T(0));
                const T* pivot = from;  // the block's first row
                add_moments(m, q, pivot, from, n, C);
#pragma omp simd
                for (int64_t c = 0; c < C; c++) {
                    T shift = m[c] / T(n), rest = q[c] - m[c] * shift;
                    m[c] = pivot[c] + shift;
                    q[c] = rest < 0 ? T(0) : rest;
                }
                double total = double(done + n), share = double(n) / total, cross = double(done) * share;
#pragma omp simd
                for (int64_t c = 0; c < C; c++) {
                    double delta = double(m[c]) - to_mean[c];
                    to_mean[c] += delta * share;
                    to_spread[c] += double(q[c]) + delta * delta * cross;
                }
            }
        });
    });
}

void channel_products(const NormShape& s, const Tensor& grad, const Tensor& input, const Tensor& center,
                      const Gate& gate, std::vector<double>& sum, std::vector<double>& product) {
    const int64_t C = s.channels;
    sum.assign(static_cast<size_t>(s.segments() * C), 0);
    product.assign(sum.size(), 0);
    with_gate(input.dtype(), gate, [&](auto tag, auto is_gated) {
        using T = typename decltype(tag)::type;
        constexpr bool gated = decltype(is_gated)::value;
        const T *x = input.data<T>(), *g = grad.data<T>(), *middle = center.data<T>();
        const T* scales = gated ? gate.scale.data<T>() : middle;
        const T* shifts = gated ? gate.shift.data<T>() : middle;
        if (!s.last) {
            each_plane_back(s, [&](int64_t i, int64_t at) {
                int64_t place = plane_coefficient(s, i);
                T m = middle[place], scale = scales[place], shift = shifts[place];
                double all = 0, crossed = 0;
                for (int64_t done = 0; done < s.pixels; done += chunk) {
                    int64_t n = std::min(chunk, s.pixels - done);
                    const T *a = g + at + done, *b = x + at + done;
                    T part = 0, cross = 0;
#pragma omp simd reduction(+ : part, cross)
                    for (int64_t k = 0; k < n; k++) {
                        T u = passed<gated>(a[k], b[k], scale, shift);
                        part += u;
                        cross += u * (b[k] - m);
                    }
                    all += double(part);
                    crossed += double(cross);
                }
                sum[static_cast<size_t>(i)] = all;
                product[static_cast<size_t>(i)] = crossed;
            });
            return;
        }
        each_segment(s, [&](int64_t segment, int64_t at, int64_t pixels) {
            std::vector<T> sums(static_cast<size_t>(C)), crossed(static_cast<size_t>(C));
            T* __restrict p = sums.data(), * __restrict q = crossed.data();
            int64_t place = sample_coefficient(s, segment / s.parts);
            const T *m = middle + place, *scale = scales + place, *shift = shifts + place;
            double *to_sum = sum.data() + segment * C, *to_product = product.data() + segment * C;
            for (int64_t done = 0; done < pixels; done += block_rows) {
                int64_t n = std::min(block_rows, pixels - done);
                std::fill(sums.begin(), sums.end(), T(0));
                std::fill(crossed.begin(), crossed.end(), T(0));
                add_products<gated>(p, q, g + at + done * C, x + at + done * C, m, scale, shift, n, C);
#pragma omp simd
                for (int64_t c = 0; c < C; c++) {
                    to_sum[c] += double(p[c]);
                    to_product[c] += double(q[c]);
                }
            }
        });
    });
}

void channel_sums(const NormShape& s, const Tensor& input, std::vector<double>& sum) {
    const int64_t C = s.channels;
    sum.assign(static_cast<size_t>(s.segments() * C), 0);
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = input.data<T>();
        if (!s.last) {
            each_plane_back(s, [&](int64_t i, int64_t at) {
                for (int64_t done = 0; done < s.pixels; done += chunk) {
                    int64_t n = std::min(chunk, s.pixels - done);
                    const T* from = x + at + done;
                    double part = 0;
#pragma omp simd reduction(+ : part)
                    for (int64_t k = 0; k < n; k++) part += double(from[k]);
                    sum[static_cast<size_t>(i)] += part;
                }
            });
            return;
        }
        each_segment(s, [&](int64_t segment, int64_t at, int64_t pixels) {
            std::vector<T> sums(static_cast<size_t>(C));
            T* __restrict p = sums.data();
            double* to = sum.data() + segment * C;
            for (int64_t done = 0; done < pixels; done += block_rows) {
                int64_t n = std::min(block_rows, pixels - done);
                const T* from = x + at + done * C;
                std::fill(sums.begin(), sums.end(), T(0));
                add_rows(p, from, n, C);
                for (int64_t c = 0; c < C; c++) to[c] += double(p[c]);
            }
        });
    });
}

void channel_affine(const NormShape& s, const Tensor& output, const Tensor& input, const Tensor& scales,
                    const Tensor& shifts, bool rectified) {
    if (output.numel() == 0) return;
    auto run = [&](auto tag, auto is_relu) {
        using T = typename decltype(tag)::type;
        constexpr bool relu = decltype(is_relu)::value;
        const T *x = input.data<T>(), *scale = scales.data<T>(), *shift = shifts.data<T>();
        T* y = output.data<T>();
        if (!s.last) {
            each_plane(s, [&](int64_t i, int64_t at) {
                T a = scale[plane_coefficient(s, i)], b = shift[plane_coefficient(s, i)];
                const T* from = x + at;
                T* __restrict to = y + at;
#pragma omp simd
                for (int64_t k = 0; k < s.pixels; k++) to[k] = cut<relu>(from[k] * a + b);
            });
            return;
        }
        bool past = goes_past(output, s.channels);
        each_run(s, [&](int64_t n, int64_t at, int64_t pixels) {
            int64_t k = sample_coefficient(s, n);
            (past ? map_rows<relu, true, T> : map_rows<relu, false, T>)(y + at, x + at, scale + k, shift + k, pixels,
                                                                        s.channels);
        });
    };
    dispatch<float, double>(input.dtype(), "float32 or float64", [&](auto tag) {
        if (rectified) run(tag, std::true_type());
        else run(tag, std::false_type());
    });
}

void channel_combine(const NormShape& s, const Tensor& output, const Tensor& grad, const Tensor& input,
                     const Tensor& center, const Gate& gate, const Tensor& first, const Tensor& second,
                     const Tensor& third) {
    if (output.numel() == 0) return;
    with_gate(input.dtype(), gate, [&](auto tag, auto is_gated) {
        using T = typename decltype(tag)::type;
        constexpr bool gated = decltype(is_gated)::value;
        const T *x = input.data<T>(), *g = grad.data<T>(), *m = center.data<T>();
        const T* scales = gated ? gate.scale.data<T>() : m;
        const T* shifts = gated ? gate.shift.data<T>() : m;
        const T *a = first.data<T>(), *b = second.data<T>(), *c = third.data<T>();
        T* gx = output.data<T>();
        if (!s.last) {
            each_plane(s, [&](int64_t i, int64_t at) {
                int64_t k = plane_coefficient(s, i);
                T scale = a[k], slope = b[k], middle = m[k], shift = c[k], u = scales[k], v = shifts[k];
                const T *from = x + at, *of = g + at;
                T* __restrict to = gx + at;
#pragma omp simd
                for (int64_t j = 0; j < s.pixels; j++)
                    to[j] = passed<gated>(of[j], from[j], u, v) * scale + (from[j] - middle) * slope + shift;
            });
            return;
        }
        const Combination<T> all{a, b, m, c, scales, shifts};
        bool past = goes_past(output, s.channels);
        each_run(s, [&](int64_t n, int64_t at, int64_t pixels) {
            (past ? combine_rows<gated, true, T> : combine_rows<gated, false, T>)(gx + at, g + at, x + at,
                                                                                  all.at(sample_coefficient(s, n)),
                                                                                  pixels, s.channels);
        });
    });
}

}  // namespace fb::cpu
