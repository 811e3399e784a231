#include "backend/gpu/sim/queue.h"

#include <pthread.h>
#include <signal.h>

#include <mutex>
#include <thread>

namespace fb::gpu {

Queue::Queue() {
    // Signals are handled by the threads that run Python.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { work(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

uint64_t Queue::submit(Task task) {
    uint64_t number;
    {
        std::lock_guard guard(lock_);
        tasks_.push_back(std::move(task));
        number = submitted_.fetch_add(1, std::memory_order_acq_rel) + 1;
    }
    news_.fetch_add(1, std::memory_order_release);
    wake_all(news_);
    return number;
}

void Queue::work() {
    for (;;) {
        uint32_t seen = news_.load(std::memory_order_acquire);
        Task task;
        {
            std::lock_guard guard(lock_);
            if (!tasks_.empty()) {
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
        }
        if (!task) {
            sleep_while(news_, seen);
            continue;
        }
        task();
        task = nullptr;  // releases what it holds before anyone sees that it is done
        progress_.advance(progress_.done() + 1);
    }
}

}  // namespace fb::gpu
