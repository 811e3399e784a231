// An in-order queue with a thread of its own.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>

#include "base/fork.h"

namespace fb::gpu {

class Queue {
  public:
    using Task = std::function<void()>;
    Queue();  // starts the thread; queues live as long as the process

    // The number of the task: those before it are done when done() has come that far. Tasks must not throw.
    uint64_t submit(Task task);
    uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
    uint64_t done() const { return done_.load(std::memory_order_acquire); }
    // Blocks until a task is done, at most so long; false when it is not.
    bool wait(uint64_t number, int milliseconds);

  private:
    void work();

    Mutex lock_;
    std::deque<Task> tasks_;
    std::atomic<uint64_t> submitted_{0}, done_{0};
    std::atomic<uint32_t> news_{0}, progress_{0};  // futexes: a task came, a task is done
    std::atomic<int> waiting_{0};
};

}  // namespace fb::gpu
