// Sort keys: every real element type maps to unsigned integers in sorting order, NaN last and -0.0 equal to 0.0. A key
// and an index packed into one integer sort stably without a comparison function.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace fb::cpu {

template <size_t bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
    using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
    using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
    using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
    using type = uint64_t;
};

template <class T>
using KeyOf = typename UnsignedOf<sizeof(T)>::type;

template <class T>
inline constexpr bool is_float_type = std::is_floating_point_v<T> || is_half_type<T>;

template <class T>
inline KeyOf<T> sort_key(T x) {
    using K = KeyOf<T>;
    constexpr K top = K(K(1) << (8 * sizeof(K) - 1));
    if constexpr (is_float_type<T>) {
        K bits = std::bit_cast<K>(x);
        constexpr K infinity = std::is_same_v<T, float>    ? K(0x7f800000u)
                               : std::is_same_v<T, double> ? K(0x7ff0000000000000ull)
                               : std::is_same_v<T, Half>   ? K(0x7c00)
                                                           : K(0x7f80);
        K size = K(bits & K(~top));
        K key = (bits & top) ? (size ? K(~bits) : top) : K(bits | top);
        return size > infinity ? K(~K(0)) : key;
    } else if constexpr (std::is_signed_v<T>) {
        return K(static_cast<K>(x) ^ top);
    } else {
        return static_cast<K>(x);
    }
}

// Whether a key stands for only one bit pattern, so that key_value() restores the element.
template <class T>
inline bool key_is_exact(KeyOf<T> key) {
    using K = KeyOf<T>;
    constexpr K top = K(K(1) << (8 * sizeof(K) - 1));
    if constexpr (is_float_type<T>) return key != top && key != K(~K(0));
    else return true;
}

template <class T>
inline T key_value(KeyOf<T> key) {
    using K = KeyOf<T>;
    constexpr K top = K(K(1) << (8 * sizeof(K) - 1));
    if constexpr (is_float_type<T>) return std::bit_cast<T>(K((key & top) ? K(key & K(~top)) : K(~key)));
    else if constexpr (std::is_signed_v<T>) return static_cast<T>(K(key ^ top));
    else return static_cast<T>(key);
}

// Key in the upper bits, index in the lower. Indices are below 2^32 for narrow keys.
template <class K>
using Packed = std::conditional_t<sizeof(K) == 8, unsigned __int128, uint64_t>;
template <class K>
inline constexpr int place_bits = sizeof(K) == 8 ? 64 : 32;
template <class K>
inline Packed<K> pack_key(K key, int64_t place) {
    return (static_cast<Packed<K>>(key) << place_bits<K>) | static_cast<Packed<K>>(place);
}
template <class K>
inline K packed_key(Packed<K> p) {
    return static_cast<K>(p >> place_bits<K>);
}
template <class K>
inline int64_t packed_place(Packed<K> p) {
    if constexpr (sizeof(K) == 8) return static_cast<int64_t>(static_cast<uint64_t>(p));
    else return static_cast<int64_t>(p & 0xffffffffu);
}

// Two buffers that sorting swaps between.
struct SortScratch {
    std::vector<uint64_t> a, b;
    std::vector<uint32_t> counts;
};

// Stable order of n elements: fills `order` with packed (32-bit truncated key, place) pairs in scratch.a. n < 2^32.
// With `threads`, one long row is sorted by several threads.
template <class T>
void sort_order(const T* x, int64_t n, bool descending, SortScratch& scratch, bool threads);

}  // namespace fb::cpu
