// The simulated accelerator: memory that the host cannot reach, a thread for each stream, and kernels compiled by the
// system's C++ compiler. It is there to test and to develop what real accelerators need, and computes on the CPU.
#pragma once
#include "backend/gpu/driver.h"

namespace fb::gpu {

// An error in a forked child, which has the memory but none of the threads.
Driver& sim_driver();

// Compiles a kernel (compiler.cpp): its entry point, or nullptr and the reason.
using SimEntry = void (*)(const void* arguments, int64_t begin, int64_t end);
SimEntry compile_kernel(const std::string& source, std::string& why);

}  // namespace fb::gpu
