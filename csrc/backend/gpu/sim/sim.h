// The simulated accelerator: memory that the host cannot access, a thread for each stream, and kernels compiled by the
// system's C++ compiler. It computes on the CPU, and serves to develop and test what real accelerators need.
#pragma once
#include "backend/gpu/driver.h"

namespace fb::gpu {

Driver& sim_driver();

// Kernels on the CPU's own memory and threads, finished when they return (host.cpp). Reported errors are raised.
std::vector<const Kernel*> build_on_host(const Program& program, std::string& why);
void launch_on_host(const Launch& launch);

// The argument of a compiled kernel: Item_ in program.cpp.
struct SimItem {
    void* const* data;
    const void* params;
    int64_t group;
    int32_t lid, size;
    int32_t* fault;
    int64_t launch;
    void (*barrier)(void* fibers);
    void* fibers;
};
using SimGroups = void (*)(const SimItem* first, int64_t begin, int64_t end);  // all items, one after the other
using SimOne = void (*)(const SimItem* item);

struct SimKernel final : Kernel {
    SimGroups groups = nullptr;
    SimOne one = nullptr;  // for kernels with barriers
    size_t pointers = 0;
    int size = 1;
};
std::vector<const Kernel*> load_kernels(const Program& program, std::string& why);

// Compiles a program (compiler.cpp): returns its library, or nullptr and the reason. `fuses` as in Program.
void* compile_program(const std::string& source, bool fuses, std::string& why);

// Runs the items of a group in turns, each until its next barrier (fibers.cpp). False if some items reached a barrier
// that others did not.
bool run_with_barriers(SimOne kernel, const SimItem& first, int64_t groups);

}  // namespace fb::gpu
