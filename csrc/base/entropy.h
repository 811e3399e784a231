// Seeds from the system's entropy.
#pragma once
#include <cstdint>

namespace fb {

// 53 bits, as in PyTorch. The default generator starts from them, so two processes draw different numbers unless they
// are seeded.
uint64_t seed_from_entropy();

}  // namespace fb
