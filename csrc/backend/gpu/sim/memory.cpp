#include "backend/gpu/sim/memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"

namespace fb::gpu {

// Twice as many addresses as bytes, because freed blocks leave gaps.
SimMemory::SimMemory()
    : total_(std::min(host_allocator().device_total(), size_t(64) << 30)),
      addresses_(total_ * 2),
      bytes_(Addresses(addresses_.size()).base()) {}

void* SimMemory::map(size_t bytes) {
    size_t size = Addresses::rounded(bytes);
    if (used_ + size > total_) return nullptr;
    char* at = addresses_.take(size);
    if (!at) return nullptr;
    if (mprotect(bytes_at(at), size, PROT_READ | PROT_WRITE) != 0) {
        addresses_.give_back(at, size);
        return nullptr;
    }
    used_ += size;
    return at;
}

void SimMemory::unmap(void* data, size_t bytes) {
    size_t size = Addresses::rounded(bytes);
    if (before_unmap) before_unmap();
    madvise(bytes_at(data), size, MADV_DONTNEED);
    mprotect(bytes_at(data), size, PROT_NONE);
    used_ -= size;
    addresses_.give_back(static_cast<char*>(data), size);
}

}  // namespace fb::gpu
