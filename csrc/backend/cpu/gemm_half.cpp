// Products of half types: packed as pairs for the bfloat16 instruction or as floats; products with a few rows read the
// matrix in place.
#include "backend/cpu/gemm_half.h"

#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_half_pack.h"
#include "base/cpu_level.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

struct CacheLine {
    alignas(64) char bytes[64];
};
float* buffer(std::vector<CacheLine>& lines, int64_t elements) {
    size_t wanted = (static_cast<size_t>(elements) + 15) / 16;
    if (lines.size() < wanted) lines.resize(wanted);
    return reinterpret_cast<float*>(lines.data());
}

// Writes n sums to row i from column j on.
template <class H>
void finish(const HalfGemm& g, float* sums, int64_t i, int64_t j, int64_t n) {
    alignas(64) float more[256];
    for (int64_t first = 0; first < n; first += 256) {
        int64_t some = std::min<int64_t>(256, n - first), at = i * g.c_row + j + first;
        float* sum = sums + first;
        H* to = reinterpret_cast<H*>(g.c) + at;
        float* wide = reinterpret_cast<float*>(g.c) + at;
        if (g.alpha != 1)
            for (int64_t c = 0; c < some; c++) sum[c] *= g.alpha;
        if (g.beta != 0) {
            g.wide ? void(std::memcpy(more, wide, static_cast<size_t>(some) * sizeof(float))) : widen(more, to, some);
            for (int64_t c = 0; c < some; c++) sum[c] += g.beta * more[c];
        }
        if (g.bias) {
            widen(more, reinterpret_cast<const H*>(g.bias) + j + first, some);
            for (int64_t c = 0; c < some; c++) sum[c] += more[c];
        }
        g.wide ? void(std::memcpy(wide, sum, static_cast<size_t>(some) * sizeof(float))) : narrow_to(to, sum, some);
    }
}

template <class H, bool Pairs>
struct PackedHalf {
    using L = HalfLanes<H, Pairs>;
    static constexpr int64_t per = L::per, wide = Pairs ? pair_wide : panel_wide, narrow = wide / 2;
    static constexpr int64_t depth = Pairs ? pair_depth : panel_depth, row = depth + 16;
    // Columns of b packed at a time, rows of a, and rows whose sums wait for the next block of k.
    static constexpr int64_t columns_packed = 256, rows_packed = 84, rows_waiting = 1008;
    static constexpr int64_t left_size = rows_packed * row, most_left = 32;  // packed parts of a that are kept

    const HalfGemm& g;
    const H* a() const { return reinterpret_cast<const H*>(g.a); }
    const H* b() const { return reinterpret_cast<const H*>(g.b); }

    // Splits the sum along k into blocks of about the same depth, as many as a panel's depth requires.
    int64_t lanes() const { return (g.k + per - 1) / per; }
    int64_t block() const {
        int64_t blocks = (lanes() + depth - 1) / depth;
        return (lanes() + blocks - 1) / blocks;
    }
    int64_t steps(int64_t p, int64_t height) const { return std::min(height * per, g.k - p * per); }

    // Packs columns [first, last) of lanes p … p + height as panels; the last one may have half the width.
    void pack_b(float* to, int64_t first, int64_t last, int64_t p, int64_t height) const {
        auto across = [&](int64_t j) { return last - j <= narrow ? narrow : wide; };
        if (g.b_col == 1) {  // row by row, as stored
            for (int64_t q = 0; q < height; q++) {
                const H* from = b() + (p + q) * per * g.b_row;
                bool odd = (p + q) * per + 1 >= g.k;
                for (int64_t j = first; j < last; j += wide)
                    L::across(to + (j - first) * height + q * across(j), from + j, g.b_row, odd,
                              std::min(wide, last - j));
            }
        } else {
            for (int64_t j = first; j < last; j += wide)
                L::transposed(to + (j - first) * height, across(j), b() + p * per + j * g.b_col, g.b_col,
                              std::min(wide, last - j), steps(p, height));
        }
        int64_t left = (last - first) % wide;
        if (left == 0 || left == narrow) return;
        int64_t j = last - left, padded = across(j);
        float* panel = to + (j - first) * height;
        for (int64_t q = 0; q < height; q++) std::fill(panel + q * padded + left, panel + (q + 1) * padded, 0.0f);
    }

