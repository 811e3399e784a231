#include "backend/cpu/loops.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstring>
#include <utility>

#include "backend/cpu/convert.h"
#include "backend/cpu/gemm_pack.h"
#include "backend/cpu/stream_store.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t tile_bytes = tile_elements * 16;

struct Tile {
    alignas(64) char bytes[tile_bytes];
};

// Outputs this large are written past the caches.
constexpr int64_t stream_bytes = can_stream ? int64_t(64) << 20 : INT64_MAX;
constexpr int64_t stream_elements = 512;  // short tiles keep loads and stores under way at the same time

// One thread's walk over rows [first, last) of the plan; a "row" is a run of the innermost dimension.
class Walk {
  public:
    Walk(const LoopPlan& plan, const DType* compute, int outputs, const TileForms& fn, const void* context)
        : plan_(plan), outputs_(outputs), fn_(fn.plain), context_(context) {
        for (int k = 0; k < plan.count; k++) {
            compute_[k] = compute[k];
            same_[k] = plan.operands[k].dtype == compute[k];
            size_[k] = itemsize(compute[k]);
            filled_from_[k] = nullptr;
            streams_[k] = k < outputs && same_[k] && plan.numel >= stream_bytes / size_[k];
            streaming_ |= streams_[k];
        }
        repeats_ = plan.ndim > 1 && tiles_repeat();
        in_place_ = rows_in_place(fn);
    }
    ~Walk() {
        if (streaming_) end_stream();
    }
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

    // Whole rows: where they lie, or packed, several at a time when they are short.
    void rows(int64_t first, int64_t last) {
        int64_t index[max_dims];
        seek(first, index);
        if (in_place_) return rows_there(first, last, index);
        int64_t inner = plan_.shape[0];
        int64_t group = long_rows() && !repeats_ ? 1 : std::max<int64_t>(1, tile_elements / inner);
        int64_t outer = plan_.ndim > 1 ? plan_.shape[1] : 1;
        for (int64_t row = first; row < last;) {
            // Rows that follow each other along dimension 1.
            int64_t run = std::min({group, outer - index[1], last - row});
            if (inner > tile_elements) run = 1;
            char* at[max_operands];
            locate(index, at);
            for (int64_t begin = 0; begin < inner; begin += run_length(inner, run)) {
                int64_t n = std::min(run_length(inner, run), inner - begin);
                tile(at, begin, n, run);
            }
            row += run;
            index[1] += run;
            for (int d = 1; d + 1 < plan_.ndim && index[d] >= plan_.shape[d]; d++) {
                index[d] = 0;
                index[d + 1]++;
            }
        }
    }

    // Part [begin, end) of a one-dimensional plan.
    void line(int64_t begin, int64_t end) {
        char* at[max_operands];
        for (int k = 0; k < plan_.count; k++) at[k] = plan_.operands[k].data;
        if (in_place_) {
            for (int k = 0; k < plan_.count; k++) at[k] += begin * plan_.operands[k].strides[0];
            if (fixed_) at[fixed_] = element(at[fixed_]);
            fn_(at, end - begin, context_);
            return;
        }
        int64_t step = streaming_ ? stream_elements : tile_elements;
        for (int64_t i = begin; i < end; i += step) tile(at, i, std::min(step, end - i), 1);
    }

  private:
    // Whether rows need no packing but for constants, which are packed once.
    bool long_rows() const {
        bool there = plan_.shape[0] >= 128 && !streaming_;
        for (int k = 0; there && k < plan_.count; k++) {
            const int64_t* s = plan_.operands[k].strides;
            bool constant = k >= outputs_ && s[0] == 0 && s[1] == 0;
            there = constant || (same_[k] && s[0] == size_[k]);
        }
        return there;
    }

    // Whether rows can be computed where they lie: adjacent elements, long enough for a call each, except for one input
    // that may be a single element, if the kernel has a form for it.
    bool rows_in_place(const TileForms& fn) {
        if (streaming_ || (plan_.ndim > 1 && (plan_.shape[0] < 128 || repeats_))) return false;
        for (int k = 0; k < plan_.count; k++) {
            int64_t s0 = plan_.operands[k].strides[0];
            if (same_[k] && s0 == size_[k]) continue;
            TileFn form = k < outputs_ || s0 != 0 || fixed_ ? nullptr
                          : k == outputs_                   ? fn.first_fixed
                          : k == outputs_ + 1               ? fn.second_fixed
                                                            : nullptr;
            if (!form) {
                fixed_ = 0;
                return false;
            }
            fixed_ = k;
            fixed_form_ = form;
        }
        if (fixed_) fn_ = fixed_form_;
        return true;
    }

