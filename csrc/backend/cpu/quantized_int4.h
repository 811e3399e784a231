// Dot products with int4. A part of quantized_formats.h, which includes it.
// 64 bytes of int4, whose nibbles are unsigned, times 128 numbers of two bytes each: the processor has the highest
// throughput for products of a byte and a byte.
struct Halves {
    IntPart low[word_parts], high[word_parts];
    explicit Halves(const uint8_t* at) {
        for (int i = 0; i < word_parts; i++) {
            std::memcpy(&low[i], at + i * word_bytes, word_bytes);
            high[i] = low[i] >> 4 & 0x0f0f0f0f;
            low[i] &= 0x0f0f0f0f;
        }
    }
    // Lane l of part i has the sum of eight products, those of byte 4 l to 4 l + 3.
    void products(const int8_t* x, IntPart* sum) const {
        for (int i = 0; i < word_parts; i++) {
            const int8_t *first = x + i * word_bytes, *second = first + 64;
#if defined(FB_WIDE)
            auto add = [](__m512i all, IntPart w, const int8_t* by) {
                return _mm512_dpbusd_epi32(all, (__m512i)w, _mm512_loadu_si512(by));
            };
            __m512i upper = add(add(_mm512_setzero_si512(), low[i], first), high[i], second);
            __m512i lower = add(add(_mm512_setzero_si512(), low[i], first + 128), high[i], second + 128);
            sum[i] = (IntPart)_mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
#elif defined(__AVX2__)
            auto both = [&](int64_t from) {  // at most 4 * 15 * 128 in size
                auto times = [](IntPart w, const int8_t* by) {
                    return _mm256_maddubs_epi16((__m256i)w, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(by)));
                };
                return _mm256_add_epi16(times(low[i], first + from), times(high[i], second + from));
            };
            sum[i] = (IntPart)_mm256_madd_epi16(both(0), _mm256_set1_epi16(256)) +
                     (IntPart)_mm256_madd_epi16(both(128), _mm256_set1_epi16(1));
#else
            sum[i] = IntPart{};
            for (int j = 0; j < word_bytes; j++) {
                auto part = [j](IntPart w) { return w[j / 4] >> (j % 4 * 8) & 15; };
                sum[i][j / 4] += part(low[i]) * (first[j] * 256 + first[128 + j]) +
                                 part(high[i]) * (second[j] * 256 + second[128 + j]);
            }
#endif
        }
    }
};

// Each of the scales of 128 numbers in the lanes it serves.
template <int group>
SumPart spread(const float* scale, int part) {
    constexpr int lanes = word_bytes / 4, each = group / 8;
    if constexpr (each >= lanes) return SumPart{} + scale[part * lanes / each];
    else {
        SumPart all;
        for (int l = 0; l < lanes; l++) all[l] = scale[(part * lanes + l) / each];
        return all;
    }
}
inline SumPart add_scaled(const SumPart& sum, const IntPart& products, const SumPart& scale) {
#if defined(FB_WIDE)
    return (SumPart)_mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)products), (__m512)scale, (__m512)sum);
#elif defined(__FMA__)
    return (SumPart)_mm256_fmadd_ps(_mm256_cvtepi32_ps((__m256i)products), (__m256)scale, (__m256)sum);
#else
    return sum + __builtin_convertvector(products, SumPart) * scale;
#endif
}

// As Dot, for int4.
template <int group, int rows, int columns>
void dot_int4(const QuantRow* row, int64_t k, const QuantLeft& x, float* out) {
    constexpr int steps = 16, per = 128 / group, most = steps * per;  // scales of 16 steps of 128 numbers
    SumPart sum[columns][rows] = {};
    float low[columns][rows] = {};
    int64_t groups = k / group, whole = k / 128, all = (k + 127) / 128;
    for (int64_t first = 0; first < all; first += steps) {
        int64_t some = all - first < steps ? all - first : steps;
        int64_t scales = some * per < groups - first * per ? some * per : groups - first * per;
        alignas(64) float both[columns][rows][most] = {};
        for (int r = 0; r < rows; r++) {
            float of_x[most], sum_x[most];
            const float* scale = x.scale + r * x.parts + first * 4;
            const float* parts = x.sum + r * x.parts + first * 4;
            for (int64_t i = 0; i < scales; i++) {
                of_x[i] = scale[i * group / 32];
                sum_x[i] = 0;
                for (int64_t j = i * group / 32; j < (i + 1) * group / 32; j++) sum_x[i] += parts[j];
            }
            for (int c = 0; c < columns; c++) {
                const uint16_t *d = row[c].scale + first * per, *m = row[c].zero + first * per;
                float least = 0;
#pragma omp simd reduction(+ : least)
                for (int64_t i = 0; i < scales; i++) {
                    both[c][r][i] = brain_at(d + i) * of_x[i];
                    least += brain_at(m + i) * sum_x[i];
                }
                low[c][r] += least;
            }
        }
        for (int64_t s = 0; s < some; s++) {
            const int8_t* from = x.bytes + (first + s) * 256;
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const uint8_t* at = row[c].data + (first + s) * 64;
                if (columns > 1) __builtin_prefetch(at + columns * k / 2);
                uint8_t rest[64];
                if (first + s == whole) {  // the last bytes of a row, and zeros
                    std::memset(rest, 0, 64);
                    std::memcpy(rest, at, static_cast<size_t>(k % 128 / 2));
                    at = rest;
                }
                Halves w(at);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) {
                    IntPart products[word_parts];
                    w.products(from + r * x.parts * 64, products);
                    const float* scale = both[c][r] + s * per;
                    if constexpr (group == 128 && word_parts == 2) {
                        sum[c][r] = add_scaled(sum[c][r], products[0] + products[1], spread<group>(scale, 0));
                    } else {
                        for (int i = 0; i < word_parts; i++)
                            sum[c][r] = add_scaled(sum[c][r], products[i], spread<group>(scale, i));
                    }
                }
            }
        }
    }
    for (int c = 0; c < columns; c++) {
        for (int r = 0; r < rows; r++) out[c * 4 + r] = total(sum[c][r]) - low[c][r];
    }
}
