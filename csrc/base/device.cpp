#include "base/device.h"

#include <atomic>

#include "base/error.h"

namespace fb {

static constexpr const char* names[device_types] = {"cpu", "opencl", "cuda", "mps", "xpu", "sim", "meta"};

// The default accelerator, or the CPU if there is none; set by backend/gpu.
Device (*chosen_accelerator)() = nullptr;

// Note [CUDA's name]: programs for PyTorch say "cuda" when they mean the accelerator. While such a program runs, the
// chosen accelerator has that name, whatever it is: in device('cuda'), in printed devices, and in files. It is chosen
// when "cuda" is first used, since looking for drivers takes time.
static std::atomic<bool> name_is_lent{false}, name_is_given{false};
static std::atomic<DeviceType> named_cuda{DeviceType::CUDA};
void lend_name_of_cuda(bool on) {
    name_is_lent = on;
    name_is_given = false;
    named_cuda = DeviceType::CUDA;
}
DeviceType type_of_cuda() {
    if (name_is_lent && !name_is_given.exchange(true) && chosen_accelerator) {
        DeviceType chosen = chosen_accelerator().type;
        if (chosen != DeviceType::CPU) named_cuda = chosen;
    }
    return named_cuda;
}

const char* name(DeviceType type) {
    if (type != DeviceType::CUDA && type != DeviceType::CPU && type == named_cuda.load(std::memory_order_relaxed))
        type = DeviceType::CUDA;
    return names[static_cast<int>(type)];
}

std::string to_string(Device device) {
    std::string text = name(device.type);
    return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

// The device that "gpu" stands for; set by backend/gpu.
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
    if (device.type == DeviceType::CUDA) device.type = type_of_cuda();
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
