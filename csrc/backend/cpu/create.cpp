// Sequences, and the indices of triangles.
#include "device/create.h"

#include <cmath>

#include "base/parallel.h"

namespace fb::cpu {
namespace {

// data[i] = f(i) for a contiguous tensor.
template <class T, class F>
void generate(const Tensor& t, F f) {
    T* __restrict data = t.data<T>();
    parallel_for(t.numel(), parallel_grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) data[i] = f(i);
    });
}

void progression(const Tensor& t, const device::Progression& p) {
    dispatch_real(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            uint64_t from = p.whole_start, by = p.whole_step;
            generate<T>(t, [=](int64_t i) { return static_cast<T>(from + static_cast<uint64_t>(i) * by); });
        } else {
            double from = p.start, by = p.step;
            generate<T>(t, [=](int64_t i) { return convert<T>(from + by * static_cast<double>(i)); });
        }
    });
}

// Exact at both ends: the first half counts from the start, the second half back from the end.
template <class C>
C between(C start, C end, C step, int64_t i, int64_t n) {
    using R = std::conditional_t<std::is_same_v<C, c128>, double, C>;
    if (i < n / 2) return start + step * static_cast<R>(i);
    return end - step * static_cast<R>(n - i - 1);
}

void spaced(const Tensor& t, const Scalar& start, const Scalar& end, const double* base) {
    int64_t n = t.numel();
    dispatch_all(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using C = std::conditional_t<is_complex_type<T>, c128, double>;
        // Integer results start from integer ends.
        C from, to;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
            from = static_cast<C>(start.to<T>());
            to = static_cast<C>(end.to<T>());
        } else {
            from = start.to<C>();
            to = end.to<C>();
        }
        C step = n > 1 ? (to - from) / static_cast<double>(n - 1) : C(0);
        if (n == 1) to = from;
        if (!base) {
            generate<T>(t, [=](int64_t i) { return convert<T>(between(from, to, step, i, n)); });
        } else {
            double b = *base;
            generate<T>(t, [=](int64_t i) { return convert<T>(std::pow(C(b), between(from, to, step, i, n))); });
        }
    });
}

void triangle(const Tensor& t, int64_t first, int64_t last, int64_t columns, int64_t offset, bool upper) {
    int64_t count = t.numel() / 2;
    dispatch<int32_t, int64_t>(t.dtype(), "int32 or int64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        T *row = t.data<T>(), *column = row + count;
        for (int64_t i = first; i < last; i++) {
            int64_t edge = std::clamp<int64_t>(i + offset + (upper ? 0 : 1), 0, columns);
            for (int64_t j = upper ? edge : 0; j < (upper ? columns : edge); j++) {
                *row++ = static_cast<T>(i);
                *column++ = static_cast<T>(j);
            }
        }
    });
}

const device::Provide<device::Creating> provided(DeviceType::CPU,
                                                 {.progression = progression, .spaced = spaced, .triangle = triangle});

}  // namespace
}  // namespace fb::cpu
