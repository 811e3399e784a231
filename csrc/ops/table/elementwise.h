// A flag of ops, beside those of registry.h: each element of the result comes from the elements at its place in the
// arguments, which broadcast. vmap derives its rule from it (func/_batching/pointwise.py).
#pragma once

namespace fb {

inline constexpr unsigned ELEMENTWISE = 1u << 16;

}  // namespace fb
