#include "backend/cpu/loops.h"

#include <cstring>
#include <memory>
#include <utility>

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
constexpr int64_t stream_elements = 512;  // short tiles keep loads and stores in flight at the same time

// One thread's iteration over rows [first, last) of the plan; a "row" is a run of the innermost dimension.
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

    // Whole rows: in place, or packed, several at a time if they are short.
    void rows(int64_t first, int64_t last) {
        int64_t index[max_dims];
        seek(first, index);
        if (in_place_) return rows_there(first, last, index);
        int64_t inner = plan_.shape[0];
        int64_t group = long_rows() && !repeats_ ? 1 : std::max<int64_t>(1, tile_elements / inner);
        int64_t outer = plan_.ndim > 1 ? plan_.shape[1] : 1;
        for (int64_t row = first; row < last;) {
            // Rows that are adjacent along dimension 1.
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
    // Whether only constants need packing, which are packed once.
    bool long_rows() const {
        bool there = plan_.shape[0] >= 128 && !streaming_;
        for (int k = 0; there && k < plan_.count; k++) {
            const int64_t* s = plan_.operands[k].strides;
            bool constant = k >= outputs_ && s[0] == 0 && s[1] == 0;
            there = constant || (same_[k] && s[0] == size_[k]);
        }
        return there;
    }

    // Whether rows can be computed in place: contiguous and long enough for a call each, except for one input that may
    // be a single element, if the kernel has a form for it.
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

    // Whether tiles of several rows are better: inputs that repeat one row are packed once for many tiles, and all
    // others need no packing.
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

    // The fixed input's element in the kernel's type.
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

    // The start of a row in all operands.
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
        bool plain[max_operands];  // contiguous elements of the compute type
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
            // While stores drain, prefetch the tile after the next one.
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

    // Packs operand k into its tile. A constant, or one row that repeats, is packed once and kept while it stays the
    // same.
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
    int fixed_ = 0;  // the input that is a single element; 0 (an output) if none
    TileFn fixed_form_ = nullptr;
    Tile tiles_[max_operands];
};

// ---- transposed inputs ----------------------------------------------------------------------------------------------

// Note [Bands]: if an input is contiguous along dimension 1 rather than 0 (a transposed matrix), packing it row by row
// would use one element of each cache line. Such plans are computed in bands of rows: the band of the input is first
// transposed into a buffer, block by block, and is then like any other operand.
constexpr int64_t band_rows = 16, band_columns = 1024;

bool find_transposed(const LoopPlan& plan, int outputs, bool* transposed) {
    bool any = false;
    for (int k = 0; k < plan.count; k++) {
        const auto& o = plan.operands[k];
        transposed[k] = k >= outputs && o.strides[1] == itemsize(o.dtype) && std::abs(o.strides[0]) > o.strides[1];
        any |= transposed[k];
    }
    return any && plan.shape[0] >= band_rows && plan.shape[1] >= band_rows;
}

// Columns [c, c + width) of `height` rows, whose operands begin at `at`.
void run_band(const LoopPlan& plan, const DType* compute, int outputs, const TileForms& fn, const void* context,
              const bool* transposed, char* const* at, int64_t c, int64_t width, int64_t height, Tile* scratch) {
    LoopPlan band;
    band.ndim = 2;
    band.count = plan.count;
    band.numel = plan.numel;
    band.shape[0] = width;
    band.shape[1] = height;
    for (int k = 0; k < plan.count; k++) {
        auto& o = band.operands[k];
        o = plan.operands[k];
        o.data = at[k] + c * o.strides[0];
        if (!transposed[k]) continue;
        LoopPlan transposing;
        transposing.ndim = transposing.count = 2;
        transposing.shape[0] = width;
        transposing.shape[1] = height;
        transposing.operands[1] = o;
        char* to = scratch->bytes;
        scratch += band_rows;
        o.strides[0] = itemsize(o.dtype);
        o.strides[1] = width * o.strides[0];
        transposing.operands[0] = o;
        copy_transposed(transposing, to, o.data, 0, height);
        o.data = to;
    }
    Walk(band, compute, outputs, fn, context).rows(0, height);
}

void run_bands(const LoopPlan& plan, const DType* compute, int outputs, const TileForms& fn, const void* context,
               const bool* transposed, int64_t grain) {
    const int64_t per_plane = (plan.shape[1] + band_rows - 1) / band_rows;
    const int64_t planes = plan.numel / (plan.shape[0] * plan.shape[1]);
    const auto count = static_cast<size_t>(std::count(transposed, transposed + plan.count, true));
    parallel_for(planes * per_plane, std::max<int64_t>(1, grain / band_rows), [&](int64_t begin, int64_t end) {
        auto scratch = std::make_unique_for_overwrite<Tile[]>(count * band_rows);
        for (int64_t b = begin; b < end; b++) {
            int64_t first = b % per_plane * band_rows, rest = b / per_plane;
            char* at[max_operands];
            for (int k = 0; k < plan.count; k++) at[k] = plan.operands[k].data + first * plan.operands[k].strides[1];
            for (int d = 2; d < plan.ndim; d++) {
                for (int k = 0; k < plan.count; k++) at[k] += rest % plan.shape[d] * plan.operands[k].strides[d];
                rest /= plan.shape[d];
            }
            for (int64_t c = 0; c < plan.shape[0]; c += band_columns)
                run_band(plan, compute, outputs, fn, context, transposed, at, c,
                         std::min(band_columns, plan.shape[0] - c), std::min(band_rows, plan.shape[1] - first),
                         scratch.get());
        }
    });
}

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
        // A plan of a single element has no dimension; give it one of size 1.
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
    bool transposed[max_operands];
    if (find_transposed(plan, outputs, transposed)) {
        run_bands(plan, compute, outputs, fn, context, transposed, grain);
        return;
    }
    parallel_for(rows, grain,
                 [&](int64_t begin, int64_t end) { Walk(plan, compute, outputs, fn, context).rows(begin, end); });
}

}  // namespace fb::cpu
