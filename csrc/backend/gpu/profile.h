// Profiling of accelerators, timed by the drivers' clocks.
#pragma once
#include "backend/gpu/driver.h"
#include "base/profile.h"

namespace fb::gpu {

// Records the kernels and copies submitted to a stream in its scope, while the profiler is on.
class DeviceScope {
  public:
    DeviceScope(Device device, int stream, ProfileEvent::Kind kind, const char* name, size_t bytes = 0) {
        if (profiling.load(std::memory_order_relaxed)) [[unlikely]]
            begin(device, stream, kind, name, bytes);
    }
    ~DeviceScope() {
        if (end_) [[unlikely]]
            end();
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

  private:
    void begin(Device device, int stream, ProfileEvent::Kind kind, const char* name, size_t bytes);
    void end();
    Device device_;
    int stream_ = 0;
    std::shared_ptr<double> end_;
};

// Waits for the devices and appends their events since the recording began; returns the number of dropped events.
int64_t take_device_events(std::vector<ProfileEvent>& events);
void forget_device_events();

}  // namespace fb::gpu