    // Whether tiles of several rows serve better: inputs that are one row again and again are packed once for many
    // tiles, and all the others need no packing.
    bool tiles_repeat() const {
        const int64_t n = plan_.shape[0];
        bool repeats = false;
        for (int k = 0; k < plan_.count; k++) {
            const int64_t* s = plan_.operands[k].strides;
            bool same_row = k >= outputs_ && s[1] == 0;
            repeats |= same_row;
            if (!same_[k] || s[0] != size_[k] || (!same_row && s[1] != n * size_[k])) return false;
        }
        return repeats && 2 * n <= tile_elements && n * plan_.shape[1] >= 4 * tile_elements;
    }

    // The fixed input's element as the kernel sees it.
    char* element(char* p) {
        if (same_[fixed_]) return p;
        copy_strided(tiles_[fixed_].bytes, compute_[fixed_], 0, p, plan_.operands[fixed_].dtype, 0, 1);
        return tiles_[fixed_].bytes;
    }

    void rows_there(int64_t first, int64_t last, int64_t* index) {
        char* at[max_operands];
        int64_t step[max_operands];
        const int count = plan_.count;
        for (int k = 0; k < count; k++) step[k] = plan_.operands[k].strides[1];
        const int64_t between = fixed_ ? std::exchange(step[fixed_], 0) : 0;  // elements of the fixed input
        while (first < last) {
            locate(index, at);
            int64_t end = std::min(last, first + plan_.shape[1] - index[1]);
            index[1] += end - first;
            char* source = at[fixed_];
            if (fixed_) at[fixed_] = element(source);
            for (; first < end; first++) {
                fn_(at, plan_.shape[0], context_);
                for (int k = 0; k < count; k++) at[k] += step[k];
                if (between && first + 1 < end) at[fixed_] = element(source += between);
            }
            for (int d = 1; d + 1 < plan_.ndim && index[d] >= plan_.shape[d]; d++) {
                index[d] = 0;
                index[d + 1]++;
            }
        }
    }

    // Where the rows of all operands begin.
    void locate(const int64_t* index, char** at) const {
        for (int k = 0; k < plan_.count; k++) {
            at[k] = plan_.operands[k].data;
            for (int d = 1; d < plan_.ndim; d++) at[k] += index[d] * plan_.operands[k].strides[d];
        }
    }

    static int64_t run_length(int64_t inner, int64_t run) { return run > 1 ? inner : tile_elements; }

    void seek(int64_t row, int64_t* index) const {
        index[1] = 0;
        for (int d = 1; d < plan_.ndim; d++) {
            index[d] = row % plan_.shape[d];
            row /= plan_.shape[d];
        }
    }

    // n elements starting at `begin` of `run` successive rows.
    void tile(char* const* at, int64_t begin, int64_t n, int64_t run) {
        char* data[max_operands];
        bool plain[max_operands];  // adjacent elements of the type that is computed with
        for (int k = 0; k < plan_.count; k++) {
            const auto& o = plan_.operands[k];
            int64_t s0 = o.strides[0], s1 = plan_.ndim > 1 ? o.strides[1] : 0;
            char* p = at[k] + begin * s0;
            plain[k] = same_[k] && (s0 == size_[k] || n == 1) && (run == 1 || s1 == n * size_[k]);
            data[k] = plain[k] && !streams_[k] ? p : tiles_[k].bytes;
            if (!plain[k] && k >= outputs_) pack(k, p, s0, s1, n, run);
        }
        fn_(data, n * run, context_);
        for (int k = outputs_; streaming_ && k < plan_.count; k++) {
            // While the stores drain, the tile after the next one can be on its way.
            int64_t bytes = plain[k] ? n * run * size_[k] : 0;
            for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data[k] + 2 * bytes + i);
        }
        for (int k = 0; k < outputs_; k++) {
            if (plain[k] && !streams_[k]) continue;
            const auto& o = plan_.operands[k];
            int64_t s0 = o.strides[0], s1 = plan_.ndim > 1 ? o.strides[1] : 0;
            char* p = at[k] + begin * s0;
            if (plain[k]) {
                stream(p, data[k], n * run * size_[k]);
                continue;
            }
            for (int64_t r = 0; r < run; r++)
                copy_strided(p + r * s1, o.dtype, s0, data[k] + r * n * size_[k], compute_[k], size_[k], n);
        }
    }

    // Operand k into its tile. A constant, or one row that repeats, is filled in once and kept while it stays the same.
    void pack(int k, const char* p, int64_t s0, int64_t s1, int64_t n, int64_t run) {
        char* to = tiles_[k].bytes;
        DType from = plan_.operands[k].dtype;
        bool constant = s0 == 0 && (run == 1 || s1 == 0), repeats = constant || (s1 == 0 && run > 1);
        int64_t period = constant ? 1 : n, total = n * run;
        if (repeats && filled_from_[k] == p && period_[k] == period && filled_[k] >= total) return;
        filled_from_[k] = repeats ? p : nullptr;
        period_[k] = period;
        filled_[k] = total;
        if (constant) {
            copy_strided(to, compute_[k], size_[k], p, from, 0, total);
        } else if (repeats) {
            copy_strided(to, compute_[k], size_[k], p, from, s0, n);
            for (int64_t done = n; done < total; done *= 2)
                std::memcpy(to + done * size_[k], to, static_cast<size_t>(std::min(done, total - done) * size_[k]));
        } else {
            for (int64_t r = 0; r < run; r++)
                copy_strided(to + r * n * size_[k], compute_[k], size_[k], p + r * s1, from, s0, n);
        }
    }

    const LoopPlan& plan_;
    int outputs_;
    TileFn fn_;
    const void* context_;
    DType compute_[max_operands];
    bool same_[max_operands];
    int64_t size_[max_operands];
    const char* filled_from_[max_operands];
    int64_t period_[max_operands], filled_[max_operands];
    bool streams_[max_operands], streaming_ = false;
    bool repeats_ = false, in_place_ = false;
    int fixed_ = 0;  // the input that is a single element; 0, an output, for none
    TileFn fixed_form_ = nullptr;
    Tile tiles_[max_operands];
};

}  // namespace

