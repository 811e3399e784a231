#include "base/crc32.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fb {
namespace {

// Polynomials over GF(2) are stored with the lowest power in the highest bit.
constexpr uint32_t polynomial = 0xEDB88320;

constexpr uint32_t times_x(uint32_t p) { return (p >> 1) ^ (p & 1 ? polynomial : 0); }

constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
    std::array<std::array<uint32_t, 256>, 8> tables{};
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t p = byte;
        for (int bit = 0; bit < 8; bit++) p = times_x(p);
        tables[0][byte] = p;
    }
    for (size_t t = 1; t < 8; t++)
        for (size_t byte = 0; byte < 256; byte++) {
            uint32_t before = tables[t - 1][byte];
            tables[t][byte] = (before >> 8) ^ tables[0][before & 255];
        }
    return tables;
}

constexpr auto tables = make_tables();

// Eight bytes per step, with one table per distance from the end.
uint32_t by_tables(const uint8_t* p, size_t bytes, uint32_t state) {
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        word ^= state;
        state = 0;
        for (int i = 0; i < 8; i++) state ^= tables[7 - i][(word >> (8 * i)) & 255];
    }
    for (; bytes > 0; p++, bytes--) state = (state >> 8) ^ tables[0][(state ^ *p) & 255];
    return state;
}

#if defined(__x86_64__)

// x^n modulo the polynomial, positioned for a carry-less product of reflected numbers.
constexpr uint64_t power(unsigned n) {
    uint32_t p = 0x80000000;
    while (n-- > 0) p = times_x(p);
    return static_cast<uint64_t>(p) << 1;
}

__attribute__((target("pclmul,sse4.1"))) inline __m128i fold(__m128i x, __m128i factors, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, factors, 0x00), high = _mm_clmulepi64_si128(x, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Folding: multiplies the state by the power of x of its distance from the next block, and adds: 64 bytes per step in
// four lanes. The remaining 16 bytes have the checksum of all.
__attribute__((target("pclmul,sse4.1"))) uint32_t by_products(const uint8_t* p, size_t bytes, uint32_t state) {
    auto load = [](const uint8_t* q)
                    __attribute__((target("sse4.1"))) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)); };
    const __m128i over64 = _mm_set_epi64x(power(4 * 128 - 32), power(4 * 128 + 32));
    const __m128i over16 = _mm_set_epi64x(power(128 - 32), power(128 + 32));
    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(state)));
    __m128i b = load(p + 16), c = load(p + 32), d = load(p + 48);
    for (p += 64, bytes -= 64; bytes >= 64; p += 64, bytes -= 64) {
        a = fold(a, over64, load(p));
        b = fold(b, over64, load(p + 16));
        c = fold(c, over64, load(p + 32));
        d = fold(d, over64, load(p + 48));
    }
    a = fold(fold(fold(a, over16, b), over16, c), over16, d);
    for (; bytes >= 16; p += 16, bytes -= 16) a = fold(a, over16, load(p));
    uint8_t left[16];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(left), a);
    return by_tables(p, bytes, by_tables(left, 16, 0));
}

#endif

}  // namespace

uint32_t crc32(const void* data, size_t bytes, uint32_t value) {
    auto* p = static_cast<const uint8_t*>(data);
#if defined(__x86_64__)
    static const bool products = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    if (products && bytes >= 64) return ~by_products(p, bytes, ~value);
#endif
    return ~by_tables(p, bytes, ~value);
}

}  // namespace fb
