// Device memory of the simulator. One range of addresses is the device's: nothing can be read or written there. The
// bytes behind them lie at a fixed distance, where only the simulator's own threads look.
#include "backend/gpu/sim/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"

namespace fb::gpu {

namespace {
constexpr size_t align = size_t(2) << 20;
}

SimMemory::SimMemory() {
    total_ = std::min(host_allocator().device_total(), size_t(64) << 30);
    range_ = total_ * 2;  // of addresses: what is freed leaves gaps
    void* both = mmap(nullptr, range_ * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED)
        fail(ErrorKind::Memory, "the simulated device finds no ", range_ * 2, " bytes of addresses");
    base_ = static_cast<char*>(both);
    free_[0] = range_;
}

void* SimMemory::map(size_t bytes) {
    size_t size = (bytes + align - 1) / align * align;
    if (used_ + size > total_) return nullptr;
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        auto [at, room] = *it;
        if (room < size) continue;
        if (mprotect(bytes_at(base_ + at), size, PROT_READ | PROT_WRITE) != 0) return nullptr;
        free_.erase(it);
        if (room > size) free_[at + size] = room - size;
        used_ += size;
        return base_ + at;
    }
    return nullptr;
}

void SimMemory::unmap(void* data, size_t bytes) {
    size_t size = (bytes + align - 1) / align * align, at = static_cast<size_t>(static_cast<char*>(data) - base_);
    if (before_unmap) before_unmap();
    madvise(bytes_at(data), size, MADV_DONTNEED);
    mprotect(bytes_at(data), size, PROT_NONE);
    used_ -= size;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + size == next->first) {
        size += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == at) {
            before->second += size;
            return;
        }
    }
    free_[at] = size;
}

}  // namespace fb::gpu
