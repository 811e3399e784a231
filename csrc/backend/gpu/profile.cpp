#include "backend/gpu/profile.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/fork.h"

namespace fb::gpu {
namespace {

struct Pending {
    ProfileEvent event;
    std::shared_ptr<double> begin, end;  // milliseconds of the driver's clock, once reached
};
struct Recorded {
    Mutex lock;
    std::deque<Pending> events;
    int64_t dropped = 0;
};
Recorded& recorded() {
    static auto* all = new Recorded;
    return *all;
}

std::shared_ptr<double> clock_in(Driver& driver, int stream) {
    auto when = std::make_shared<double>(-1);
    driver.mark_time(stream, when);
    return when;
}

// Drivers report the time a moment after the stream reached the mark.
double read(const std::shared_ptr<double>& clock) {
    double when = -1;
    for (int i = 0; i < 1000; i++) {
        __atomic_load(clock.get(), &when, __ATOMIC_ACQUIRE);
        if (when >= 0) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return when;
}

// The offset between a driver's clock and the host's, in nanoseconds: the best of some tries.
int64_t offset_of(Driver& driver) {
    if (driver.uses_host_clock()) return 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        std::shared_ptr<double> clock = clock_in(driver, 0);
        wait_quietly(driver.device(), driver.mark(0));
        int64_t after = profile_clock();
        least = std::min(least, after - static_cast<int64_t>(read(clock) * 1e6));
    }
    return least;
}

}  // namespace

void DeviceScope::begin(Device device, int stream, ProfileEvent::Kind kind, const char* name, size_t bytes) {
    device_ = device;
    stream_ = stream;
    end_ = std::make_shared<double>(-1);
    Pending one{{}, nullptr, end_};
    one.event.kind = kind;
    one.event.name = name;
    one.event.thread = profile_thread();
    one.event.launched = profile_clock();
    one.event.bytes = static_cast<int64_t>(bytes);
    one.event.device = device;
    one.event.stream = stream;
    one.begin = clock_in(driver(device), stream);
    Recorded& all = recorded();
    std::lock_guard guard(all.lock);
    if (all.events.size() >= profile_limit()) {
        all.events.pop_front();
        all.dropped++;
    }
    all.events.push_back(std::move(one));
}

void DeviceScope::end() { driver(device_).mark_time(stream_, end_); }

void forget_device_events() {
    std::lock_guard guard(recorded().lock);
    recorded().events.clear();
    recorded().dropped = 0;
}

int64_t take_device_events(std::vector<ProfileEvent>& events) {
    std::deque<Pending> all;
    int64_t dropped;
    {
        std::lock_guard guard(recorded().lock);
        all = std::exchange(recorded().events, {});
        dropped = std::exchange(recorded().dropped, 0);
    }
    std::vector<std::pair<Device, int64_t>> offsets;
    for (Pending& one : all) {
        Device device = one.event.device;
        auto known = std::find_if(offsets.begin(), offsets.end(), [&](auto& o) { return o.first == device; });
        if (known == offsets.end()) {
            Driver& d = driver(device);
            for (int i = 0; i < d.streams(); i++) wait_quietly(device, d.mark(i));
            known = offsets.insert(offsets.end(), {device, offset_of(d)});
        }
        double begin = read(one.begin), end = read(one.end);
        if (begin < 0 || end < 0) {
            dropped++;
            continue;
        }
        one.event.start = static_cast<int64_t>(begin * 1e6) + known->second;
        one.event.end = std::max(one.event.start, static_cast<int64_t>(end * 1e6) + known->second);
        events.push_back(std::move(one.event));
    }
    return dropped;
}

}  // namespace fb::gpu
