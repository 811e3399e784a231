#include "backend/cpu/combine.h"
#include "backend/cpu/index.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/walk.h"

namespace fb::cpu {
namespace {

// `t` viewed for lines along `dim`: index 0, expanded to the index tensor's size there.
Tensor spread(const Tensor& t, int64_t dim, const Dims& shape) {
    Dims strides = t.strides();
    strides[dim] = 0;
    return view_of(t, shape, strides, t.offset());
}

// The bounds for a run of indices, and the stride of its targets.
struct Line {
    int64_t dim, size, stride;
};

[[noreturn, gnu::cold]] void fail_line(int64_t at, const Line& line) {
    fail_index("index ", at, " is out of bounds for dimension ", line.dim, " with size ", line.size);
}

template <class T, bool Wrap>
void gather_run(char* to, int64_t to_step, const char* index, int64_t index_step, const char* from, int64_t from_step,
                int64_t n, const Line& line) {
    constexpr int64_t item = sizeof(T);
    int64_t low = Wrap ? -line.size : 0, size = line.size, stride = line.stride;
    auto wrapped = [size](int64_t at) { return Wrap && at < 0 ? at + size : at; };
    if (to_step != item || index_step != 8) {
        for (int64_t i = 0; i < n; i++) {
            int64_t at = *reinterpret_cast<const int64_t*>(index + i * index_step);
            if (at < low || at >= size) fail_line(at, line);
            *reinterpret_cast<T*>(to + i * to_step) =
                *reinterpret_cast<const T*>(from + i * from_step + wrapped(at) * stride);
        }
        return;
    }
    T* __restrict w = reinterpret_cast<T*>(to);
    const int64_t* __restrict at = reinterpret_cast<const int64_t*>(index);
    for (int64_t begin = 0; begin < n; begin += 2048) {
        int64_t end = std::min(n, begin + 2048);
        int64_t bad = 0;
#pragma omp simd reduction(| : bad)
        for (int64_t i = begin; i < end; i++) bad |= (at[i] < low) | (at[i] >= size);
        for (int64_t i = begin; bad && i < end; i++) {
            if (at[i] < low || at[i] >= size) fail_line(at[i], line);
        }
        if (from_step == 0 && stride == item) {
            const T* r = reinterpret_cast<const T*>(from);
            for (int64_t i = begin; i < end; i++) w[i] = r[wrapped(at[i])];
        } else {
            for (int64_t i = begin; i < end; i++) {
                w[i] = *reinterpret_cast<const T*>(from + i * from_step + wrapped(at[i]) * stride);
            }
        }
    }
}

template <class T, bool Wrap>
void gather_as(const LoopPlan& plan, const Line& line) {
    const auto* o = plan.operands;
    int64_t s0 = plan.ndim ? o[0].strides[0] : 0, s1 = plan.ndim ? o[1].strides[0] : 0,
            s2 = plan.ndim ? o[2].strides[0] : 0;
    if (plan.ndim == 1) {
        parallel_for(plan.numel, parallel_grain / 2, [&](int64_t begin, int64_t end) {
            gather_run<T, Wrap>(o[0].data + begin * s0, s0, o[1].data + begin * s1, s1, o[2].data + begin * s2, s2,
                                end - begin, line);
        });
        return;
    }
    int64_t length = plan.ndim ? plan.shape[0] : 1;
    parallel_for(row_count(plan), std::max<int64_t>(1, parallel_grain / 2 / length), [&](int64_t begin, int64_t end) {
        walk_runs(plan, begin, end,
                  [&](char** at, int64_t n) { gather_run<T, Wrap>(at[0], s0, at[1], s1, at[2], s2, n, line); });
    });
}

}  // namespace

void gather(const Tensor& to, const Tensor& t, int64_t dim, const Tensor& index, bool wrap) {
    Line line{dim, t.shape()[dim], t.strides()[dim] * t.itemsize()};
    if (line.size == 0) check_indices(index, dim, 0);  // always an error here: there is no line to read
    Tensor lines = spread(t, dim, index.shape());
    const Tensor* operands[] = {&to, &index, &lines};
    LoopPlan plan;
    make_plan(plan, to.shape(), operands, 3);
    dispatch_size(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        wrap ? gather_as<T, true>(plan, line) : gather_as<T, false>(plan, line);
    });
}

// ---- scatter --------------------------------------------------------------------------------------------------------

namespace {

// Checks n indices in order; raises at the first invalid one.
void check_run(const int64_t* index, int64_t n, const Line& line) {
    int64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) bad |= (index[i] < 0) | (index[i] >= line.size);
    for (int64_t i = 0; bad && i < n; i++) {
        if (index[i] < 0 || index[i] >= line.size) fail_line(index[i], line);
    }
}

