// Where a tensor lives. Only the CPU has kernels today; the other names can be written but not allocated on.
#pragma once
#include <cstdint>
#include <string>

namespace fb {

enum class DeviceType : uint8_t { CPU, OpenCL, CUDA, MPS, XPU, Meta };

struct Device {
    DeviceType type = DeviceType::CPU;
    int8_t index = -1;  // -1: the current one
    bool operator==(const Device&) const = default;
};

const char* name(DeviceType type);
std::string to_string(Device device);
// Parses "cpu", "opencl:1", …; an error lists the known names.
Device parse_device(const std::string& text);

// fb.set_default_device; per thread, as `with device:` is.
Device default_device();
void set_default_device(Device device);

}  // namespace fb
