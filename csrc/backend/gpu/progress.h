// How far a stream has come; threads sleep until it is far enough.
#pragma once
#include <atomic>
#include <cstdint>

namespace fb::gpu {

class Progress {
  public:
    uint64_t done() const { return done_.load(std::memory_order_acquire); }
    // Everything up to `number` is done.
    void advance(uint64_t number);
    // At most so long; false when it was not enough.
    bool wait(uint64_t number, int milliseconds);

  private:
    std::atomic<uint64_t> done_{0};
    std::atomic<uint32_t> news_{0};  // a futex
    std::atomic<int> waiting_{0};
};

// For other words to sleep on.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value);
void wake_all(std::atomic<uint32_t>& word);

}  // namespace fb::gpu
