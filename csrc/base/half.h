// float16 and bfloat16 as storage types: all arithmetic happens in float.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace fb {

struct Half {
    uint16_t bits = 0;
    Half() = default;
    explicit Half(float f) { bits = std::bit_cast<uint16_t>(static_cast<_Float16>(f)); }
    explicit Half(double d) { bits = std::bit_cast<uint16_t>(static_cast<_Float16>(d)); }
    operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

struct BFloat16 {
    uint16_t bits = 0;
    BFloat16() = default;
    explicit BFloat16(float f) {
        uint32_t u = std::bit_cast<uint32_t>(f);
        uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;  // round to nearest even
        bits = (u & 0x7fffffffu) > 0x7f800000u ? uint16_t(0x7fc0 | ((u >> 16) & 0x8000u)) : uint16_t(rounded);
    }
    explicit BFloat16(double d) : BFloat16(static_cast<float>(d)) {}
    operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace fb
