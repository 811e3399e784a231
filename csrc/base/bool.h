// One element of a bool tensor as it is stored in memory.
//
// Note [Bytes of bools]: a C++ bool is 0 or 1, and compilers rely on it: any other byte is undefined behaviour. The
// bytes of a bool tensor can have any value at any time: view(bool), NumPy, DLPack and shared memory let others write
// them, even after a check, and empty() exposes whatever the memory held before. So no kernel reads an element as bool.
// It reads a Bool, for which every byte but 0 is true; computed results are written as 0 or 1, and kernels that only
// move elements may copy the bytes. Conversions select between two constants, which compilers vectorise best.
#pragma once
#include <cstdint>
#include <type_traits>

namespace fb {

struct Bool {
    uint8_t byte;
    Bool() = default;
    constexpr Bool(bool value) : byte(value) {}
    constexpr operator bool() const { return byte != 0; }
};

// The type used to read elements of compute type T.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;

}  // namespace fb
