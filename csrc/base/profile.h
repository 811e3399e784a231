// Records what runs, when and for how long. While no one records, a scope costs a load and a branch.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/location.h"

namespace fb {

struct ProfileEvent {
    enum Kind : int { Op, Backward, Range, Kernel, Copy, Fallback };
    Kind kind = Op;
    std::string name{};
    int64_t thread = 0;
    int64_t start = 0, end = 0;  // nanoseconds of the steady clock
    int64_t bytes = 0;           // allocated minus freed during the event, by all threads
    std::string shapes{};        // of the tensor arguments, if requested
    std::string stack{};         // "file:line function" per line, innermost first, when asked for
    // Of work on an accelerator: the device, the stream, and when the host submitted it.
    Device device = cpu_device;
    int stream = -1;
    int64_t launched = 0;
};

// Memory of a tensor, allocated (bytes > 0) or freed.
struct MemoryEvent {
    int64_t time, thread;
    uintptr_t address;
    int64_t bytes, total;  // in live tensors afterwards
    Device device;
    std::string op;
    Location line;
};

struct Profile {
    std::vector<ProfileEvent> events;
    std::vector<MemoryEvent> memory;
    int64_t dropped = 0;  // the oldest events beyond the limit, of either kind
};

struct alignas(4) ProfileOptions {  // read and written as one word
    bool shapes = false, memory = false, stack = false;
};

extern std::atomic<bool> profiling;

// Starting discards the previous recording; stopping returns the events in the order of their ends, without scopes that
// are still open. At most `limit` events of each kind are kept, the latest.
void start_profile(const ProfileOptions& options, size_t limit);
Profile stop_profile();
ProfileOptions profile_options();
size_t profile_limit();
int64_t profile_clock();   // nanoseconds
int64_t profile_thread();  // the number of this thread in the recording
void record_event(ProfileEvent event);
void record_memory(Device device, const void* address, int64_t bytes, int64_t total);

// Set once, when the library is loaded, by the layers that know them: the bytes in live blocks, and the interpreter's
// stack.
extern int64_t (*profile_memory)();
extern std::string (*profile_stack)();
extern Location (*profile_line)();

std::unique_ptr<ProfileEvent> begin_event(ProfileEvent::Kind kind, std::string name, std::string shapes);
void end_event(std::unique_ptr<ProfileEvent> event);

// Records its own lifetime. `name` and `shapes` are functions, called only while recording.
class ProfileScope {
  public:
    template <class Name, class Shapes>
    ProfileScope(ProfileEvent::Kind kind, Name name, Shapes shapes) {
        if (profiling.load(std::memory_order_relaxed)) [[unlikely]]
            event_ = begin_event(kind, name(), profile_options().shapes ? shapes() : std::string());
    }
    ~ProfileScope() {
        if (event_) [[unlikely]]
            end_event(std::move(event_));
    }
    ProfileScope(const ProfileScope&) = delete;
    ProfileScope& operator=(const ProfileScope&) = delete;

  private:
    std::unique_ptr<ProfileEvent> event_;
};

}  // namespace fb
