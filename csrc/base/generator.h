// Random state: a key and a counter. Numbers are a pure function of (seed, offset, element index), so they do not
// depend on the thread count; each op takes a slice of the counter.
#pragma once
#include <cstdint>
#include <mutex>

#include "base/refcount.h"

namespace fb {

class Generator final : public RefCounted {
  public:
    static constexpr uint64_t default_seed = 67280421310721ull;
    explicit Generator(uint64_t seed = default_seed) : seed_(seed) {}
    uint64_t seed() const { return seed_; }
    uint64_t offset() const { return offset_; }
    void set(uint64_t seed, uint64_t offset = 0) {
        std::lock_guard lock(mutex_);
        seed_ = seed;
        offset_ = offset;
    }
    // Reserves `count` counter values (four 32-bit numbers each) and returns the first.
    uint64_t advance(uint64_t count) {
        std::lock_guard lock(mutex_);
        uint64_t first = offset_;
        offset_ += count;
        return first;
    }

  private:
    std::mutex mutex_;
    uint64_t seed_, offset_ = 0;
};

Ref<Generator> default_generator();

}  // namespace fb
