// Random state: a key and a counter. Numbers are a pure function of (seed, offset, element index), so they do not
// depend on the thread count; each op takes a slice of the counter.
#pragma once
#include <cstdint>
#include <mutex>

#include "base/fork.h"
#include "base/refcount.h"

namespace fb {

class Generator final : public RefCounted {
  public:
    static constexpr uint64_t default_seed = 67280421310721ull;
    explicit Generator(uint64_t seed = default_seed) : state_{seed, 0} {}
    struct State {
        uint64_t seed, offset;
    };
    State state() {
        std::lock_guard guard(lock_);
        return state_;
    }
    void set(uint64_t seed, uint64_t offset = 0) {
        std::lock_guard guard(lock_);
        state_ = {seed, offset};
    }
    // Reserves `count` counter values (four 32-bit numbers each); returns the seed and the first of them.
    State draw(uint64_t count) {
        std::lock_guard guard(lock_);
        State first = state_;
        state_.offset += count;
        return first;
    }

  private:
    SpinLock lock_;
    State state_;
};

Ref<Generator> default_generator();

}  // namespace fb
