// Memory of an OpenCL device: buffers, each with an address range where the host can neither read nor write.
#pragma once
#include <map>

#include "backend/gpu/addresses.h"
#include "backend/gpu/opencl/api.h"
#include "memory/allocator.h"

namespace fb::gpu {

// A buffer and an offset in it.
struct Place {
    cl::Memory buffer = nullptr;
    int64_t offset = 0;
};

class OpenclMemory final : public RawMemory {
  public:
    OpenclMemory(const cl::Found& device, int index)
        : device_(device), index_(index), addresses_(static_cast<size_t>(device.memory) * 2) {}
    void* map(size_t bytes) override;
    void unmap(void* data, size_t bytes) override;
    size_t total() const override { return static_cast<size_t>(device_.memory); }
    std::string name() const override { return "opencl:" + std::to_string(index_); }
    // The buffer is null for unused addresses, such as those of empty tensors.
    Place place_of(const void* address) const;

    cl::Context context = nullptr;

  private:
    const cl::Found& device_;
    int index_;
    size_t used_ = 0;
    Addresses addresses_;
    mutable Mutex lock_;
    struct Segment {
        cl::Memory buffer;
        size_t bytes;
    };
    std::map<const char*, Segment> segments_;
};

}  // namespace fb::gpu
