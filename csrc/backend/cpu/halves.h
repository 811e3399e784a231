// Conversion of sixteen float16 or bfloat16 numbers to two vectors of float and back: the compiler does not vectorise
// these conversions well.
#pragma once
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include <cstring>
#include <vector>

#include "base/dtype.h"

namespace fb::cpu {

typedef float Floats8 __attribute__((vector_size(32)));
inline constexpr int64_t pair_lanes = 16;

#ifdef __AVX2__
inline void load_pair(const BFloat16* x, Floats8& low, Floats8& high) {
    __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)), zero = _mm256_setzero_si256();
    all = _mm256_permute4x64_epi64(all, 0xd8);
    low = (Floats8)_mm256_unpacklo_epi16(zero, all);
    high = (Floats8)_mm256_unpackhi_epi16(zero, all);
}
inline __m256i rounded_to_bfloat(Floats8 value) {  // like BFloat16(float), except for NaN
    __m256i bits = (__m256i)value;
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, even), _mm256_set1_epi32(0x7fff)), 16);
}
inline __m256i nan_to_bfloat(Floats8 value, __m256i rounded) {  // NaN keeps its sign
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32((__m256i)value, 16), _mm256_set1_epi32(0x8000));
    __m256i nan = _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc0));
    return _mm256_blendv_epi8(rounded, nan, (__m256i)_mm256_cmp_ps((__m256)value, (__m256)value, _CMP_UNORD_Q));
}
inline void store_pair(BFloat16* y, Floats8 low, Floats8 high) {
    __m256i first = rounded_to_bfloat(low), second = rounded_to_bfloat(high);
    if (_mm256_movemask_ps(_mm256_cmp_ps((__m256)low, (__m256)high, _CMP_UNORD_Q))) [[unlikely]] {
        first = nan_to_bfloat(low, first);
        second = nan_to_bfloat(high, second);
    }
    __m256i both = _mm256_packus_epi32(first, second);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm256_permute4x64_epi64(both, 0xd8));
}
inline void load_pair(const Half* x, Floats8& low, Floats8& high) {
    const __m128i* at = reinterpret_cast<const __m128i*>(x);
    low = (Floats8)_mm256_cvtph_ps(_mm_loadu_si128(at));
    high = (Floats8)_mm256_cvtph_ps(_mm_loadu_si128(at + 1));
}
inline void store_pair(Half* y, Floats8 low, Floats8 high) {
    __m128i* at = reinterpret_cast<__m128i*>(y);
    _mm_storeu_si128(at, _mm256_cvtps_ph((__m256)low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(at + 1, _mm256_cvtps_ph((__m256)high, _MM_FROUND_TO_NEAREST_INT));
}
#else
template <class H>
void load_pair(const H* x, Floats8& low, Floats8& high) {
    for (int i = 0; i < 8; i++) low[i] = float(x[i]), high[i] = float(x[i + 8]);
}
template <class H>
void store_pair(H* y, Floats8 low, Floats8 high) {
    for (int i = 0; i < 8; i++) y[i] = H(low[i]), y[i + 8] = H(high[i]);
}
#endif

// Converts n numbers of a half type to floats, and back.
template <class H>
void widen(float* to, const H* from, int64_t n) {
    int64_t i = 0;
    for (; i + pair_lanes <= n; i += pair_lanes) {
        Floats8 low, high;
        load_pair(from + i, low, high);
        std::memcpy(to + i, &low, sizeof low);
        std::memcpy(to + i + 8, &high, sizeof high);
    }
    for (; i < n; i++) to[i] = float(from[i]);
}
template <class H>
void narrow_to(H* to, const float* from, int64_t n) {
    int64_t i = 0;
    for (; i + pair_lanes <= n; i += pair_lanes) {
        Floats8 low, high;
        std::memcpy(&low, from + i, sizeof low);
        std::memcpy(&high, from + i + 8, sizeof high);
        store_pair(to + i, low, high);
    }
    for (; i < n; i++) to[i] = H(from[i]);
}

// A run of n stored numbers in their compute type: in place, or, for half types, converted into a buffer.
template <class S>
using Computed = std::conditional_t<is_half_type<S>, float, S>;
template <class S>
class Line {
  public:
    explicit Line(int64_t n) : n_(n), floats_(is_half_type<S> ? static_cast<size_t>(n) : 0) {}
    const Computed<S>* read(const S* from) {
        if constexpr (is_half_type<S>) return widen(floats_.data(), from, n_), floats_.data();
        else return from;
    }
    // Where to write the values that store() then converts to `to`.
    Computed<S>* written(S* to) {
        if constexpr (is_half_type<S>) return floats_.data();
        else return to;
    }
    void store([[maybe_unused]] S* to) const {
        if constexpr (is_half_type<S>) narrow_to(to, floats_.data(), n_);
    }

  private:
    int64_t n_;
    std::vector<float> floats_;
};

}  // namespace fb::cpu
