// Address ranges for device memory, where the host can neither read nor write.
#pragma once
#include <cstddef>
#include <map>

namespace fb::gpu {

class Addresses {
  public:
    explicit Addresses(size_t bytes);  // raises an error if the range is not available
    // Both in whole pages of 2 MB; nullptr when the range is exhausted.
    char* take(size_t bytes);
    void give_back(char* at, size_t bytes);
    static size_t rounded(size_t bytes) { return (bytes + align - 1) / align * align; }
    char* base() const { return base_; }
    size_t size() const { return size_; }

  private:
    static constexpr size_t align = size_t(2) << 20;
    char* base_;
    size_t size_;
    std::map<size_t, size_t> free_;  // offset: size
};

}  // namespace fb::gpu
