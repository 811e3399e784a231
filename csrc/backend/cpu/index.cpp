#include "backend/cpu/index.h"

#include <cstring>

#include "backend/cpu/combine.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/walk.h"
#include "base/parallel.h"

namespace fb::cpu {

// ---- offsets --------------------------------------------------------------------------------------------------------

namespace {

struct OffsetContext {
    int64_t dim, size, stride;
    bool wrap, set, unsigned_bits;
};

[[noreturn, gnu::cold]] void fail_range(int64_t index, const OffsetContext& c) {
    if (c.unsigned_bits && index < 0)
        fail_index("index ", static_cast<uint64_t>(index), " is out of bounds for dimension ", c.dim, " with size ",
                   c.size);
    if (c.size == 0)
        fail_index("index is out of bounds for dimension with size 0: got index ", index, " in dimension ", c.dim);
    fail_index("index ", index, " is out of bounds for dimension ", c.dim, " with size ", c.size);
}

void offset_tile(char** data, int64_t n, const void* context) {
    const OffsetContext& c = *static_cast<const OffsetContext*>(context);
    int64_t* to = reinterpret_cast<int64_t*>(data[0]);
    const int64_t* __restrict index = reinterpret_cast<const int64_t*>(data[1]);
    int64_t low = c.wrap && !c.unsigned_bits ? -c.size : 0, size = c.size, stride = c.stride;
    int64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) bad |= (index[i] < low) | (index[i] >= size);
    if (bad) {
        for (int64_t i = 0; i < n; i++) {
            if (index[i] < low || index[i] >= size) fail_range(index[i], c);
        }
    }
    if (c.set) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = (index[i] + (index[i] < 0 ? size : 0)) * stride;
    } else {
        const int64_t* sum = reinterpret_cast<const int64_t*>(data[2]);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = sum[i] + (index[i] + (index[i] < 0 ? size : 0)) * stride;
    }
}

void check_tile(char** data, int64_t n, const void* context) {
    const OffsetContext& c = *static_cast<const OffsetContext*>(context);
    const int64_t* index = reinterpret_cast<const int64_t*>(data[0]);
    int64_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; i++) bad |= (index[i] < 0) | (index[i] >= c.size);
    if (!bad) return;
    for (int64_t i = 0; i < n; i++) {
        if (index[i] < 0 || index[i] >= c.size) fail_range(index[i], c);
    }
}

}  // namespace

void add_offsets(const Tensor& offsets, const Tensor& indices, int64_t dim, int64_t size, int64_t stride, bool wrap,
                 bool set) {
    const Tensor* operands[] = {&offsets, &indices, &offsets};
    LoopPlan plan;
    make_plan(plan, offsets.shape(), operands, set ? 2 : 3);
    DType compute[] = {DType::I64, DType::I64, DType::I64};
    OffsetContext context{dim, size, stride, wrap, set, indices.dtype() == DType::U64};
    run_tiles(plan, compute, 1, offset_tile, &context);
}

