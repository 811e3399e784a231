// A flag of ops, in addition to those of registry.h: each element of the result is computed from the elements at the
// same place in the arguments, which broadcast. vmap derives its batching rule from it (func/_batching/pointwise.py).
#pragma once

namespace fb {

inline constexpr unsigned ELEMENTWISE = 1u << 16;

}  // namespace fb
