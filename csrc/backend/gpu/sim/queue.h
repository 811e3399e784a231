// An in-order queue with a thread of its own.
#pragma once
#include <deque>
#include <functional>

#include "backend/gpu/progress.h"
#include "base/fork.h"

namespace fb::gpu {

class Queue {
  public:
    using Task = std::function<void()>;
    Queue();  // starts the thread; queues live as long as the process

    // Returns the number of the task; it is done when done() has reached it. Tasks must not throw.
    uint64_t submit(Task task);
    uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
    uint64_t done() const { return progress_.done(); }
    // Waits for a task for at most this long; false if it is not done.
    bool wait(uint64_t number, int milliseconds) { return progress_.wait(number, milliseconds); }

  private:
    void work();

    Mutex lock_;
    std::deque<Task> tasks_;
    std::atomic<uint64_t> submitted_{0};
    std::atomic<uint32_t> news_{0};  // futex: a task was submitted
    Progress progress_;
};

}  // namespace fb::gpu