// The part of a scatter whose targets are in [low, high) along `dim`.
template <class T, Combine M>
void scatter_lines(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, int64_t low, int64_t high,
                   bool checked) {
    Line line{dim, t.shape()[dim], t.strides()[dim] * t.itemsize()};
    Tensor lines = spread(t, dim, index.shape());
    const Tensor* operands[] = {&index, &src, &lines};
    LoopPlan plan;
    make_plan(plan, index.shape(), operands, 3);
    const auto* o = plan.operands;
    int64_t s0 = plan.ndim ? o[0].strides[0] : 0, s1 = plan.ndim ? o[1].strides[0] : 0,
            s2 = plan.ndim ? o[2].strides[0] : 0;
    bool whole = low == 0 && high == line.size;
    constexpr int64_t item = sizeof(T);
    bool plain = whole && s0 == 8 && (s1 == item || s1 == 0) && ((s2 == 0 && line.stride == item) || s2 == item);
    auto plain_run = [&](const int64_t* k, const T* value, T* target, int64_t n) {
        int64_t value_step = s1 / item, far = line.stride / item;
        if (!checked) check_run(k, n, line);
        if (s2 == 0) {
            for (int64_t i = 0; i < n; i++) target[k[i]] = combine<M>(target[k[i]], value[i * value_step]);
        } else {
            for (int64_t i = 0; i < n; i++)
                target[i + k[i] * far] = combine<M>(target[i + k[i] * far], value[i * value_step]);
        }
    };
    walk_runs(plan, 0, row_count(plan), [&](char** at, int64_t n) {
        if (plain) {
            // Pieces short enough that the indices are still in the first-level cache when they are used.
            for (int64_t i = 0; i < n; i += 1024) {
                plain_run(reinterpret_cast<const int64_t*>(at[0]) + i, reinterpret_cast<const T*>(at[1] + i * s1),
                          reinterpret_cast<T*>(at[2] + i * s2), std::min<int64_t>(1024, n - i));
            }
            return;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t k = *reinterpret_cast<const int64_t*>(at[0] + i * s0);
            if (k < 0 || k >= line.size) fail_line(k, line);
            if (k < low || k >= high) continue;
            T* target = reinterpret_cast<T*>(at[2] + i * s2 + k * line.stride);
            *target = combine<M>(*target, *reinterpret_cast<const T*>(at[1] + i * s1));
        }
    });
}

template <class T, Combine M>
void scatter_as(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, bool checked) {
    int64_t size = t.shape()[dim], work = index.numel();
    if (work <= parallel_grain / 2 || num_threads() == 1) {
        scatter_lines<T, M>(t, dim, index, src, 0, size, checked);
        return;
    }
    // Lines along `dim` are independent: split the longest other dimension, or else ranges of the targets.
    int64_t split = -1;
    for (int64_t d = 0; d < index.dim(); d++) {
        if (d == dim || index.shape()[d] < 2 * num_threads()) continue;
        if (split < 0 || index.shape()[d] > index.shape()[split]) split = d;
    }
    if (split >= 0) {
        parallel_for(index.shape()[split], 1, [&](int64_t begin, int64_t end) {
            int64_t n = end - begin;
            scatter_lines<T, M>(narrow(t, split, begin, n), dim, narrow(index, split, begin, n),
                                narrow(src, split, begin, n), 0, size, checked);
        });
        return;
    }
    int64_t shares = num_threads();
    parallel_for(shares, 1, [&](int64_t begin, int64_t end) {
        scatter_lines<T, M>(t, dim, index, src, size * begin / shares, size * end / shares, checked);
    });
}

}  // namespace

void scatter(const Tensor& t, int64_t dim, const Tensor& index, const Tensor& src, Combine how, bool checked) {
    if (index.numel() == 0) return;
    if (t.shape()[dim] == 0) check_indices(index, dim, 0);  // always an error here: there is no line to write
    dispatch_combine(how, t.dtype(), [&](auto tag, auto m) {
        using T = typename decltype(tag)::type;
        scatter_as<T, decltype(m)::value>(t, dim, index, src, checked);
    });
}

// ---- means ----------------------------------------------------------------------------------------------------------

namespace {

template <class T>
void divide_tile(char** data, int64_t n, const void*) {
    T* to = reinterpret_cast<T*>(data[0]);
    const T* from = reinterpret_cast<const T*>(data[1]);
    const int64_t* counts = reinterpret_cast<const int64_t*>(data[2]);
    for (int64_t i = 0; i < n; i++) {
        if (counts[i] <= 1) {
            to[i] = from[i];
        } else if constexpr (is_complex_type<T>) {
            to[i] = from[i] / static_cast<typename T::value_type>(counts[i]);
        } else if constexpr (std::is_floating_point_v<T>) {
            to[i] = from[i] / static_cast<T>(counts[i]);
        } else if constexpr (std::is_unsigned_v<T>) {
            to[i] = static_cast<T>(static_cast<uint64_t>(from[i]) / static_cast<uint64_t>(counts[i]));
        } else {
            int64_t x = static_cast<int64_t>(from[i]), q = x / counts[i];
            to[i] = static_cast<T>(q - (x % counts[i] < 0));
        }
    }
}

}  // namespace

void divide_by_counts(const Tensor& t, const Tensor& counts) {
    const Tensor* operands[] = {&t, &t, &counts};
    LoopPlan plan;
    make_plan(plan, t.shape(), operands, 3);
    DType c = compute_dtype(t.dtype());
    DType compute[] = {c, c, DType::I64};
    dispatch_compute(c, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (!std::is_same_v<T, bool>) run_tiles(plan, compute, 1, divide_tile<T>, nullptr);
    });
}

}  // namespace fb::cpu