void check_indices(const Tensor& indices, int64_t dim, int64_t size) {
    const Tensor* operands[] = {&indices};
    LoopPlan plan;
    make_plan(plan, indices.shape(), operands, 1);
    DType compute[] = {DType::I64};
    OffsetContext context{dim, size, 1, false, false, indices.dtype() == DType::U64};
    run_tiles(plan, compute, 0, check_tile, &context);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

namespace {

// The dimensions before and after the indexed ones, as plans over (written, read).
struct RowPlans {
    LoopPlan before, after;
};

void part_plan(LoopPlan& plan, const Tensor& to, int64_t to_first, const Tensor& from, int64_t from_first,
               int64_t count) {
    Dims shape(to.shape().begin() + to_first, to.shape().begin() + to_first + count);
    Tensor a =
        view_of(to, shape, Dims(to.strides().begin() + to_first, to.strides().begin() + to_first + count), to.offset());
    Tensor b =
        view_of(from, shape, Dims(from.strides().begin() + from_first, from.strides().begin() + from_first + count),
                from.offset());
    const Tensor* operands[] = {&a, &b};
    make_plan(plan, shape, operands, 2);
}

// One (after…) block: read → written.
template <class T, Combine M>
struct BlockMover {
    const LoopPlan& plan;
    int64_t n, to_stride, from_stride, rows;
    bool run;

    explicit BlockMover(const LoopPlan& after) : plan(after) {
        n = after.ndim ? after.shape[0] : 1;
        to_stride = after.ndim ? after.operands[0].strides[0] : 0;
        from_stride = after.ndim ? after.operands[1].strides[0] : 0;
        rows = row_count(after);
        constexpr int64_t size = sizeof(T);
        run = after.ndim == 1 && to_stride == size && from_stride == size;
    }
    void operator()(char* to, const char* from) const {
        if (run) {
            if constexpr (M == Combine::Assign) {
                std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
            } else {
                T* __restrict w = reinterpret_cast<T*>(to);
                const T* __restrict r = reinterpret_cast<const T*>(from);
#pragma omp simd
                for (int64_t i = 0; i < n; i++) w[i] = combine<M>(w[i], r[i]);
            }
            return;
        }
        int64_t shift_to = to - plan.operands[0].data, shift_from = from - plan.operands[1].data;
        walk_runs(plan, 0, rows, [&](char** at, int64_t count) {
            char* w = at[0] + shift_to;
            const char* r = at[1] + shift_from;
            for (int64_t i = 0; i < count; i++, w += to_stride, r += from_stride) {
                *reinterpret_cast<T*>(w) = combine<M>(*reinterpret_cast<T*>(w), *reinterpret_cast<const T*>(r));
            }
        });
    }
};

template <class F>
void each_before(const LoopPlan& before, int64_t first, int64_t last, F&& f) {
    // The dimensions of the plan are unravelled by hand: this loop is never the innermost.
    for (int64_t b = first; b < last; b++) {
        int64_t rest = b, to = 0, from = 0;
        for (int d = 0; d < before.ndim; d++) {
            int64_t i = rest % before.shape[d];
            rest /= before.shape[d];
            to += i * before.operands[0].strides[d];
            from += i * before.operands[1].strides[d];
        }
        f(b, to, from);
    }
}

}  // namespace

void gather_rows(const Tensor& to, const Tensor& rows, const Tensor& offsets, int64_t before) {
    int64_t n = offsets.numel(), after = rows.dim() - before;
    if (to.numel() == 0) return;
    // `to` is contiguous: its shape is (before…, n, after…).
    RowPlans plans;
    part_plan(plans.before, to, 0, rows, 0, before);
    part_plan(plans.after, to, before + 1, rows, before, after);
    int64_t outer = plans.before.numel, block = plans.after.numel, step = block * to.itemsize();
    const int64_t* off = offsets.data<int64_t>();
    char* to_data = to.raw();
    const char* from_data = rows.raw();
    int64_t grain = std::max<int64_t>(1, parallel_grain / 2 / block);
    dispatch_size(to.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(outer * n, grain, [&](int64_t begin, int64_t end) {
            BlockMover<T, Combine::Assign> mover(plans.after);
            each_before(plans.before, begin / n, (end - 1) / n + 1,
                        [&](int64_t b, int64_t shift_to, int64_t shift_from) {
                            int64_t i0 = std::max<int64_t>(begin - b * n, 0), i1 = std::min(end - b * n, n);
                            char* w = to_data + shift_to;
                            const char* r = from_data + shift_from;
                            if (block == 1) {
                                T* __restrict single = reinterpret_cast<T*>(w);
                                for (int64_t i = i0; i < i1; i++) single[i] = *reinterpret_cast<const T*>(r + off[i]);
                            } else {
                                for (int64_t i = i0; i < i1; i++) mover(w + i * step, r + off[i]);
                            }
                        });
        });
    });
}

