// Memory of the simulated accelerator. Its addresses can be neither read nor written; the bytes behind them are at a
// fixed distance, which only the simulator's own threads access.
#pragma once
#include "backend/gpu/addresses.h"
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
    // The host address of a device address.
    char* bytes_at(const void* address) const {
        return bytes_ + (static_cast<const char*>(address) - addresses_.base());
    }
    void (*before_unmap)() = nullptr;  // waits for users of the memory

  private:
    size_t total_, used_ = 0;
    Addresses addresses_;
    char* bytes_;
};

}  // namespace fb::gpu
