// Locks that a forked child can go on using. Only the forking thread lives on in the child, and what another thread had
// locked at that moment would stay locked for ever. tests/threads/test_fork.py refuses any other lock in csrc.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

namespace fb {

// How often this process was forked off another one, plus one; changes in the child only.
extern std::atomic<uint32_t> fork_generation;

// Runs in every child that is forked from now on, after its mutexes were released. Nothing to undo.
void after_fork_in_child(void (*f)());

// A mutex for process-wide state. It is held across fork(), so that the child finds the state whole and the mutex free.
// Leaf locks only: who holds one takes no other lock, calls no Python and waits for nobody.
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

// A lock of four bytes for one object among many, such as a generator or a tensor's history. It knows in which process
// it was taken: a child takes over what a thread of its parent had locked, and must find the object usable at any
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

// Waiting for something that rarely happens and is soon over: at first eagerly, then with short sleeps.
class Backoff {
  public:
    void pause();

  private:
    int turns_ = 0;
};

}  // namespace fb