    // Packs rows [i, i + rows) of a as rows of lanes `row` apart, or as columns if those are contiguous.
    void pack_a(float* to, int64_t i, int64_t rows, int64_t p, int64_t height) const {
        if (g.a_col == 1) {
            for (int64_t r = 0; r < rows; r++)
                L::along(to + r * row, a() + (i + r) * g.a_row + p * per, steps(p, height));
        } else {
            for (int64_t q = 0; q < height; q++)
                L::across(to + q * rows_packed, a() + i + (p + q) * per * g.a_col, g.a_col, (p + q) * per + 1 >= g.k,
                          rows);
        }
    }

    void multiply(const float* left, int64_t rows, const float* panels, int64_t columns, int64_t height, float* sums,
                  bool add) const {
        int64_t padded = (columns + narrow - 1) / narrow * narrow;
        if constexpr (Pairs) {
            pair_panels({rows, padded, height, reinterpret_cast<const uint32_t*>(left),
                         g.a_col == 1 ? row : rows_packed, g.a_col != 1, reinterpret_cast<const uint32_t*>(panels),
                         sums, columns_packed, add});
        } else {
            PanelGemm floats{rows, padded, height, left, panels, sums, columns_packed, add};
            if (g.a_col == 1) panel_gemm(floats);
            else panel_gemm_transposed(floats, rows_packed);
        }
    }

    // Rows [top, bottom) of columns [first, last), on the calling thread.
    void part(int64_t top, int64_t bottom, int64_t first, int64_t last) const {
        thread_local std::vector<CacheLine> lines;
        int64_t high = block(), all = lanes();
        bool once = high == all;  // only one block of k: sums are final
        int64_t together = once ? bottom - top : rows_waiting;
        // Where other columns follow, all of a stays packed for them.
        int64_t parts_of_a =
            (all + high - 1) / high * ((std::min(together, bottom - top) + rows_packed - 1) / rows_packed);
        bool keep = last - first > columns_packed && parts_of_a <= most_left;
        float* panels =
            buffer(lines, columns_packed * depth + (keep ? parts_of_a : 1) * left_size + rows_waiting * columns_packed);
        float *sums = panels + columns_packed * depth, *packed = sums + rows_waiting * columns_packed;
        for (int64_t upper = top; upper < bottom; upper += together) {
            int64_t lower = std::min(bottom, upper + together);
            for (int64_t j = first; j < last; j += columns_packed) {
                int64_t end = std::min(last, j + columns_packed);
                for (int64_t p = 0; p < all; p += high) {
                    int64_t height = std::min(high, all - p);
                    pack_b(panels, j, end, p, height);
                    // Divided evenly, so that no register block is left with a few rows.
                    int64_t groups = (lower - upper + rows_packed - 1) / rows_packed;
                    for (int64_t q = 0; q < groups; q++) {
                        int64_t i = upper + (lower - upper) * q / groups;
                        int64_t rows = upper + (lower - upper) * (q + 1) / groups - i;
                        float* here = once ? sums : sums + (i - upper) * columns_packed;
                        float* left = packed + (keep ? (p / high * groups + q) * left_size : 0);
                        if (!keep || j == first) pack_a(left, i, rows, p, height);
                        multiply(left, rows, panels, end - j, height, here, p > 0);
                        if (p + height < all) continue;
                        for (int64_t r = 0; r < rows; r++) finish<H>(g, here + r * columns_packed, i + r, j, end - j);
                    }
                }
            }
        }
    }

