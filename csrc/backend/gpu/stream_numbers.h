// Numbers of a driver's streams, shared by all its devices. Number 0 is the default stream.
#pragma once
#include <algorithm>
#include <atomic>

namespace fb::gpu {

inline constexpr int most_streams = 64;

class StreamNumbers {
  public:
    // The number of a new stream, or, once there are most_streams, of an existing one.
    int take() {
        int id = count_.fetch_add(1);
        if (id < most_streams) return id;
        count_.store(most_streams);
        return 1 + shared_.fetch_add(1) % (most_streams - 1);
    }
    int count() const { return std::min(count_.load(), most_streams); }

  private:
    std::atomic<int> count_{1}, shared_{0};
};

}  // namespace fb::gpu
