// Seeds that nobody chose.
#pragma once
#include <cstdint>

namespace fb {

// 53 bits of the system's entropy, as many as PyTorch's. The default generator starts from them: two processes draw
// different numbers unless they are seeded.
uint64_t seed_from_entropy();

}  // namespace fb
