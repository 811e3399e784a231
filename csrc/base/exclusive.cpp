#include "base/exclusive.h"

namespace fb {

Interpreter interpreter{[](void (*f)(void*), void* context) { f(context); },
                        [](void (*f)(void*), void* context) { f(context); }};

namespace detail {
namespace {

std::atomic<int> readers{0};
thread_local bool changing = false;

// The threads that read, and those that waited for a change, do not exist in the child.
[[maybe_unused]] const bool registered = [] {
    after_fork_in_child([] {
        readers = 0;
        change_wanted = false;
    });
    return true;
}();

}  // namespace

std::atomic<bool> change_wanted{false};
thread_local int reading = 0;

void begin_reading() {
    readers.fetch_add(1);
    while (change_wanted.load()) [[unlikely]] {
        readers.fetch_sub(1);
        for (Backoff backoff; change_wanted.load();) backoff.pause();
        readers.fetch_add(1);
    }
}

void end_reading() { readers.fetch_sub(1, std::memory_order_release); }

void exclusively(void (*f)(void*), void* context) {
    if (changing) return f(context);
    NotReading pause;
    auto begin = [](void*) {
        Backoff backoff;
        for (bool free = false; !change_wanted.compare_exchange_strong(free, true); free = false) backoff.pause();
        while (readers.load() != 0) backoff.pause();
    };
    // Usually no other thread computes: then the lock need not be released in between.
    bool free = false;
    if (!change_wanted.compare_exchange_strong(free, true)) interpreter.without_lock(begin, nullptr);
    else if (readers.load() != 0)
        interpreter.without_lock(
            [](void*) {
                for (Backoff backoff; readers.load() != 0;) backoff.pause();
            },
            nullptr);
    struct End {
        End() { changing = true; }
        ~End() {
            changing = false;
            change_wanted.store(false);
        }
    } end;
    interpreter.with_lock(f, context);
}

}  // namespace detail
}  // namespace fb
