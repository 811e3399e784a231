#include "backend/cpu/convert.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace fb::cpu {
namespace {

#ifdef __F16C__
// Eight at a time: the compiler does not vectorise these conversions by itself.
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
#endif

template <class To, class From>
void convert_loop(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
    if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
        To* __restrict y = reinterpret_cast<To*>(to);
        const From* __restrict x = reinterpret_cast<const From*>(from);
        int64_t done = 0;
#ifdef __F16C__
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
