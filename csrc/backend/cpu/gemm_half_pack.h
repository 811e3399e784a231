// Packs half-precision matrices for the product kernels: as floats, or as pairs along k.
#pragma once
#include "backend/cpu/gemm_pack.h"
#include "backend/cpu/halves.h"

namespace fb::cpu {

// The packed format: floats, one lane for each step along k, or pairs, one lane for two steps. `per` steps to a lane.
template <class H, bool Pairs>
struct HalfLanes {
    static constexpr int64_t per = Pairs ? 2 : 1;

    // Packs a run of `steps` numbers along k; the second of an odd pair is zero.
    static void along(float* to, const H* from, int64_t steps) {
        if constexpr (Pairs) {
            std::memcpy(to, from, static_cast<size_t>(steps) * sizeof(H));
            if (steps % 2) reinterpret_cast<H*>(to)[steps] = H();
        } else {
            widen(to, from, steps);
        }
    }
    // Packs one lane each of n neighbours across k: from one row, or from two that are `row` apart (one, if `last`).
    static void across(float* to, const H* from, int64_t row, bool last, int64_t n) {
        if constexpr (Pairs) {
            auto* out = reinterpret_cast<uint32_t*>(to);
            int64_t j = 0;
#ifdef __AVX2__
            for (; j + 16 <= n; j += 16) {
                __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + j)), y = _mm256_setzero_si256();
                if (!last) y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + row + j));
                __m256i low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j), _mm256_permute2x128_si256(low, high, 0x20));
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j + 8),
                                    _mm256_permute2x128_si256(low, high, 0x31));
            }
#endif
            for (; j < n; j++) out[j] = from[j].bits | (last ? 0 : uint32_t(from[row + j].bits) << 16);
        } else {
            widen(to, from, n);
        }
    }
    // to[p * to_row + j]: lane p of column j, for at most `most_columns` columns, `col` apart and contiguous along k.
    static constexpr int64_t most_columns = 32;
    static void transposed(float* to, int64_t to_row, const H* from, int64_t col, int64_t columns, int64_t steps) {
        constexpr int64_t block = 64, line = block + 8;
        int64_t lanes = (steps + per - 1) / per, p = 0;
        if (Pairs && col % 2 == 0 && columns % 8 == 0) {  // pairs are copied as stored
            p = steps / 2 / 8 * 8;
            transpose_copy(to, to_row, reinterpret_cast<const float*>(from), col / 2, columns, p);
        }
        alignas(64) float lines[most_columns * line];
        for (; p < lanes; p += block) {
            int64_t some = std::min(block, lanes - p);
            for (int64_t j = 0; j < columns; j++)
                along(lines + j * line, from + j * col + p * per, std::min(some * per, steps - p * per));
            transpose_copy(to + p * to_row, to_row, lines, line, columns, some);
        }
    }
};

}  // namespace fb::cpu
