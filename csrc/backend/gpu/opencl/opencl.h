// OpenCL devices of any vendor.
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/opencl/api.h"

namespace fb::gpu {

// How many devices work: those that built and ran a probe. Their numbers are those of Device::index.
int opencl_devices();
// An error when there is none with that number.
Driver& opencl_driver(int index);

// Whose memory this is.
int opencl_owner(const void* address);

// Every device that was found, with the reason why it is not used, and the number of those that are (else -1).
struct OpenclReport {
    cl::Found device;
    int index;
};
std::vector<OpenclReport> opencl_report();
// What became of the libraries that were looked for.
const std::string& opencl_why_none();

}  // namespace fb::gpu
