// NVIDIA devices, through CUDA's driver API.
#pragma once
#include "backend/gpu/cuda/api.h"
#include "backend/gpu/driver.h"

namespace fb::gpu {

int cuda_devices();
// Raises an error if there is no device with that number.
Driver& cuda_driver(int index);
int cuda_owner(const void* address);

struct CudaReport {
    std::string name;
    int major = 0, minor = 0, multiprocessors = 0;
    int64_t memory = 0, shared_memory = 0, threads = 0;
    std::string rejected;
    int index = -1;
};
std::vector<CudaReport> cuda_report();

}  // namespace fb::gpu
