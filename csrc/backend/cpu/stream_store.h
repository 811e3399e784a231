// Streaming stores, which bypass the caches, for results that will be evicted before they are read: their lines need
// not be read from memory first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace fb::cpu {

#ifdef __AVX2__
inline constexpr bool can_stream = true;
#ifdef __AVX512F__
using StreamVector = __m512i;
inline void stream_vector(void* to, const void* from) {
    _mm512_stream_si512(static_cast<StreamVector*>(to), _mm512_loadu_si512(from));
}
#else
using StreamVector = __m256i;
inline void stream_vector(void* to, const void* from) {
    _mm256_stream_si256(static_cast<StreamVector*>(to), _mm256_loadu_si256(static_cast<const StreamVector*>(from)));
}
#endif
// Makes streamed data visible to other threads.
inline void end_stream() { _mm_sfence(); }
#else
inline constexpr bool can_stream = false;
using StreamVector = uint64_t;
inline void stream_vector(void* to, const void* from) { std::memcpy(to, from, sizeof(StreamVector)); }
inline void end_stream() {}
#endif

// Streams one cache line; `to` is aligned to it.
inline void stream_line(void* to, const void* from) {
    for (size_t i = 0; i < 64; i += sizeof(StreamVector))
        stream_vector(static_cast<char*>(to) + i, static_cast<const char*>(from) + i);
}
inline void stream(char* to, const char* from, int64_t bytes) {
    constexpr int64_t width = sizeof(StreamVector);
    int64_t i = std::min<int64_t>(bytes, -reinterpret_cast<intptr_t>(to) & (width - 1));
    std::memcpy(to, from, static_cast<size_t>(i));
    for (; i + width <= bytes; i += width) stream_vector(to + i, from + i);
    std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

}  // namespace fb::cpu
