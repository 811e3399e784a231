// The five 8-bit floating point formats and complex32 as storage types: elements convert to float (complex32 to
// complex64) and back; nothing computes in them.
#pragma once
#include <array>
#include <bit>
#include <complex>
#include <cstdint>

#include "base/half.h"

namespace fb {

// How a format treats values beyond its largest one, and how it encodes NaN.
enum class Float8Kind {
    Ieee,      // has infinities, and NaNs above them
    Saturate,  // FN: no infinity, NaN is all ones; larger values, infinity included, become the largest value
    OneNan,    // FNUZ: neither infinity nor -0, whose code is the NaN; larger values become NaN
};

// Sign, `exponent` bits, `mantissa` bits.
template <int exponent, int mantissa, int bias, Float8Kind kind>
struct Float8 {
    static_assert(exponent + mantissa == 7);
    uint8_t bits = 0;
    Float8() = default;
    explicit Float8(float f) : bits(encode(std::bit_cast<uint32_t>(f))) {}
    explicit Float8(double d) : Float8(static_cast<float>(d)) {}
    operator float() const { return decoded[bits]; }

  private:
    static constexpr uint8_t encode(uint32_t f) {
        constexpr uint32_t largest = kind == Float8Kind::Ieee       ? 0x7f - (1 << mantissa)
                                     : kind == Float8Kind::Saturate ? 0x7e
                                                                    : 0x7f;
        // Adding a power of two whose last bit has the value of the spacing of subnormal results rounds to that
        // spacing.
        constexpr uint32_t magic = static_cast<uint32_t>(127 + 23 + 1 - bias - mantissa) << 23;
        constexpr uint32_t smallest_normal = static_cast<uint32_t>(127 + 1 - bias) << 23;
        constexpr int drop = 23 - mantissa;
        uint32_t sign = f >> 24 & 0x80, size = f & 0x7fffffff;
        uint32_t code;
        if (size > 0x7f800000) {
            if (kind == Float8Kind::OneNan) return 0x80;
            return static_cast<uint8_t>(sign | 0x7f);
        }
        if (size < smallest_normal)
            code = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(magic)) - magic;
        else
            code = ((size + (1u << (drop - 1)) - 1 + (size >> drop & 1)) >> drop) -
                   (static_cast<uint32_t>(127 - bias) << mantissa);
        if (code > largest) code = kind == Float8Kind::Saturate ? 0x7e : kind == Float8Kind::Ieee ? largest + 1 : 0x100;
        if (kind == Float8Kind::OneNan) {
            if (code == 0x100) return 0x80;
            if (code == 0) sign = 0;
        }
        return static_cast<uint8_t>(sign | code);
    }
    static constexpr float decode(uint32_t code) {
        uint32_t sign = (code & 0x80) << 24, size = code & 0x7f;
        constexpr uint32_t nan = 0x7fc00000;
        if (kind == Float8Kind::OneNan && code == 0x80) return std::bit_cast<float>(nan);
        if (kind == Float8Kind::Saturate && size == 0x7f) return std::bit_cast<float>(sign | nan);
        if (kind == Float8Kind::Ieee && size >> mantissa == (1 << exponent) - 1)
            return std::bit_cast<float>(sign | (size & ((1 << mantissa) - 1) ? nan : 0x7f800000u));
        if (size >> mantissa == 0) {
            float unit = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - mantissa) << 23);
            float value = static_cast<float>(size) * unit;
            return sign ? -value : value;
        }
        return std::bit_cast<float>(sign | (size + (static_cast<uint32_t>(127 - bias) << mantissa)) << (23 - mantissa));
    }
    static constexpr std::array<float, 256> decode_all() {
        std::array<float, 256> all{};
        for (uint32_t code = 0; code < 256; code++) all[code] = decode(code);
        return all;
    }
    static constexpr std::array<float, 256> decoded = decode_all();
};

using Float8E4M3FN = Float8<4, 3, 7, Float8Kind::Saturate>;
using Float8E4M3FNUZ = Float8<4, 3, 8, Float8Kind::OneNan>;
using Float8E5M2 = Float8<5, 2, 15, Float8Kind::Ieee>;
using Float8E5M2FNUZ = Float8<5, 2, 16, Float8Kind::OneNan>;

// A power of two, used as the scale of a block of narrower numbers: no sign, no zero, 0xff is NaN.
struct Float8E8M0FNU {
    uint8_t bits = 0;
    Float8E8M0FNU() = default;
    explicit Float8E8M0FNU(float f) {
        uint32_t u = std::bit_cast<uint32_t>(f), power = u >> 23 & 0xff, rest = u & 0x7fffff;
        // Ties round up; values between zero and the smallest power of two, 2^-127, become that power.
        if (power != 0xff) power += power ? rest >> 22 : rest > 0x400000;
        bits = static_cast<uint8_t>(power);
    }
    explicit Float8E8M0FNU(double d) : Float8E8M0FNU(static_cast<float>(d)) {}
    operator float() const {
        uint32_t power = bits;
        return std::bit_cast<float>(power == 0xff ? 0x7fc00000u : power ? power << 23 : 0x400000u);
    }
};

// A complex number of two float16.
struct c32 {
    using value_type = Half;
    Half re, im;
    c32() = default;
    c32(Half r, Half i) : re(r), im(i) {}
    c32(float r, float i) : re(r), im(i) {}
    float real() const { return re; }
    float imag() const { return im; }
};

}  // namespace fb
