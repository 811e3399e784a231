// The formats of quantized weights, and dot products that read them. Included by one file per processor level (Note
// [Processor levels]), inside an anonymous namespace; FB_WIDE says that AVX-512 with VNNI may be used.
//
// Note [Activations as int16]: an integer product is faster than a floating point one, because no weight has to be
// converted. The rows of the left operand are therefore rounded to int16 with one scale per 128 numbers: an error of
// 2^-16 of the largest of them, far below that of the weights and of half types. Sums of 128 products are exact. int4
// is multiplied by the two bytes separately (quantized_int4.h).

#ifdef FB_WIDE
constexpr int word_parts = 1;
#else
constexpr int word_parts = 2;
#endif
constexpr int word_bytes = 64 / word_parts;
typedef int16_t WordPart __attribute__((vector_size(word_bytes), may_alias));
typedef float SumPart __attribute__((vector_size(word_bytes), may_alias));
typedef int32_t IntPart __attribute__((vector_size(word_bytes), may_alias));

// 32 integers: the first 16 are in the first vector, or in the lower half of the only one.
struct Words {
    WordPart part[word_parts];
    template <class F>
    Words each(F f) const {
        Words to;
        for (int i = 0; i < word_parts; i++) to.part[i] = f(part[i]);
        return to;
    }
    Words operator&(int n) const {
        return each([n](WordPart v) { return v & static_cast<int16_t>(n); });
    }
    Words operator>>(int n) const {
        return each([n](WordPart v) { return v >> n; });
    }
    Words operator<<(int n) const {
        return each([n](WordPart v) { return v << n; });
    }
    Words operator-(int n) const {
        return each([n](WordPart v) { return v - static_cast<int16_t>(n); });
    }
    Words operator|(const Words& o) const {
        Words to;
        for (int i = 0; i < word_parts; i++) to.part[i] = part[i] | o.part[i];
        return to;
    }
    void store(int16_t* to) const { std::memcpy(to, part, 64); }
};

#ifdef FB_WIDE
inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline Words signed_bytes(const void* p) { return {{(WordPart)_mm512_cvtepi8_epi16(load32(p))}}; }
inline Words unsigned_bytes(const void* p) { return {{(WordPart)_mm512_cvtepu8_epi16(load32(p))}}; }
inline Words nibbles(const void* p) {  // of 16 bytes: first the low nibbles
    __m128i all = load16(p), mask = _mm_set1_epi8(15);
    __m128i high = _mm_and_si128(_mm_srli_epi16(all, 4), mask);
    return {{(WordPart)_mm512_cvtepu8_epi16(_mm256_set_m128i(high, _mm_and_si128(all, mask)))}};
}
inline Words bits_as(uint32_t bits, int one) {  // `one` where a bit is set
    return {{(WordPart)_mm512_maskz_set1_epi16(bits, static_cast<int16_t>(one))}};
}
#elif defined(__AVX2__)
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline const char* behind(const void* p, int n) { return static_cast<const char*>(p) + n; }
inline Words signed_bytes(const void* p) {
    return {{(WordPart)_mm256_cvtepi8_epi16(load16(p)), (WordPart)_mm256_cvtepi8_epi16(load16(behind(p, 16)))}};
}
inline Words unsigned_bytes(const void* p) {
    return {{(WordPart)_mm256_cvtepu8_epi16(load16(p)), (WordPart)_mm256_cvtepu8_epi16(load16(behind(p, 16)))}};
}
inline Words nibbles(const void* p) {
    __m256i all = _mm256_cvtepu8_epi16(load16(p));
    return {{(WordPart)_mm256_and_si256(all, _mm256_set1_epi16(15)), (WordPart)_mm256_srli_epi16(all, 4)}};
}
inline SumPart multiply_add(__m256i products, float scale, SumPart sum) {
    __m256 floats = _mm256_cvtepi32_ps(products);
#ifdef __FMA__
    return (SumPart)_mm256_fmadd_ps(floats, _mm256_set1_ps(scale), (__m256)sum);
#else
    return (SumPart)floats * scale + sum;
#endif
}
inline Words bits_as(uint32_t bits, int one) {
    __m256i mask = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
    auto half = [&](uint32_t of) {
        __m256i set = _mm256_and_si256(_mm256_set1_epi16(static_cast<int16_t>(of)), mask);
        return (WordPart)_mm256_and_si256(_mm256_cmpeq_epi16(set, mask), _mm256_set1_epi16(static_cast<int16_t>(one)));
    };
    return {{half(bits & 0xffff), half(bits >> 16)}};
}
#else
template <class F>
Words made(F f) {
    Words to;
    for (int i = 0; i < 32; i++) to.part[i / 16][i % 16] = static_cast<int16_t>(f(i));
    return to;
}
inline Words signed_bytes(const void* p) {
    return made([&](int i) { return static_cast<const int8_t*>(p)[i]; });
}
inline Words unsigned_bytes(const void* p) {
    return made([&](int i) { return static_cast<const uint8_t*>(p)[i]; });
}
inline Words nibbles(const void* p) {
    auto bytes = static_cast<const uint8_t*>(p);
    return made([&](int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; });
}
inline Words bits_as(uint32_t bits, int one) {
    return made([&](int i) { return bits >> i & 1 ? one : 0; });
}
#endif

