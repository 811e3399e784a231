// Kernel source: the functions used in formulas, for each type, and formulas as expressions of them. The text is
// portable, Note [Kernel text] in program.h; tests/accelerator/test_portable.py reads all that is generated.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "device/formula.h"

namespace fb::gpu {

// Conversions of storage dtypes, for every kernel.
const char* common_words();
// The functions of formulas for one compute type, called T.
std::string words_of(DType compute);
// Those of special functions, for f64 alone (special_words.cpp).
const char* special_words();

// The C types in which elements of a dtype are computed and stored; nullptr for those without kernels (complex, 8-bit
// floats). Halves are computed in f32 and stored as u16, bools are bytes.
const char* compute_type(DType d);
const char* stored_type(DType d);
// Text that converts `element`, stored as `from`, to a value; and a value of type `computed` to the stored form of
// dtype `to`.
std::string loaded(DType from, const std::string& element);
std::string converted(DType computed, DType to, const std::string& value);
// Whether kernels can convert one dtype to another.
bool converts(DType from, DType to);

// The formula's tree as an expression of x, y, z and g.a, g.b, g.c and g.value for the compute type; nothing if it uses
// a function that the vocabulary lacks.
std::optional<std::string> expression(const Expression& tree, DType compute);
std::optional<std::string> expression(const Formula& formula, DType compute);

}  // namespace fb::gpu
