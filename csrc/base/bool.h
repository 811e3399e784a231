// One element of a bool tensor as it lies in memory.
//
// Note [Bytes of bools]: a C++ bool is 0 or 1, and compilers count on it: any other byte is undefined behaviour. The
// byte of a bool tensor can be anything, at any time: view(bool), NumPy, DLPack and shared memory let others write it,
// also after it was checked, and empty() has what the memory held before. So no kernel reads an element as bool. It
// reads a Bool, where every byte but 0 is true; what a kernel computes is written as 0 or 1, and what only moves
// elements may move their bytes. Conversions choose between two constants, which compilers vectorise best.
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

// The type in which elements that compute as T are read.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;

}  // namespace fb
