#include "backend/gpu/addresses.h"

#include <sys/mman.h>

#include "base/error.h"

namespace fb::gpu {

Addresses::Addresses(size_t bytes) : size_(rounded(bytes)) {
    void* range = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) fail(ErrorKind::Memory, "the accelerator cannot reserve ", size_, " bytes of addresses");
    base_ = static_cast<char*>(range);
    free_[0] = size_;
}

char* Addresses::take(size_t bytes) {
    size_t size = rounded(bytes);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        auto [at, room] = *it;
        if (room < size) continue;
        free_.erase(it);
        if (room > size) free_[at + size] = room - size;
        return base_ + at;
    }
    return nullptr;
}

void Addresses::give_back(char* from, size_t bytes) {
    size_t size = rounded(bytes), at = static_cast<size_t>(from - base_);
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
