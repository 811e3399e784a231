#include "base/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/fork.h"

namespace fb {

std::atomic<bool> profiling{false};
int64_t (*profile_memory)() = nullptr;
std::string (*profile_stack)() = nullptr;
Location (*profile_line)() = nullptr;

namespace {

std::atomic<ProfileOptions> options{ProfileOptions{}};
Mutex lock;
// Guarded by `lock`.
std::deque<ProfileEvent> events;
std::deque<MemoryEvent> memory;
int64_t dropped = 0;
std::atomic<size_t> limit{0};
// Scopes that began before the current recording do not belong to it.
std::atomic<int64_t> started{0};

template <class T>
void keep(std::deque<T>& all, T one) {
    if (all.size() >= limit) {
        all.pop_front();
        dropped++;
    }
    all.push_back(std::move(one));
}

}  // namespace

int64_t profile_clock() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
int64_t profile_thread() {
    static thread_local const int64_t thread = syscall(SYS_gettid);
    return thread;
}

ProfileOptions profile_options() { return options.load(std::memory_order_relaxed); }

size_t profile_limit() { return limit.load(std::memory_order_relaxed); }

void start_profile(const ProfileOptions& wanted, size_t most) {
    std::lock_guard guard(lock);
    options = wanted;
    events.clear();
    memory.clear();
    dropped = 0;
    limit = std::max<size_t>(most, 1);
    started = profile_clock();
    profiling = true;
}

Profile stop_profile() {
    profiling = false;
    std::lock_guard guard(lock);
    Profile all;
    all.events.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
    all.memory.assign(std::make_move_iterator(memory.begin()), std::make_move_iterator(memory.end()));
    all.dropped = dropped;
    events = {};
    memory = {};
    return all;
}

void record_event(ProfileEvent event) {
    std::lock_guard guard(lock);
    if (profiling && event.start >= started) keep(events, std::move(event));
}

void record_memory(Device device, const void* address, int64_t bytes, int64_t total) {
    if (!profile_options().memory) return;
    MemoryEvent event{profile_clock(),
                      profile_thread(),
                      reinterpret_cast<uintptr_t>(address),
                      bytes,
                      total,
                      device,
                      bytes > 0 && current_op ? current_op : "",
                      bytes > 0 && profile_line ? profile_line() : Location()};
    std::lock_guard guard(lock);
    if (profiling) keep(memory, std::move(event));
}

std::unique_ptr<ProfileEvent> begin_event(ProfileEvent::Kind kind, std::string name, std::string shapes) {
    auto event = std::make_unique<ProfileEvent>();
    event->kind = kind;
    event->name = std::move(name);
    event->thread = profile_thread();
    event->shapes = std::move(shapes);
    if (profile_options().stack && profile_stack) event->stack = profile_stack();
    if (profile_options().memory && profile_memory) event->bytes = -profile_memory();
    event->start = profile_clock();
    return event;
}

void end_event(std::unique_ptr<ProfileEvent> event) {
    event->end = profile_clock();
    if (profile_options().memory && profile_memory) event->bytes += profile_memory();
    record_event(std::move(*event));
}

}  // namespace fb
