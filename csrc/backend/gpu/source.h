// Kernel source: the words that formulas are written in, for each type, and formulas as expressions of them. The text
// is portable, Note [Kernel text] in program.h; tests/accelerator/test_portable.py reads all that is generated.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "device/formula.h"

namespace fb::gpu {

// Conversions of storage dtypes, for every kernel.
const char* common_words();
// The words of formulas for one compute type, called T.
std::string words_of(DType compute);

// The C type that elements of a dtype are computed in, and the one they are stored as; nullptr for those without
// kernels (complex, 8-bit floats). Halves are computed in f32 and stored as u16, bools are bytes.
const char* compute_type(DType d);
const char* stored_type(DType d);
// `element`, stored as `from`, as a value; a value of type `computed` as what is stored for dtype `to`.
std::string loaded(DType from, const std::string& element);
std::string converted(DType computed, DType to, const std::string& value);
// Whether kernels convert one dtype to another.
bool converts(DType from, DType to);

// The formula's tree as an expression of x, y, z and g.a, g.b, g.c and g.value for the compute type; nothing when it
// uses a word that the vocabulary lacks.
std::optional<std::string> expression(const Expression& tree, DType compute);
std::optional<std::string> expression(const Formula& formula, DType compute);

}  // namespace fb::gpu
