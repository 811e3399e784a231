#include "base/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "base/fork.h"

namespace fb {

std::atomic<bool> profiling{false};
int64_t (*profile_memory)() = nullptr;
std::string (*profile_stack)() = nullptr;

namespace {

std::atomic<ProfileOptions> options{ProfileOptions{}};
Mutex lock;
std::vector<ProfileEvent> events;  // guarded by `lock`
// Scopes that began before the present recording do not belong to it.
std::atomic<int64_t> started{0};

int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

ProfileOptions profile_options() { return options.load(std::memory_order_relaxed); }

void start_profile(const ProfileOptions& wanted) {
    std::lock_guard guard(lock);
    options = wanted;
    events.clear();
    started = now();
    profiling = true;
}

std::vector<ProfileEvent> stop_profile() {
    profiling = false;
    std::lock_guard guard(lock);
    return std::exchange(events, {});
}

std::unique_ptr<ProfileEvent> begin_event(ProfileEvent::Kind kind, std::string name, std::string shapes) {
    static thread_local const int64_t thread = syscall(SYS_gettid);
    auto event = std::make_unique<ProfileEvent>();
    event->kind = kind;
    event->name = std::move(name);
    event->thread = thread;
    event->shapes = std::move(shapes);
    if (profile_options().stack && profile_stack) event->stack = profile_stack();
    if (profile_options().memory && profile_memory) event->bytes = -profile_memory();
    event->start = now();
    return event;
}

void end_event(std::unique_ptr<ProfileEvent> event) {
    event->end = now();
    if (profile_options().memory && profile_memory) event->bytes += profile_memory();
    std::lock_guard guard(lock);
    if (profiling && event->start >= started) events.push_back(std::move(*event));
}

}  // namespace fb