void run_tiles(const LoopPlan& plan, const DType* compute, int outputs, const TileForms& fn, const void* context,
               double cost) {
    if (plan.numel == 0) return;
    if (plan.ndim <= 1) {
        LoopPlan::Operand const* o = plan.operands;
        bool direct = true;
        for (int k = 0; k < plan.count; k++) {
            direct &= o[k].dtype == compute[k] && (plan.numel == 1 || o[k].strides[0] == itemsize(compute[k]));
        }
        int64_t grain = static_cast<int64_t>(static_cast<double>(parallel_grain) / cost);
        if (direct && plan.numel <= grain) {
            char* at[max_operands];
            for (int k = 0; k < plan.count; k++) at[k] = o[k].data;
            fn.plain(at, plan.numel, context);
            return;
        }
        // A single element has no dimension left; give it one of size 1.
        const LoopPlan* used = &plan;
        LoopPlan single;
        if (plan.ndim == 0) {
            single.ndim = 1;
            single.count = plan.count;
            single.numel = 1;
            single.shape[0] = 1;
            for (int k = 0; k < plan.count; k++) {
                single.operands[k].data = o[k].data;
                single.operands[k].dtype = o[k].dtype;
                single.operands[k].strides[0] = 0;
            }
            used = &single;
        }
        parallel_for(plan.numel, grain,
                     [&](int64_t begin, int64_t end) { Walk(*used, compute, outputs, fn, context).line(begin, end); });
        return;
    }
    int64_t rows = plan.numel / plan.shape[0];
    int64_t grain =
        std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(parallel_grain) / cost) / plan.shape[0]);
    parallel_for(rows, grain,
                 [&](int64_t begin, int64_t end) { Walk(plan, compute, outputs, fn, context).rows(begin, end); });
}

// ---- copy
// ------------------------------------------------------------------------------------------------------------

namespace {

// Every step-th element; a step known to the compiler becomes shuffles instead of single loads.
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

namespace {

// Two-dimensional copy where the source runs fast along dimension 1: square blocks keep both sides in cache, and are
// turned over in registers where elements are adjacent on both sides.
void copy_transposed(const LoopPlan& plan, char* to, const char* from, int64_t first, int64_t last) {
    const auto &t = plan.operands[0], &f = plan.operands[1];
    constexpr int64_t block = 32;
    int64_t inner = plan.shape[0], size = itemsize(t.dtype);
    bool adjacent =
        t.strides[0] == size && f.strides[1] == size && t.strides[1] % size == 0 && f.strides[0] % size == 0;
    for (int64_t r = first; r < last; r += block) {
        int64_t r1 = std::min(last, r + block);
        for (int64_t c = 0; c < inner; c += block) {
            int64_t c1 = std::min(inner, c + block);
            auto turn = [&]<class T>(TypeTag<T>) {
                transpose_copy(reinterpret_cast<T*>(to + r * t.strides[1]) + c, t.strides[1] / size,
                               reinterpret_cast<const T*>(from + c * f.strides[0]) + r, f.strides[0] / size, c1 - c,
                               r1 - r);
            };
            if (adjacent && size == 4) turn(TypeTag<float>{});
            else if (adjacent && size == 8) turn(TypeTag<double>{});
            else
                dispatch_size(t.dtype, [&](auto tag) {
                    using T = typename decltype(tag)::type;
                    for (int64_t i = r; i < r1; i++) {
                        for (int64_t j = c; j < c1; j++) {
                            *reinterpret_cast<T*>(to + i * t.strides[1] + j * t.strides[0]) =
                                *reinterpret_cast<const T*>(from + i * f.strides[1] + j * f.strides[0]);
                        }
                    }
                });
        }
    }
}

// A few planes become one run in which their elements take turns, as the colours of an image do.
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

// Rows [first, last) of the plan, straight from one place to the other.
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
