// The packed formats of convolution factors: panels of the stored type, of floats for half types, or of pairs along the
// sum for the bfloat16 instruction.
#pragma once
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_half.h"
#include "backend/cpu/gemm_half_pack.h"
#include "base/cpu_level.h"

namespace fb::cpu {

// For short runs, where a call of memcpy would take longer.
template <class T>
inline void copy_exactly(T* to, const T* from, int64_t n) {
    constexpr int64_t line = 64 / sizeof(T);
    for (; n >= line; n -= line, to += line, from += line) std::memcpy(to, from, 64);
    if (n == 0) return;
#if defined(__AVX512F__) && defined(__AVX512BW__)
    uint64_t some = (uint64_t(1) << (n * int64_t(sizeof(T)))) - 1;
    _mm512_mask_storeu_epi8(to, some, _mm512_maskz_loadu_epi8(some, from));
#else
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
#endif
}

template <class S, bool Pairs = false>
struct ConvFormat {
    using Cell = std::conditional_t<Pairs, BFloat16, Computed<S>>;  // element of a packed factor
    using Sum = Computed<S>;
    static constexpr int64_t per = Pairs ? 2 : 1;  // cells per lane: neighbours along the sum
    static constexpr int64_t wide = Pairs ? pair_wide : panel_columns<Sum>, narrow = wide / 2;  // columns of a panel
    static constexpr int64_t depth = Pairs ? pair_depth : panel_depth;                          // lanes of a panel
    static constexpr int64_t row = Pairs ? pair_depth + 16 : panel_pitch<Sum>;  // distance of rows, in lanes

    static int64_t padded(int64_t columns) { return (columns + narrow - 1) / narrow * narrow; }
    static int64_t across(int64_t columns_left) { return columns_left <= narrow ? narrow : wide; }
    // Splits the sum into blocks of about the same depth.
    static int64_t block(int64_t lanes) {
        int64_t blocks = (lanes + depth - 1) / depth;
        return (lanes + blocks - 1) / blocks;
    }

    // sums = or += left × panels, `lanes` deep; rows of left are `row` apart.
    static void multiply(const Cell* left, int64_t rows, const Cell* panels, int64_t columns, int64_t lanes, Sum* sums,
                         int64_t sums_row, bool add, const Sum* bias) {
        if constexpr (Pairs)
            pair_panels({rows, padded(columns), lanes, reinterpret_cast<const uint32_t*>(left), row, false,
                         reinterpret_cast<const uint32_t*>(panels), sums, sums_row, add});
        else panel_product<Sum>({rows, padded(columns), lanes, left, panels, sums, sums_row, add, 0, bias});
    }
    // left is column-major: its lanes are left_row apart.
    static void multiply_transposed(const Cell* left, int64_t left_row, int64_t rows, const Cell* panels,
                                    int64_t columns, int64_t lanes, Sum* sums, int64_t sums_row, bool add) {
        if constexpr (Pairs)
            pair_panels({rows, padded(columns), lanes, reinterpret_cast<const uint32_t*>(left), left_row, true,
                         reinterpret_cast<const uint32_t*>(panels), sums, sums_row, add});
        else panel_product_transposed<Sum>({rows, padded(columns), lanes, left, panels, sums, sums_row, add}, left_row);
    }
    // Packs one lane each of n neighbours across the sum: from one row, or from two that are `step` apart (one, if
    // `last`).
    static void lane(Cell* to, const S* from, int64_t step, bool last, int64_t n) {
        if constexpr (Pairs) HalfLanes<S, true>::across(reinterpret_cast<float*>(to), from, step, last, n);
        else if constexpr (std::is_same_v<S, Sum>) copy_exactly(to, from, n);
        else widen(to, from, n);
    }
};

// Per-thread memory for packed factors, reused by the next call.
class Scratch {
  public:
    template <class T>
    T* get(int64_t elements) {
        size_t lines = (static_cast<size_t>(elements) * sizeof(T) + sizeof(Line64) - 1) / sizeof(Line64);
        if (lines_.size() < lines) lines_.resize(lines);
        return reinterpret_cast<T*>(lines_.data());
    }

  private:
    struct Line64 {
        alignas(64) char bytes[64];
    };
    std::vector<Line64> lines_;
};

// Calls f(ConvFormat) for a floating dtype.
template <class F>
void with_format(DType d, F f) {
    if (d == DType::BF16 && cpu_has(CpuLevel::AVX512_BF16)) return f(ConvFormat<BFloat16, true>(), BFloat16());
    if (d == DType::BF16) return f(ConvFormat<BFloat16>(), BFloat16());
    if (d == DType::F16) return f(ConvFormat<Half>(), Half());
    if (d == DType::F64) return f(ConvFormat<double>(), double());
    f(ConvFormat<float>(), float());
}

}  // namespace fb::cpu
