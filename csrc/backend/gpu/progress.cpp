#include "backend/gpu/progress.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace fb::gpu {

static void sleep_at_most(std::atomic<uint32_t>& word, uint32_t value, const timespec* at_most) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, at_most, nullptr, 0);
}
void sleep_while(std::atomic<uint32_t>& word, uint32_t value) { sleep_at_most(word, value, nullptr); }
void wake_all(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Progress::advance(uint64_t number) {
    uint64_t before = done_.load(std::memory_order_relaxed);
    while (before < number && !done_.compare_exchange_weak(before, number, std::memory_order_release)) {
    }
    news_.fetch_add(1, std::memory_order_seq_cst);
    if (waiting_.load(std::memory_order_seq_cst)) wake_all(news_);
}

bool Progress::wait(uint64_t number, int milliseconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    struct Waiting {
        std::atomic<int>& count;
        explicit Waiting(std::atomic<int>& c) : count(c) { count.fetch_add(1); }
        ~Waiting() { count.fetch_sub(1); }
    } waiting(waiting_);
    for (;;) {
        uint32_t seen = news_.load(std::memory_order_seq_cst);
        if (done() >= number) return true;
        auto left =
            std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now()).count();
        if (left <= 0) return false;
        timespec most{left / 1'000'000'000, left % 1'000'000'000};
        sleep_at_most(news_, seen, &most);
    }
}

}  // namespace fb::gpu
