#include "backend/cpu/convert.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace fb::cpu {
namespace {

#ifdef __AVX2__
// The compiler does not vectorise these conversions by itself, or not well.
int64_t half_from_float(Half* y, const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}
int64_t float_from_half(float* y, const Half* x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
    return i;
}
// What is out of range, and NaN, becomes the least number, as in convert().
int64_t int_from_float(int32_t* y, const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_cvttps_epi32(_mm256_loadu_ps(x + i)));
    return i;
}
__m256i rounded_to_bfloat(__m256 value) {  // as BFloat16(float) does, for what is not NaN
    __m256i bits = _mm256_castps_si256(value);
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, even), _mm256_set1_epi32(0x7fff)), 16);
}
int64_t bfloat_from_float(BFloat16* y, const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 low = _mm256_loadu_ps(x + i), high = _mm256_loadu_ps(x + i + 8);
        if (_mm256_movemask_ps(_mm256_cmp_ps(low, high, _CMP_UNORD_Q))) [[unlikely]] {
            for (int64_t j = i; j < i + 16; j++) y[j] = BFloat16(x[j]);
            continue;
        }
        __m256i both = _mm256_packus_epi32(rounded_to_bfloat(low), rounded_to_bfloat(high));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
    return i;
}
int64_t float_from_bfloat(float* y, const BFloat16* x, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), zero = _mm256_setzero_si256();
        all = _mm256_permute4x64_epi64(all, 0xd8);
        _mm256_storeu_ps(y + i, _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, all)));
        _mm256_storeu_ps(y + i + 8, _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, all)));
    }
    return i;
}
#endif

template <class To, class From>
void convert_loop(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
    if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
        To* __restrict y = reinterpret_cast<To*>(to);
        const From* __restrict x = reinterpret_cast<const From*>(from);
        int64_t done = 0;
#ifdef __AVX2__
        if constexpr (std::is_same_v<To, int32_t> && std::is_same_v<From, float>) done = int_from_float(y, x, n);
        if constexpr (std::is_same_v<To, BFloat16> && std::is_same_v<From, float>) done = bfloat_from_float(y, x, n);
        if constexpr (std::is_same_v<To, float> && std::is_same_v<From, BFloat16>) done = float_from_bfloat(y, x, n);
        if constexpr (std::is_same_v<To, Half> && std::is_same_v<From, float>) done = half_from_float(y, x, n);
        if constexpr (std::is_same_v<To, float> && std::is_same_v<From, Half>) done = float_from_half(y, x, n);
#endif
#pragma omp simd
        for (int64_t i = done; i < n; i++) y[i] = convert<To>(x[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        *reinterpret_cast<To*>(to + i * to_stride) =
            convert<To>(*reinterpret_cast<const From*>(from + i * from_stride));
}

using ConvertFn = void (*)(char*, int64_t, const char*, int64_t, int64_t);

struct Table {
    ConvertFn at[dtype_count][dtype_count];  // [to][from]
};
template <class To, class... From>
void fill_row(Table& table) {
    ((table.at[static_cast<int>(dtype_of<To>())][static_cast<int>(dtype_of<From>())] = convert_loop<To, From>), ...);
}
template <class... All>
Table make_table() {
    Table table;
    (fill_row<All, All...>(table), ...);
    return table;
}

}  // namespace

void convert_strided(char* to, DType to_dtype, int64_t to_stride, const char* from, DType from_dtype,
                     int64_t from_stride, int64_t n) {
    static const Table table = make_table<bool, FB_INTS, Half, BFloat16, float, double, c64, c128>();
    table.at[static_cast<int>(to_dtype)][static_cast<int>(from_dtype)](to, to_stride, from, from_stride, n);
}

}  // namespace fb::cpu
