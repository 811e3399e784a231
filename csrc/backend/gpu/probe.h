#pragma once
#include "backend/gpu/driver.h"

namespace fb::gpu {

// Builds and runs a kernel with groups, barriers, 64-bit numbers and an error. Returns the reason for a failure, or "".
std::string probe(Driver& driver);

}  // namespace fb::gpu
