// The progress of a stream; threads sleep until a number is reached.
#pragma once
#include <atomic>
#include <cstdint>

namespace fb::gpu {

class Progress {
  public:
    uint64_t done() const { return done_.load(std::memory_order_acquire); }
    // Marks everything up to `number` as done.
    void advance(uint64_t number);
    // Waits for at most this long; false if it was not reached.
    bool wait(uint64_t number, int milliseconds);

  private:
    std::atomic<uint64_t> done_{0};
    std::atomic<uint32_t> news_{0};  // a futex
    std::atomic<int> waiting_{0};
};

// Sleeps on another word.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value);
void wake_all(std::atomic<uint32_t>& word);

}  // namespace fb::gpu