// sum += w · x, with the first 16 products scaled by `first`, the others by `second`.
inline void accumulate(SumPart& sum, const Words& w, const int16_t* x, float first, float second) {
#ifdef FB_WIDE
    __m512i products = _mm512_dpwssd_epi32(_mm512_setzero_si512(), (__m512i)w.part[0], _mm512_loadu_si512(x));
    __m512 scale = _mm512_mask_broadcastss_ps(_mm512_set1_ps(first), 0xff00, _mm_set_ss(second));
    sum = (SumPart)_mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, (__m512)sum);
#elif defined(__AVX2__)
    const __m256i* from = reinterpret_cast<const __m256i*>(x);
    __m256i low = _mm256_madd_epi16((__m256i)w.part[0], _mm256_loadu_si256(from));
    __m256i high = _mm256_madd_epi16((__m256i)w.part[1], _mm256_loadu_si256(from + 1));
    sum = multiply_add(low, first, sum);
    sum = multiply_add(high, second, sum);
#else
    for (int i = 0; i < 16; i++) {
        sum[i % 8] += static_cast<float>(w.part[0][i] * x[i]) * first;
        sum[i % 8] += static_cast<float>(w.part[1][i] * x[16 + i]) * second;
    }
#endif
}
// sum += w · x in integers, in any lanes.
inline void add_products(IntPart& sum, const Words& w, const int16_t* x) {
#if defined(FB_WIDE)
    sum = (IntPart)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)w.part[0], _mm512_loadu_si512(x));
#elif defined(__AVX2__)
    const __m256i* from = reinterpret_cast<const __m256i*>(x);
    sum += (IntPart)_mm256_madd_epi16((__m256i)w.part[0], _mm256_loadu_si256(from));
    sum += (IntPart)_mm256_madd_epi16((__m256i)w.part[1], _mm256_loadu_si256(from + 1));
#else
    for (int i = 0; i < 32; i++) sum[i % 8] += w.part[i / 16][i % 16] * x[i];
#endif
}
inline void add_scaled(SumPart& sum, const IntPart& products, float scale) {
#if defined(FB_WIDE)
    sum = (SumPart)_mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)products), _mm512_set1_ps(scale), (__m512)sum);
#elif defined(__AVX2__)
    sum = multiply_add((__m256i)products, scale, sum);
#else
    for (int i = 0; i < 8; i++) sum[i] += static_cast<float>(products[i]) * scale;
#endif
}
inline float total(const SumPart& sum) {
#if defined(FB_WIDE)
    return _mm512_reduce_add_ps((__m512)sum);
#else
    SumPart all = sum;
    for (int half = 4; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) all[i] += all[i + half];
    }
    return all[0];
#endif
}

template <class T>
T read(const void* p) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    return value;
}
inline float half_at(const void* p) { return static_cast<float>(read<_Float16>(p)); }
inline float brain_at(const uint16_t* p) { return std::bit_cast<float>(static_cast<uint32_t>(*p) << 16); }

