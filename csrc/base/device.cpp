#include "base/device.h"

#include "base/error.h"

namespace fb {

static constexpr const char* names[device_types] = {"cpu", "opencl", "cuda", "mps", "xpu", "sim", "meta"};

const char* name(DeviceType type) { return names[static_cast<int>(type)]; }

std::string to_string(Device device) {
    std::string text = name(device.type);
    return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

// What "gpu" means; backend/gpu sets it.
Device (*best_accelerator)() = nullptr;

Device parse_device(const std::string& text) {
    if (text == "gpu" && best_accelerator) return best_accelerator();
    size_t colon = text.find(':');
    std::string type = text.substr(0, colon);
    Device device;
    size_t i = 0;
    for (const char* candidate : names) {
        if (type == candidate) break;
        i++;
    }
    if (i == device_types)
        fail_value("unknown device '", text,
                   "'; expected one of cpu, gpu, opencl, cuda, mps, xpu, sim, meta, optionally with an index as in "
                   "'opencl:0'");
    device.type = static_cast<DeviceType>(i);
    if (colon != std::string::npos) {
        std::string digits = text.substr(colon + 1);
        bool ok = !digits.empty() && digits.size() <= 3 &&
                  digits.find_first_not_of("0123456789") == std::string::npos &&
                  (digits.size() == 1 || digits[0] != '0') && std::stoi(digits) < 128;
        check(ok, "device index in '", text, "' must be a number from 0 to 127");
        device.index = static_cast<int8_t>(std::stoi(digits));
    }
    return device;
}

static thread_local Device default_device_;
Device default_device() { return default_device_; }
void set_default_device(Device device) { default_device_ = device; }

}  // namespace fb
