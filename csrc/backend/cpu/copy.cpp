// Copies between any strides and dtypes, blocked where one side is transposed.
#include <cstring>

#include "backend/cpu/convert.h"
#include "backend/cpu/gemm_pack.h"
#include "backend/cpu/loops.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// Copies every step-th element; a step known to the compiler becomes shuffles instead of single loads.
template <class T, int64_t step>
void pick(char* to, const char* from, int64_t n) {
    T* __restrict y = reinterpret_cast<T*>(to);
    const T* __restrict x = reinterpret_cast<const T*>(from);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = x[i * step];
}
template <class T>
bool pick_known(char* to, const char* from, int64_t step, int64_t n) {
    switch (step) {
        case 2:
            return pick<T, 2>(to, from, n), true;
        case 3:
            return pick<T, 3>(to, from, n), true;
        case 4:
            return pick<T, 4>(to, from, n), true;
        case 8:
            return pick<T, 8>(to, from, n), true;
        default:
            return false;
    }
}

}  // namespace

void copy_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype, int64_t from_stride,
                  int64_t n) {
    if (to_dtype == from_dtype) {
        int size = itemsize(to_dtype);
        if (to_stride == size && from_stride == size) {
            std::memcpy(to, from, static_cast<size_t>(n * size));
            return;
        }
        dispatch_size(to_dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if (to_stride == size && from_stride == 0) {
                T value = *reinterpret_cast<const T*>(from);
                std::fill_n(reinterpret_cast<T*>(to), n, value);
                return;
            }
            if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
                if (to_stride == size && from_stride % size == 0 && pick_known<T>(to, from, from_stride / size, n))
                    return;
            }
            for (int64_t i = 0; i < n; i++)
                *reinterpret_cast<T*>(to + i * to_stride) = *reinterpret_cast<const T*>(from + i * from_stride);
        });
        return;
    }
    convert_strided(to, to_dtype, to_stride, from, from_dtype, from_stride, n);
}

void copy_transposed(const LoopPlan& plan, char* to, const char* from, int64_t first, int64_t last) {
    const auto &t = plan.operands[0], &f = plan.operands[1];
    int64_t inner = plan.shape[0], size = itemsize(t.dtype);
    bool adjacent =
        t.strides[0] == size && f.strides[1] == size && t.strides[1] % size == 0 && f.strides[0] % size == 0;
    // Whole cache lines on both sides in registers; any other layout in blocks that stay in the cache.
    const int64_t block = adjacent && (size == 4 || size == 8) ? 64 / size : 32;
    for (int64_t r = first; r < last; r += block) {
        int64_t r1 = std::min(last, r + block);
        auto transpose_block = [&]<class T>(TypeTag<T>) {
            transpose_copy(reinterpret_cast<T*>(to + r * t.strides[1]), t.strides[1] / size,
                           reinterpret_cast<const T*>(from) + r, f.strides[0] / size, inner, r1 - r);
        };
        if (adjacent && size == 4) transpose_block(TypeTag<float>{});
        else if (adjacent && size == 8) transpose_block(TypeTag<double>{});
        else
            dispatch_size(t.dtype, [&](auto tag) {
                using T = typename decltype(tag)::type;
                for (int64_t c = 0; c < inner; c += block) {
                    int64_t c1 = std::min(inner, c + block);
                    for (int64_t i = r; i < r1; i++) {
                        for (int64_t j = c; j < c1; j++) {
                            *reinterpret_cast<T*>(to + i * t.strides[1] + j * t.strides[0]) =
                                *reinterpret_cast<const T*>(from + i * f.strides[1] + j * f.strides[0]);
                        }
                    }
                }
            });
    }
}

namespace {

// Interleaves a few planes into one run, like the colours of an image.
template <class T, int64_t known>
void interleave(T* __restrict to, const T* __restrict from, int64_t step, int64_t planes, int64_t n) {
    const int64_t count = known ? known : planes;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < count; k++) to[i * count + k] = from[k * step + i];
}
void copy_interleaved(const LoopPlan& plan, char* to, const char* from, int64_t first, int64_t last) {
    dispatch_size(plan.operands[0].dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t count = plan.shape[0], step = plan.operands[1].strides[0] / int64_t(sizeof(T));
        auto run = count == 2   ? interleave<T, 2>
                   : count == 3 ? interleave<T, 3>
                   : count == 4 ? interleave<T, 4>
                                : interleave<T, 0>;
        run(reinterpret_cast<T*>(to) + first * count, reinterpret_cast<const T*>(from) + first, step, count,
            last - first);
    });
}

