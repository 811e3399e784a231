// Devices. The CPU has kernels, meta tensors have no elements; other names can be parsed, and allocated on where a
// backend provides the device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace fb {

enum class DeviceType : uint8_t { CPU, OpenCL, CUDA, MPS, XPU, Sim, Meta };
inline constexpr size_t device_types = static_cast<size_t>(DeviceType::Meta) + 1;

struct Device {
    DeviceType type = DeviceType::CPU;
    int8_t index = -1;  // -1: the current one
    bool operator==(const Device&) const = default;
};
// For data that stays on the CPU whatever the op's device: numbers, tables used by host code.
inline constexpr Device cpu_device{};
// The device as tensors store it: there is one CPU and one meta device, so they have no index; all others have one.
constexpr Device canonical(Device device) {
    bool single = device.type == DeviceType::CPU || device.type == DeviceType::Meta;
    if (single) device.index = -1;
    else if (device.index < 0) device.index = 0;
    return device;
}

const char* name(DeviceType type);
std::string to_string(Device device);
// Parses "cpu", "opencl:1", …; an error lists the known names.
Device parse_device(const std::string& text);

// fb.set_default_device; per thread, as is `with device:`.
Device default_device();
void set_default_device(Device device);

}  // namespace fb
