#include "backend/gpu/sim/queue.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <mutex>
#include <thread>

namespace fb::gpu {
namespace {

void sleep_while(std::atomic<uint32_t>& word, uint32_t value, const timespec* at_most) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, at_most, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Queue::Queue() {
    // Signals are for the threads that run Python.
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

bool Queue::wait(uint64_t number, int milliseconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    struct Waiting {
        std::atomic<int>& count;
        explicit Waiting(std::atomic<int>& c) : count(c) { count.fetch_add(1); }
        ~Waiting() { count.fetch_sub(1); }
    } waiting(waiting_);
    for (;;) {
        uint32_t seen = progress_.load(std::memory_order_seq_cst);
        if (done() >= number) return true;
        auto left =
            std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now()).count();
        if (left <= 0) return false;
        timespec most{left / 1'000'000'000, left % 1'000'000'000};
        sleep_while(progress_, seen, &most);
    }
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
            sleep_while(news_, seen, nullptr);
            continue;
        }
        task();
        task = nullptr;  // what it holds is let go before anybody hears that it is done
        done_.fetch_add(1, std::memory_order_release);
        progress_.fetch_add(1, std::memory_order_seq_cst);
        if (waiting_.load(std::memory_order_seq_cst)) wake_all(progress_);
    }
}

}  // namespace fb::gpu
