// Kernel source: the vocabulary that kernels are written in, and formulas as expressions of it.
#pragma once
#include <optional>
#include <string>

#include "device/formula.h"

namespace fb::gpu {

// What every kernel begins with: types, loads and stores of storage dtypes, and the words of formulas.
const char* prelude();

// The C type that elements of a dtype are computed in, and the one they are stored as; nullptr for those without
// kernels (complex, 8-bit floats). Halves are computed in float.
const char* compute_type(DType d);
const char* stored_type(DType d);
// Whether kernels convert one dtype to another as the CPU does.
bool converts(DType from, DType to);

// The formula's tree as an expression of x, y, z and p; nothing when it uses a word that the vocabulary lacks.
std::optional<std::string> expression(const Formula& formula);

}  // namespace fb::gpu
