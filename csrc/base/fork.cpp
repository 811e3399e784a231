#include "base/fork.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

namespace fb {

std::atomic<uint32_t> fork_generation{1};

// All mutexes, and the functions to call in children.
struct ForkRegistry {
    std::mutex mutex;
    Mutex* first = nullptr;
    void (*handlers[16])() = {};
    int count = 0;

    static ForkRegistry& get() {
        static auto* registry = [] {
            auto* r = new ForkRegistry;  // never destroyed: mutexes may outlive every static object
            pthread_atfork(before, after_in_parent, after_in_child);
            return r;
        }();
        return *registry;
    }
    static void before() {
        ForkRegistry& r = get();
        r.mutex.lock();
        for (Mutex* m = r.first; m; m = m->next_) m->lock();
    }
    static void after_in_parent() {
        ForkRegistry& r = get();
        for (Mutex* m = r.first; m; m = m->next_) m->unlock();
        r.mutex.unlock();
    }
    static void after_in_child() {
        fork_generation.fetch_add(1);
        after_in_parent();
        ForkRegistry& r = get();
        for (int i = 0; i < r.count; i++) r.handlers[i]();
    }
    void add(Mutex* m) {
        std::lock_guard guard(mutex);
        m->next_ = first;
        if (first) first->previous_ = m;
        first = m;
    }
    void remove(Mutex* m) {
        std::lock_guard guard(mutex);
        (m->previous_ ? m->previous_->next_ : first) = m->next_;
        if (m->next_) m->next_->previous_ = m->previous_;
    }
};

void after_fork_in_child(void (*f)()) {
    ForkRegistry& r = ForkRegistry::get();
    std::lock_guard guard(r.mutex);
    r.handlers[r.count++] = f;
}

Mutex::Mutex() { ForkRegistry::get().add(this); }
Mutex::~Mutex() { ForkRegistry::get().remove(this); }

void SpinLock::wait() {
    Backoff backoff;
    uint32_t now = fork_generation.load(std::memory_order_relaxed);
    for (;;) {
        uint32_t holder = word_.load(std::memory_order_relaxed);
        bool free = holder == 0 || holder != now;  // or held by a thread of the parent
        if (free && word_.compare_exchange_strong(holder, now, std::memory_order_acquire)) return;
        backoff.pause();
    }
}

void Backoff::pause() {
    turns_++;
    if (turns_ < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (turns_ < 128) {
        sched_yield();
    } else {
        timespec short_while{0, 50'000};
        nanosleep(&short_while, nullptr);
    }
}

}  // namespace fb
