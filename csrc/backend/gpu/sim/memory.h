#pragma once
#include <map>

#include "memory/allocator.h"

namespace fb::gpu {

// The allocator's lock is held in map() and unmap().
class SimMemory final : public RawMemory {
  public:
    SimMemory();
    void* map(size_t bytes) override;
    void unmap(void* data, size_t bytes) override;
    size_t total() const override { return total_; }
    std::string name() const override { return "sim:0"; }
    // Where the bytes of a device address are.
    char* bytes_at(const void* address) const { return const_cast<char*>(static_cast<const char*>(address)) + range_; }
    void (*before_unmap)() = nullptr;  // waits for those who may still use the memory

  private:
    char* base_ = nullptr;
    size_t total_ = 0, range_ = 0, used_ = 0;
    std::map<size_t, size_t> free_;  // offset: size
};

}  // namespace fb::gpu
