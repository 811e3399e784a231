// Radix sort: least significant digit first, on keys reduced to the range they span. Wide keys are sorted by their
// upper 32 bits; the short runs with equal upper bits are sorted afterwards.
#include <atomic>
#include <cstring>

#include "backend/cpu/sort_key.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t small_row = 48;
constexpr int64_t long_row = 1 << 16;

// All digits are counted in one pass; then one move per digit.
void radix_serial(std::vector<uint64_t>& a, std::vector<uint64_t>& b, std::vector<uint32_t>& counts, int64_t n,
                  int passes, int width) {
    int64_t buckets = int64_t(1) << width;
    uint64_t mask = static_cast<uint64_t>(buckets - 1);
    counts.assign(static_cast<size_t>(passes * buckets), 0);
    uint32_t* table = counts.data();
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = a[static_cast<size_t>(i)] >> 32;
        for (int pass = 0; pass < passes; pass++) {
            table[pass * buckets + static_cast<int64_t>(key & mask)]++;
            key >>= width;
        }
    }
    for (int pass = 0; pass < passes; pass++) {
        uint32_t* place = table + pass * buckets;
        int shift = 32 + pass * width;
        if (place[(a[0] >> shift) & mask] == static_cast<uint32_t>(n)) continue;  // this digit is the same everywhere
        uint32_t total = 0;
        for (int64_t d = 0; d < buckets; d++) {
            uint32_t count = place[d];
            place[d] = total;
            total += count;
        }
        const uint64_t* from = a.data();
        uint64_t* to = b.data();
        for (int64_t i = 0; i < n; i++) to[place[(from[i] >> shift) & mask]++] = from[i];
        std::swap(a, b);
    }
}

// Sorts packed elements by the bits [32, 32 + bits).
void radix(std::vector<uint64_t>& a, std::vector<uint64_t>& b, std::vector<uint32_t>& counts, int64_t n, int bits,
           bool threads) {
    if (bits == 0) return;
    int widest = n > 8192 ? 11 : 8;
    int passes = (bits + widest - 1) / widest;
    int width = (bits + passes - 1) / passes;
    int64_t buckets = int64_t(1) << width;
    int64_t chunks = threads && n > long_row ? num_threads() : 1;
    if (chunks == 1) {
        radix_serial(a, b, counts, n, passes, width);
        return;
    }
    counts.resize(static_cast<size_t>(chunks * buckets));
    for (int pass = 0; pass < passes; pass++) {
        int shift = 32 + pass * width;
        uint64_t mask = static_cast<uint64_t>(buckets - 1);
        const uint64_t* from = a.data();
        uint64_t* to = b.data();
        auto tally = [&](int64_t c) {
            uint32_t* count = counts.data() + c * buckets;
            std::memset(count, 0, static_cast<size_t>(buckets) * 4);
            for (int64_t i = n * c / chunks; i < n * (c + 1) / chunks; i++) count[(from[i] >> shift) & mask]++;
        };
        auto scatter = [&](int64_t c) {
            uint32_t* place = counts.data() + c * buckets;
            for (int64_t i = n * c / chunks; i < n * (c + 1) / chunks; i++)
                to[place[(from[i] >> shift) & mask]++] = from[i];
        };
        auto each = [&](auto&& f) {
            if (chunks == 1) f(int64_t(0));
            else
                parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
                    for (int64_t c = begin; c < end; c++) f(c);
                });
        };
        each(tally);
        uint32_t total = 0;
        bool one_bucket = false;
        for (int64_t d = 0; d < buckets; d++) {
            uint32_t before = total;
            for (int64_t c = 0; c < chunks; c++) {
                uint32_t count = counts[static_cast<size_t>(c * buckets + d)];
                counts[static_cast<size_t>(c * buckets + d)] = total;
                total += count;
            }
            one_bucket |= total - before == static_cast<uint32_t>(n);
        }
        if (one_bucket) continue;  // this digit is the same everywhere
        each(scatter);
        std::swap(a, b);
    }
}

// A short row: counts the smaller elements for each. No two are equal, so the counts are the positions.
void by_rank(uint64_t* a, int64_t n) {
    alignas(64) uint64_t v[small_row], rank[small_row];
    int64_t padded = (n + 7) / 8 * 8;
    for (int64_t j = 0; j < n; j++) v[j] = a[j];
    for (int64_t j = n; j < padded; j++) v[j] = ~uint64_t(0);
    for (int64_t j = 0; j < padded; j++) rank[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = a[i];
#pragma omp simd
        for (int64_t j = 0; j < padded; j++) rank[j] += v[j] > x ? 1 : 0;
    }
    for (int64_t j = 0; j < n; j++) a[rank[j]] = v[j];
}

}  // namespace

template <class T>
void sort_order(const T* x, int64_t n, bool descending, SortScratch& scratch, bool threads) {
    using K = KeyOf<T>;
    if (scratch.a.size() < static_cast<size_t>(n)) scratch.a.resize(static_cast<size_t>(n));
    uint64_t* a = scratch.a.data();
    K flip = descending ? K(~K(0)) : K(0);
    K low = 0, high = K(~K(0));
    if (sizeof(K) == 8 || n > small_row) {
        std::swap(low, high);
#pragma omp simd reduction(min : low) reduction(max : high)
        for (int64_t i = 0; i < n; i++) {
            K key = K(sort_key(x[i]) ^ flip);
            low = std::min(low, key);
            high = std::max(high, key);
        }
    }
    int bits = std::bit_width(static_cast<uint64_t>(K(high - low)));
    int drop = std::max(0, bits - 32);
    auto encode = [&](int64_t begin, int64_t end) {
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            uint64_t key = static_cast<uint64_t>(K(K(sort_key(x[i]) ^ flip) - low)) >> drop;
            a[i] = (key << 32) | static_cast<uint64_t>(i);
        }
    };
    if (threads) parallel_for(n, parallel_grain, encode);
    else encode(0, n);
    if (n <= small_row) {
        by_rank(a, n);
    } else {
        if (scratch.b.size() < static_cast<size_t>(n)) scratch.b.resize(static_cast<size_t>(n));
        if (scratch.a.size() < scratch.b.size()) scratch.a.resize(scratch.b.size());
        radix(scratch.a, scratch.b, scratch.counts, n, bits - drop, threads);
    }
    if (drop == 0) return;
    // Runs with equal upper bits: by the whole key, then by index.
    a = scratch.a.data();
    auto exact = [&](uint64_t p) { return K(sort_key(x[p & 0xffffffffu]) ^ flip); };
    for (int64_t i = 0; i + 1 < n;) {
        int64_t end = i + 1;
        while (end < n && (a[end] >> 32) == (a[i] >> 32)) end++;
        if (end - i > 1) {
            std::sort(a + i, a + end, [&](uint64_t p, uint64_t q) {
                K kp = exact(p), kq = exact(q);
                return kp != kq ? kp < kq : p < q;
            });
        }
        i = end;
    }
}

#define FB_SORT(T) template void sort_order<T>(const T*, int64_t, bool, SortScratch&, bool);
FB_SORT(uint8_t)
FB_SORT(uint16_t)
FB_SORT(uint32_t)
FB_SORT(uint64_t)
FB_SORT(int8_t)
FB_SORT(int16_t)
FB_SORT(int32_t)
FB_SORT(int64_t)
FB_SORT(Half)
FB_SORT(BFloat16)
FB_SORT(float)
FB_SORT(double)
#undef FB_SORT

}  // namespace fb::cpu