    // A small c with long sums, as in gradients of weights: the sums are split into parts, each computed by one thread.
    // Their number depends only on the shape.
    int64_t parts() const { return g.m <= 256 && g.n <= 256 && g.k >= 4096 ? std::min<int64_t>(16, g.k / 2048) : 1; }
    void run_parts(int64_t count) const {
        std::vector<float> table(static_cast<size_t>(count * g.m * g.n));
        parallel_for(count, 1, [&](int64_t begin, int64_t end) {
            for (int64_t q = begin; q < end; q++) {
                int64_t first = g.k * q / count;
                HalfGemm one = g;
                one.k = g.k * (q + 1) / count - first;
                one.a += first * g.a_col * int64_t(sizeof(H));
                one.b += first * g.b_row * int64_t(sizeof(H));
                one.c = reinterpret_cast<char*>(table.data() + q * g.m * g.n);
                one.c_row = g.n;
                one.alpha = 1;
                one.beta = 0;
                one.bias = nullptr;
                one.wide = true;
                PackedHalf{one}.part(0, g.m, 0, g.n);
            }
        });
        float* __restrict sums = table.data();
        for (int64_t q = 1; q < count; q++) {
            const float* more = sums + q * g.m * g.n;
            for (int64_t e = 0; e < g.m * g.n; e++) sums[e] += more[e];
        }
        for (int64_t i = 0; i < g.m; i++) finish<H>(g, sums + i * g.n, i, 0, g.n);
    }

    void run() const {
        if (int64_t count = parts(); count > 1) return run_parts(count);
        int64_t work = g.m * g.n * g.k;
        int64_t threads = in_parallel_region() ? 1 : std::min<int64_t>(num_threads(), work >> 19);
        if (threads <= 1) return part(0, g.m, 0, g.n);
        constexpr int64_t packing = 16;  // cost of packing an element of a or b, in multiplications
        int64_t panels = (g.n + wide - 1) / wide, down = 1, across = 1, least = INT64_MAX;
        for (int64_t y = 1; y <= threads; y++) {
            int64_t x = threads / y, rows = (g.m + y - 1) / y, cols = (panels + x - 1) / x * wide;
            int64_t cost = rows * cols + packing * (rows + cols);
            if (cost < least) least = cost, down = y, across = x;
        }
        parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) {
                int64_t y = t / across, x = t % across;
                part(g.m * y / down, g.m * (y + 1) / down, panels * x / across * wide,
                     std::min(g.n, panels * (x + 1) / across * wide));
            }
        });
    }
};

// Few rows, and columns of b that are contiguous along k: b is read in place.
template <class H, bool Pairs>
void few_rows(const HalfGemm& g) {
    const H *a = reinterpret_cast<const H*>(g.a), *b = reinterpret_cast<const H*>(g.b);
    std::vector<float> wide;
    if constexpr (!Pairs) {
        wide.resize(static_cast<size_t>(g.m * g.k));
        for (int64_t i = 0; i < g.m; i++) widen(wide.data() + i * g.k, a + i * g.a_row, g.k);
    }
    int64_t groups = (g.n + rows_columns - 1) / rows_columns;
    int64_t grain = std::max<int64_t>(1, (int64_t(1) << 17) / (rows_columns * g.k));
    parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
        alignas(64) float sums[rows_most * rows_columns];
        for (int64_t t = begin; t < end; t++) {
            int64_t j = t * rows_columns, n = std::min(rows_columns, g.n - j);
            if constexpr (Pairs) bf16_rows(a, g.a_row, g.m, b + j * g.b_col, g.b_col, n, g.k, sums);
            else half_rows(wide.data(), g.k, g.m, b + j * g.b_col, g.b_col, n, g.k, sums);
            for (int64_t i = 0; i < g.m; i++) finish<H>(g, sums + i * n, i, j, n);
        }
    });
}

template <class H, bool Pairs>
void run(const HalfGemm& g) {
    bool few = g.m <= (Pairs ? 48 : 16) && g.a_col == 1 && g.b_row == 1 && g.k >= 32;
    few ? few_rows<H, Pairs>(g) : PackedHalf<H, Pairs>{g}.run();
}

}  // namespace

void half_gemm(const HalfGemm& g) {
    if (g.m == 0 || g.n == 0) return;
    if (g.dtype == DType::F16) return run<Half, false>(g);
    cpu_has(CpuLevel::AVX512_BF16) ? run<BFloat16, true>(g) : run<BFloat16, false>(g);
}

}  // namespace fb::cpu