// Copies rows [first, last) of the plan directly.
void copy_rows(const LoopPlan& plan, int64_t first, int64_t last) {
    const auto &t = plan.operands[0], &f = plan.operands[1];
    int64_t index[max_dims], rest = first;
    char* to = t.data;
    const char* from = f.data;
    for (int d = 1; d < plan.ndim; d++) {
        index[d] = rest % plan.shape[d];
        rest /= plan.shape[d];
        to += index[d] * t.strides[d];
        from += index[d] * f.strides[d];
    }
    for (int64_t row = first; row < last; row++) {
        copy_strided(to, t.dtype, t.strides[0], from, f.dtype, f.strides[0], plan.shape[0]);
        for (int d = 1; d < plan.ndim; d++) {
            to += t.strides[d];
            from += f.strides[d];
            if (++index[d] < plan.shape[d]) break;
            index[d] = 0;
            to -= t.strides[d] * plan.shape[d];
            from -= f.strides[d] * plan.shape[d];
        }
    }
}

}  // namespace

void copy(const Tensor& to, const Tensor& from) {
    const Tensor* operands[] = {&to, &from};
    LoopPlan plan;
    make_plan(plan, to.shape(), operands, 2);
    if (plan.numel == 0) return;
    const auto &t = plan.operands[0], &f = plan.operands[1];
    bool constant = t.dtype != f.dtype && plan.numel > 1;
    for (int d = 0; d < plan.ndim; d++) constant = constant && f.strides[d] == 0;
    if (constant) {  // converted once
        Tensor value = empty({}, t.dtype, cpu_device);
        copy_strided(value.raw(), t.dtype, 0, f.data, f.dtype, 0, 1);
        return copy(to, value);
    }
    int64_t size = itemsize(t.dtype);
    void (*by_planes)(const LoopPlan&, char*, const char*, int64_t, int64_t) = nullptr;
    if (plan.ndim >= 2 && t.dtype == f.dtype && plan.shape[1] >= 8 && f.strides[1] != 0 &&
        std::abs(f.strides[1]) < std::abs(f.strides[0])) {
        bool runs = t.strides[0] == size && t.strides[1] == plan.shape[0] * size && f.strides[1] == size &&
                    f.strides[0] % size == 0;
        if (plan.shape[0] >= 8) by_planes = copy_transposed;
        else if (runs) by_planes = copy_interleaved;
    }
    if (by_planes) {
        int64_t plane = plan.shape[0] * plan.shape[1], planes = plan.numel / plane;
        int64_t row_grain = std::max<int64_t>(32, parallel_grain / plan.shape[0]);
        for (int64_t p = 0; p < planes; p++) {
            char* to_at = t.data;
            const char* from_at = f.data;
            int64_t rest = p;
            for (int d = 2; d < plan.ndim; d++) {
                int64_t i = rest % plan.shape[d];
                rest /= plan.shape[d];
                to_at += i * t.strides[d];
                from_at += i * f.strides[d];
            }
            parallel_for(plan.shape[1], row_grain,
                         [&](int64_t a, int64_t b) { by_planes(plan, to_at, from_at, a, b); });
        }
        return;
    }
    if (plan.ndim <= 1) {
        int64_t to_step = plan.ndim ? t.strides[0] : size, from_step = plan.ndim ? f.strides[0] : itemsize(f.dtype);
        parallel_for(plan.numel, 2 * parallel_grain, [&](int64_t begin, int64_t end) {
            copy_strided(t.data + begin * to_step, t.dtype, to_step, f.data + begin * from_step, f.dtype, from_step,
                         end - begin);
        });
        return;
    }
    parallel_for(plan.numel / plan.shape[0], std::max<int64_t>(1, 2 * parallel_grain / plan.shape[0]),
                 [&](int64_t begin, int64_t end) { copy_rows(plan, begin, end); });
}

}  // namespace fb::cpu