// d and m of a block.
template <int count>
struct Scales {
    float d[count], m[count];
};

// A format: the number of 32-element parts per block, of scales, and of bytes, and whether m can be nonzero; the scales
// of block b of a row, and the integers of a part of it.
struct Int8Rows {  // one scale per row, which the caller applies
    static constexpr int parts = 4, count = 1, bytes = 128;
    static constexpr bool mins = false;
    static void scales(const QuantRow&, int64_t, Scales<1>& s) { s.d[0] = 1; }
    static Words words(const uint8_t* at, int i) { return signed_bytes(at + i * 32); }
};
struct Int8 {
    static constexpr int parts = 1, count = 1, bytes = 32;
    static constexpr bool mins = false;
    static void scales(const QuantRow& row, int64_t b, Scales<1>& s) {
        s.d[0] = brain_at(row.scale + (b >> row.shift));
    }
    static Words words(const uint8_t* at, int) { return signed_bytes(at); }
};
template <int group>
struct Int4 {  // in the bytes of 64 numbers (32 if the group is no larger), the low nibbles come first
    static constexpr int parts = group / 32, count = 1, bytes = group / 2;
    static constexpr bool mins = true;
    static void scales(const QuantRow& row, int64_t b, Scales<1>& s) {
        s.d[0] = brain_at(row.scale + b);
        s.m[0] = brain_at(row.zero + b);
    }
    static Words words(const uint8_t* at, int i) {
        if constexpr (group == 32) return nibbles(at);
        else return unsigned_bytes(at + i / 2 * 32) >> (i % 2 * 4) & 15;
    }
};
template <class F>
inline constexpr bool is_int4 = false;
template <int group>
inline constexpr bool is_int4<Int4<group>> = true;
template <int size>
struct Small {  // GGUF's blocks of 32, which begin with d
    static constexpr int parts = 1, count = 1, bytes = size;
    static constexpr bool mins = false;
    static void scales(const QuantRow& row, int64_t b, Scales<1>& s) { s.d[0] = half_at(row.data + b * size); }
};
template <int size>
struct SmallMin {
    static constexpr int parts = 1, count = 1, bytes = size;
    static constexpr bool mins = true;
    static void scales(const QuantRow& row, int64_t b, Scales<1>& s) {
        s.d[0] = half_at(row.data + b * size);
        s.m[0] = -half_at(row.data + b * size + 2);
    }
};
struct Q8_0 : Small<34> {
    static Words words(const uint8_t* at, int) { return signed_bytes(at + 2); }
};
struct Q4_0 : Small<18> {
    static Words words(const uint8_t* at, int) { return nibbles(at + 2) - 8; }
};
struct Q4_1 : SmallMin<20> {
    static Words words(const uint8_t* at, int) { return nibbles(at + 4); }
};
struct Q5_0 : Small<22> {
    static Words words(const uint8_t* at, int) { return (nibbles(at + 6) | bits_as(read<uint32_t>(at + 2), 16)) - 16; }
};
struct Q5_1 : SmallMin<24> {
    static Words words(const uint8_t* at, int) { return nibbles(at + 8) | bits_as(read<uint32_t>(at + 4), 16); }
};

