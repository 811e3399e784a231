// OpenCL devices of any vendor.
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/opencl/api.h"

namespace fb::gpu {

// Number of working devices: those that built and ran a probe. They are numbered as in Device::index.
int opencl_devices();
// Raises an error if there is no device with that number.
Driver& opencl_driver(int index);

// The device that owns this memory.
int opencl_owner(const void* address);

// Every device found, with the reason if it is not used, and its number if it is (else -1).
struct OpenclReport {
    cl::Found device;
    int index;
};
std::vector<OpenclReport> opencl_report();
// The result of looking for each library.
const std::string& opencl_why_none();

}  // namespace fb::gpu
