// The checksum (CRC-32) of ZIP files and zlib.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fb {

// Continues `value`, the checksum of the preceding bytes (0 at the beginning), over these bytes.
uint32_t crc32(const void* data, size_t bytes, uint32_t value = 0);

}  // namespace fb