struct Q2_K {  // 16 bytes of scales, 64 of integers, d, dmin
    static constexpr int parts = 8, count = 16, bytes = 84;
    static constexpr bool mins = true;
    static void scales(const QuantRow& row, int64_t b, Scales<16>& s) {
        const uint8_t* at = row.data + b * bytes;
        float d = half_at(at + 80), low = half_at(at + 82);
        for (int i = 0; i < 16; i++) {
            s.d[i] = d * static_cast<float>(at[i] & 15);
            s.m[i] = low * static_cast<float>(at[i] >> 4);
        }
    }
    static Words words(const uint8_t* at, int i) { return unsigned_bytes(at + 16 + i / 4 * 32) >> (i % 4 * 2) & 3; }
};
struct Q3_K {  // 32 bytes of third bits, 64 of two bits each, 12 of scales of six bits, d
    static constexpr int parts = 8, count = 16, bytes = 110;
    static constexpr bool mins = false;
    static void scales(const QuantRow& row, int64_t b, Scales<16>& s) {
        const uint8_t *at = row.data + b * bytes, *packed = at + 96;
        float d = half_at(at + 108);
        for (int i = 0; i < 16; i++) {
            int low = packed[i % 8] >> (i / 8 * 4) & 15, high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
            s.d[i] = d * static_cast<float>((low | high << 4) - 32);
        }
    }
    static Words words(const uint8_t* at, int i) {
        Words low = unsigned_bytes(at + 32 + i / 4 * 32) >> (i % 4 * 2) & 3;
        return (low | (unsigned_bytes(at) >> i & 1) << 2) - 4;
    }
};
// d, dmin and eight pairs of six bits, of Q4_K and Q5_K.
inline void six_bits(const uint8_t* at, Scales<8>& s) {
    float d = half_at(at), low = half_at(at + 2);
    uint32_t a = read<uint32_t>(at + 4), b = read<uint32_t>(at + 8), c = read<uint32_t>(at + 12);
    uint8_t all[16];  // the scales, then the minima
    uint32_t words[4] = {a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030), b & 0x3f3f3f3f,
                         (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)};
    std::memcpy(all, words, 16);
    for (int i = 0; i < 8; i++) s.d[i] = d * static_cast<float>(all[i]);
    for (int i = 0; i < 8; i++) s.m[i] = low * static_cast<float>(all[8 + i]);
}
struct Q4_K {
    static constexpr int parts = 8, count = 8, bytes = 144;
    static constexpr bool mins = true;
    static void scales(const QuantRow& row, int64_t b, Scales<8>& s) { six_bits(row.data + b * bytes, s); }
    static Words words(const uint8_t* at, int i) { return unsigned_bytes(at + 16 + i / 2 * 32) >> (i % 2 * 4) & 15; }
};
struct Q5_K {
    static constexpr int parts = 8, count = 8, bytes = 176;
    static constexpr bool mins = true;
    static void scales(const QuantRow& row, int64_t b, Scales<8>& s) { six_bits(row.data + b * bytes, s); }
    static Words words(const uint8_t* at, int i) {
        Words low = unsigned_bytes(at + 48 + i / 2 * 32) >> (i % 2 * 4) & 15;
        return low | (unsigned_bytes(at + 16) >> i & 1) << 4;
    }
};
struct Q6_K {  // 128 bytes of four bits each, 64 of two bits each, 16 scales, d
    static constexpr int parts = 8, count = 16, bytes = 210;
    static constexpr bool mins = false;
    static void scales(const QuantRow& row, int64_t b, Scales<16>& s) {
        const uint8_t* at = row.data + b * bytes;
        float d = half_at(at + 208);
        for (int i = 0; i < 16; i++) s.d[i] = d * static_cast<float>(static_cast<int8_t>(at[192 + i]));
    }
    static Words words(const uint8_t* at, int i) {
        int group = i / 4, j = i % 4;
        Words low = unsigned_bytes(at + group * 64 + j % 2 * 32) >> (j / 2 * 4) & 15;
        return (low | (unsigned_bytes(at + 128 + group * 32) >> (j * 2) & 3) << 4) - 32;
    }
};

// `columns` rows of the weight times `rows` rows of x: independent sums.
template <class F, int rows, int columns>
struct Dot {
    SumPart sum[columns][rows] = {};
    float low[columns][rows] = {};

