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

// `count` ≤ 4 bfloat16 numbers, and zeros; `before`: as many as are missing to four may be read before them.
typedef float Four __attribute__((vector_size(16)));
inline Four brains(const uint16_t* from, int count, bool before) {
    uint64_t bits = 0;
    if (before) bits = read<uint64_t>(from + count - 4) >> (4 - count) * 16;
    else {
        for (int i = 0; i < count; i++) bits |= static_cast<uint64_t>(from[i]) << i * 16;
    }
#ifdef __AVX2__
    return (Four)_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bits))), 16);
#else
    Four all;
    for (int i = 0; i < 4; i++) all[i] = std::bit_cast<float>(static_cast<uint32_t>(bits >> i * 16 & 0xffff) << 16);
    return all;
#endif
}

// Of four scales, those of the numbers 128 * step to 128 * step + 127 in the lanes they serve, eight numbers to a lane.
template <int group>
SumPart spread(const Four& scale, int step, [[maybe_unused]] int part) {
    constexpr int each = group / 8;
    int first = step * 128 / group;
#if defined(FB_WIDE)
    if constexpr (each >= 16)
        return (SumPart)_mm512_permutexvar_ps(_mm512_set1_epi32(first), _mm512_castps128_ps512((__m128)scale));
    const __m512i lanes =
        _mm512_set_epi32(15 / each, 14 / each, 13 / each, 12 / each, 11 / each, 10 / each, 9 / each, 8 / each, 7 / each,
                         6 / each, 5 / each, 4 / each, 3 / each, 2 / each, 1 / each, 0);
    return (SumPart)_mm512_permutexvar_ps(_mm512_add_epi32(lanes, _mm512_set1_epi32(first)),
                                          _mm512_castps128_ps512((__m128)scale));
#elif defined(__AVX2__)
    int from = first + part * 8 / each, to = first + (part * 8 + 4) / each;
    const __m256i lanes = _mm256_set_epi32(to, to, to, to, from, from, from, from);
    return (SumPart)_mm256_permutevar8x32_ps(_mm256_castps128_ps256((__m128)scale), lanes);
#else
    SumPart all;
    for (int l = 0; l < word_bytes / 4; l++) all[l] = scale[first + (part * word_bytes / 4 + l) / each];
    return all;
#endif
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

// As Dot, for int4: four groups at a time.
template <int group, int rows, int columns>
void dot_int4(const QuantRow* row, int64_t k, const QuantLeft& x, float* out) {
    constexpr int steps = group / 32;  // of 128 numbers, in four groups
    SumPart sum[columns][rows] = {};
    Four low[columns][rows] = {};
    int64_t groups = k / group, whole = k / 128, all = (k + 127) / 128, stride = x.parts * 32 / group;
    auto run = [&](auto full, int64_t t, int c) __attribute__((always_inline)) {
        const uint16_t *d = row[c].scale + t * 4, *m = row[c].zero + t * 4;
        uint8_t bytes[64];
        int count = full ? 4 : static_cast<int>(groups % 4);
        Four scale = brains(d, count, full || t > 0), least = brains(m, count, full || t > 0), by_x[rows];
        for (int r = 0; r < rows; r++) {
            by_x[r] = scale * read<Four>(x.group_scale + r * stride + t * 4);
            low[c][r] += least * read<Four>(x.group_sum + r * stride + t * 4);
        }
#pragma GCC unroll 4
        for (int i = 0; i < steps; i++) {
            int64_t s = t * steps + i;
            const uint8_t* at = row[c].data + s * 64;
            if constexpr (!full) {
                if (s >= all) break;
                if (s == whole) {
                    std::memset(bytes, 0, 64);
                    at = static_cast<const uint8_t*>(std::memcpy(bytes, at, static_cast<size_t>(k % 128 / 2)));
                }
            }
            if (columns > 1) __builtin_prefetch(at + columns * k / 2);
            Halves w(at);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                IntPart products[word_parts];
                w.products(x.bytes + s * 256 + r * x.parts * 64, products);
                if constexpr (group == 128 && word_parts == 2) {
                    sum[c][r] = add_scaled(sum[c][r], products[0] + products[1], spread<group>(by_x[r], i, 0));
                } else {
#pragma GCC unroll 2
                    for (int part = 0; part < word_parts; part++)
                        sum[c][r] = add_scaled(sum[c][r], products[part], spread<group>(by_x[r], i, part));
                }
            }
        }
    };
    for (int64_t t = 0; t < groups / 4; t++) {
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) run(std::true_type(), t, c);
    }
    for (int c = 0; c < columns && groups % 4; c++) run(std::false_type(), groups / 4, c);
    for (int c = 0; c < columns; c++) {
        for (int r = 0; r < rows; r++) {
            Four least = low[c][r];
            out[c * 4 + r] = total(sum[c][r]) - ((least[0] + least[1]) + (least[2] + least[3]));
        }
    }
}
