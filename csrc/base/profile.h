// Recording what runs, when and for how long. Nobody records most of the time: then a scope costs a load and a branch.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fb {

struct ProfileEvent {
    enum Kind : int { Op, Backward, Range };
    Kind kind;
    std::string name;
    int64_t thread;
    int64_t start, end;  // nanoseconds of the steady clock
    int64_t bytes = 0;   // allocated minus freed meanwhile, by all threads
    std::string shapes;  // of the tensor arguments, when asked for
    std::string stack;   // "file:line function" per line, innermost first, when asked for
};

struct alignas(4) ProfileOptions {  // read and written as one word
    bool shapes = false, memory = false, stack = false;
};

extern std::atomic<bool> profiling;

// Starting forgets what was recorded; stopping answers it, in the order of ends. Scopes still open then are left out.
void start_profile(const ProfileOptions& options);
std::vector<ProfileEvent> stop_profile();
ProfileOptions profile_options();

// Set once, when the library is loaded, by the layers that know: bytes in live blocks, and the interpreter's stack.
extern int64_t (*profile_memory)();
extern std::string (*profile_stack)();

std::unique_ptr<ProfileEvent> begin_event(ProfileEvent::Kind kind, std::string name, std::string shapes);
void end_event(std::unique_ptr<ProfileEvent> event);

// Records its own life time. `name` and `shapes` are functions, called only while somebody records.
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
