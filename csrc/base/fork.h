// Locks that a forked child can go on using. Only the forking thread exists in the child, and a lock held by another
// thread at that moment would stay locked for ever. tests/threads/test_fork.py rejects any other lock in csrc.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

namespace fb {

// Number of forks between the first process and this one, plus one; changes in the child only.
extern std::atomic<uint32_t> fork_generation;

// Registers a function that runs in every forked child, after its mutexes were released. Cannot be undone.
void after_fork_in_child(void (*f)());

// A mutex for process-wide state. It is held across fork(), so that the child finds consistent state and an unlocked
// mutex. For leaf locks only: while holding one, a thread takes no other lock, calls no Python and waits for no other
// thread.
class Mutex {
  public:
    Mutex();
    ~Mutex();
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    bool try_lock() { return mutex_.try_lock(); }

  private:
    friend struct ForkRegistry;
    std::mutex mutex_;
    Mutex *previous_ = nullptr, *next_ = nullptr;
};

// A lock of four bytes for small objects of which there are many, such as a generator or a tensor's history. It stores
// the process that took it: a child ignores a lock taken by a thread of its parent, so the object must be usable at any
// moment.
class SpinLock {
  public:
    void lock() {
        uint32_t free = 0;
        if (!word_.compare_exchange_strong(free, fork_generation.load(std::memory_order_relaxed),
                                           std::memory_order_acquire)) [[unlikely]]
            wait();
    }
    void unlock() { word_.store(0, std::memory_order_release); }

  private:
    void wait();
    std::atomic<uint32_t> word_{0};
};

// Waiting for an event that is rare and soon over: spins at first, then sleeps for short times.
class Backoff {
  public:
    void pause();

  private:
    int turns_ = 0;
};

}  // namespace fb