    // Adds block b of weight row c times the numbers of x from `part` on.
    void block(const QuantRow& row, int64_t b, const QuantLeft& x, int64_t part, int c) {
        Scales<F::count> s;
        F::scales(row, b, s);
        const uint8_t* at = row.data + b * F::bytes;
        Words w[F::parts];
#pragma GCC unroll 8
        for (int i = 0; i < F::parts; i++) w[i] = F::words(at, i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const int16_t* from = x.values + r * x.stride + part * 32;
            const float* scale = x.scale + r * x.parts + part;
            if constexpr (F::count < F::parts) {  // one scale for all parts
                IntPart all = {};
#pragma GCC unroll 4
                for (int i = 0; i < F::parts; i++) add_products(all, w[i], from + i * 32);
                add_scaled(sum[c][r], all, s.d[0] * scale[0]);
            } else {
                constexpr int each = F::count / F::parts;
                float both[F::count];
                for (int i = 0; i < F::count; i++) both[i] = s.d[i] * scale[i / each];
#pragma GCC unroll 8
                for (int i = 0; i < F::parts; i++) {
                    if constexpr (each == 2) accumulate(sum[c][r], w[i], from + i * 32, both[2 * i], both[2 * i + 1]);
                    else {
                        IntPart all = {};
                        add_products(all, w[i], from + i * 32);
                        add_scaled(sum[c][r], all, both[i]);
                    }
                }
            }
        }
        if constexpr (F::mins) {
            for (int r = 0; r < rows; r++) {
                const float* sums =
                    F::count > F::parts ? x.half_sum + (r * x.parts + part) * 2 : x.sum + r * x.parts + part;
                float here = 0;
                if constexpr (F::count < F::parts) {
                    for (int i = 0; i < F::parts; i++) here += sums[i];
                    low[c][r] += here * s.m[0];
                } else {
                    for (int i = 0; i < F::count; i++) here += s.m[i] * sums[i];
                    low[c][r] += here;
                }
            }
        }
    }
    void run(const QuantRow* row, int64_t k, const QuantLeft& x, float* out) {
        int64_t blocks = k / (32 * F::parts);
        for (int64_t b = 0; b < blocks; b++) {
            if constexpr (columns > 1) {  // the next rows, which the hardware prefetcher cannot predict
                for (int c = 0; c < columns; c++) {
                    const uint8_t* next = row[c].data + (columns * blocks + b) * F::bytes;
                    for (int i = 0; i < F::bytes; i += 64) __builtin_prefetch(next + i);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) block(row[c], b, x, b * F::parts, c);
        }
        if constexpr (std::is_same_v<F, Int8Rows>) {
            for (int c = 0; c < columns && k % 128; c++) {  // the last bytes of a row, padded with zeros
                uint8_t rest[128] = {};
                std::memcpy(rest, row[c].data + blocks * 128, static_cast<size_t>(k % 128));
                QuantRow last = row[c];
                last.data = rest;
                QuantLeft from = x;
                from.values += blocks * 128;
                from.scale += blocks * 4;
                block(last, 0, from, 0, c);
            }
        }
        for (int c = 0; c < columns; c++) {
            for (int r = 0; r < rows; r++) out[c * 4 + r] = total(sum[c][r]) - low[c][r];
        }
    }
};

#include "backend/cpu/quantized_int4.h"

template <class F, int rows, int columns>
void dot_of(const QuantRow* row, int64_t k, const QuantLeft& x, float* out) {
    if constexpr (is_int4<F>) dot_int4<F::parts * 32, rows, columns>(row, k, x, out);
    else Dot<F, rows, columns>().run(row, k, x, out);
}
template <class F>
void dot(const QuantRow* row, int columns, int64_t k, const QuantLeft& x, int rows, float* out) {
    if (rows == 1 && columns == 4) return dot_of<F, 1, 4>(row, k, x, out);
    for (int c = 0; c < columns; c++, row++, out += 4) {
        if (rows == 1) dot_of<F, 1, 1>(row, k, x, out);
        else if (rows == 2) dot_of<F, 2, 1>(row, k, x, out);
        else if (rows == 3) dot_of<F, 3, 1>(row, k, x, out);
        else dot_of<F, 4, 1>(row, k, x, out);
    }
}

// out[i] = d * q - m, rounded after each of the two operations as in other readers of these formats.
template <class F>
void expand(const QuantRow& row, int64_t k, float* out) {
    int64_t blocks = k / (32 * F::parts);
    int16_t words[32];
    for (int64_t b = 0; b < blocks; b++) {
        Scales<F::count> s;
        F::scales(row, b, s);
        for (int i = 0; i < F::parts; i++, out += 32) {
            F::words(row.data + b * F::bytes, i).store(words);
            for (int h = 0; h < 2; h++) {
                int at = (2 * i + h) * F::count / (2 * F::parts);
                float d = s.d[at], m = 0;
                if constexpr (F::mins) m = s.m[at];
                for (int j = h * 16; j < h * 16 + 16; j++) out[j] = d * static_cast<float>(words[j]) - m;
            }
        }
    }
    if constexpr (std::is_same_v<F, Int8Rows>) {
        for (int64_t j = 0; j < k % 128; j++) out[j] = static_cast<int8_t>(row.data[blocks * 128 + j]);
    }
}

// Products of int8 rows of x and w, at most four of each; rows of x are zero-padded to steps of 64 bytes.
template <int rows, int columns>
void multiply_bytes(const QuantBytes& t, int32_t* out) {
    IntPart sum[rows][columns] = {};
    auto step = [&](const int8_t* x, const int8_t* const* w) {
#ifdef FB_WIDE
        // The instruction takes one unsigned side: 128 is added there, and its contribution to the sum subtracted.
        __m512i left[rows];
        for (int r = 0; r < rows; r++)
            left[r] = _mm512_xor_si512(_mm512_loadu_si512(x + r * t.x_row), _mm512_set1_epi8(-128));
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            __m512i right = _mm512_loadu_si512(w[c]);
            for (int r = 0; r < rows; r++) sum[r][c] = (IntPart)_mm512_dpbusd_epi32((__m512i)sum[r][c], left[r], right);
        }
#else
        for (int half = 0; half < 64; half += 32) {
            int16_t left[rows][32];
            for (int r = 0; r < rows; r++) signed_bytes(x + r * t.x_row + half).store(left[r]);
            for (int c = 0; c < columns; c++) {
                Words right = signed_bytes(w[c] + half);
                for (int r = 0; r < rows; r++) add_products(sum[r][c], right, left[r]);
            }
        }
#endif
    };
    const int8_t* w[columns];
    int64_t whole = t.k / 64 * 64;
    for (int64_t i = 0; i < whole; i += 64) {
        for (int c = 0; c < columns; c++) w[c] = t.w + c * t.k + i;
        step(t.x + i, w);
    }
    if (whole < t.k) {
        int8_t rest[columns][64] = {};
        for (int c = 0; c < columns; c++) {
            std::memcpy(rest[c], t.w + c * t.k + whole, static_cast<size_t>(t.k - whole));
            w[c] = rest[c];
        }
        step(t.x + whole, w);
    }
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
#ifdef FB_WIDE
            out[r * 4 + c] = _mm512_reduce_add_epi32((__m512i)sum[r][c]) - t.w_sum[c] * 128;
#else
            int32_t all = 0;
            for (int i = 0; i < word_bytes / 4; i++) all += sum[r][c][i];
            out[r * 4 + c] = all;
#endif
        }
    }
}
template <int columns>
void multiply_rows(const QuantBytes& t, int rows, int32_t* out) {
    if (rows == 1) multiply_bytes<1, columns>(t, out);
    else if (rows == 2) multiply_bytes<2, columns>(t, out);
    else if (rows == 3) multiply_bytes<3, columns>(t, out);
    else multiply_bytes<4, columns>(t, out);
}
void bytes(const QuantBytes& t, int rows, int columns, int32_t* out) {
    if (columns == 1) multiply_rows<1>(t, rows, out);
    else if (columns == 2) multiply_rows<2>(t, rows, out);
    else if (columns == 3) multiply_rows<3>(t, rows, out);
    else multiply_rows<4>(t, rows, out);
}

constexpr QuantKernels kernels_of_level = {
    {dot<Int8Rows>, dot<Int8>, dot<Int4<32>>, dot<Int4<64>>, dot<Int4<128>>, dot<Q8_0>, dot<Q4_0>, dot<Q4_1>, dot<Q5_0>,
     dot<Q5_1>, dot<Q2_K>, dot<Q3_K>, dot<Q4_K>, dot<Q5_K>, dot<Q6_K>},
    {expand<Int8Rows>, expand<Int8>, expand<Int4<32>>, expand<Int4<64>>, expand<Int4<128>>, expand<Q8_0>, expand<Q4_0>,
     expand<Q4_1>, expand<Q5_0>, expand<Q5_1>, expand<Q2_K>, expand<Q3_K>, expand<Q4_K>, expand<Q5_K>, expand<Q6_K>},
    bytes};