template <class T, Combine M>
static void scatter_rows_as(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before) {
    int64_t n = offsets.numel(), after = rows.dim() - before;
    if (from.numel() == 0) return;
    RowPlans plans;
    part_plan(plans.before, rows, 0, from, 0, before);
    part_plan(plans.after, rows, before, from, before + 1, after);
    int64_t outer = plans.before.numel, block = plans.after.numel, step = from.strides()[before] * from.itemsize();
    const int64_t* off = offsets.data<int64_t>();
    char* to_data = rows.raw();
    const char* from_data = from.raw();
    auto move = [&](int64_t b0, int64_t b1, int64_t low, int64_t high, bool whole) {
        BlockMover<T, M> mover(plans.after);
        each_before(plans.before, b0, b1, [&](int64_t, int64_t shift_to, int64_t shift_from) {
            char* w = to_data + shift_to;
            const char* r = from_data + shift_from;
            if (block == 1) {
                for (int64_t i = 0; i < n; i++) {
                    if (!whole && (off[i] < low || off[i] > high)) continue;
                    T* target = reinterpret_cast<T*>(w + off[i]);
                    *target = combine<M>(*target, *reinterpret_cast<const T*>(r + i * step));
                }
                return;
            }
            for (int64_t i = 0; i < n; i++) {
                if (whole || (off[i] >= low && off[i] <= high)) mover(w + off[i], r + i * step);
            }
        });
    };
    auto [least, most] = std::minmax_element(off, off + n);
    int64_t low = *least, high = *most;
    if (outer >= 2 * num_threads() || high - low < 1024) {
        parallel_for(outer, std::max<int64_t>(1, parallel_grain / 2 / (block * n)),
                     [&](int64_t b0, int64_t b1) { move(b0, b1, low, high, true); });
        return;
    }
    // Each thread reads all offsets and writes those in its own address range: values for one element are combined in
    // the order of the indices, whatever the number of threads.
    int64_t shares = outer * n * block > parallel_grain / 2 ? num_threads() : 1;
    int64_t span = (high - low) / shares + 1;
    parallel_for(shares, 1, [&](int64_t s0, int64_t s1) {
        for (int64_t s = s0; s < s1; s++) move(0, outer, low + s * span, low + (s + 1) * span - 1, shares == 1);
    });
}

void scatter_rows(const Tensor& rows, const Tensor& from, const Tensor& offsets, int64_t before, Combine how) {
    dispatch_combine(how, rows.dtype(), [&](auto tag, auto m) {
        using T = typename decltype(tag)::type;
        scatter_rows_as<T, decltype(m)::value>(rows, from, offsets, before);
    });
}

void add_overlapping(const Tensor& view, const Tensor& from) {
    const Dims &shape = view.shape(), &strides = view.strides();
    dispatch_all(view.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* source = from.data<T>();
        T* start = view.data<T>();
        Dims at(shape.size(), 0);
        for (int64_t i = 0; i < from.numel(); i++) {
            int64_t place = 0;
            for (int64_t d = 0; d < at.size(); d++) place += at[d] * strides[d];
            start[place] = T(start[place] + source[i]);
            for (int64_t d = at.size() - 1; d >= 0 && ++at[d] == shape[d]; d--) at[d] = 0;
        }
    });
}

Tensor repeat_indices(const Tensor& counts) {
    const int64_t* times = counts.data<int64_t>();
    int64_t total = 0;
    for (int64_t i = 0; i < counts.numel(); i++) {
        fb::check(times[i] >= 0, "repeats can not be negative, got ", times[i]);
        if (__builtin_add_overflow(total, times[i], &total)) fail_value("the number of repeated elements overflows");
    }
    Tensor result = empty({total}, DType::I64, counts.device());
    int64_t* to = result.data<int64_t>();
    for (int64_t i = 0; i < counts.numel(); i++) to = std::fill_n(to, times[i], i);
    return result;
}

static const device::Provide<device::Indexing> provided(DeviceType::CPU, {.add_offsets = add_offsets,
                                                                          .check = check_indices,
                                                                          .gather_rows = gather_rows,
                                                                          .scatter_rows = scatter_rows,
                                                                          .gather = gather,
                                                                          .scatter = scatter,
                                                                          .add_overlapping = add_overlapping,
                                                                          .repeat_indices = repeat_indices,
                                                                          .divide_by_counts = divide_by_counts,
                                                                          .mask_fill = mask_fill,
                                                                          .mask_offsets = mask_offsets,
                                                                          .mask_select = mask_select,
                                                                          .mask_coordinates = mask_coordinates,
                                                                          .count_true = count_true});

}  // namespace fb::cpu
