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

    // The number of the task: those before it are done when done() has come that far. Tasks must not throw.
    uint64_t submit(Task task);
    uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
    uint64_t done() const { return progress_.done(); }
    // Blocks until a task is done, at most so long; false when it is not.
    bool wait(uint64_t number, int milliseconds) { return progress_.wait(number, milliseconds); }

  private:
    void work();

    Mutex lock_;
    std::deque<Task> tasks_;
    std::atomic<uint64_t> submitted_{0};
    std::atomic<uint32_t> news_{0};  // a task came
    Progress progress_;
};

}  // namespace fb::gpu
