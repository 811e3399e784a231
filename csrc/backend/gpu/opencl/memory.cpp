#include "backend/gpu/opencl/memory.h"

namespace fb::gpu {

void* OpenclMemory::map(size_t bytes) {
    size_t size = Addresses::rounded(bytes);
    if (used_ + size > total() || bytes > static_cast<size_t>(device_.max_alloc)) return nullptr;
    char* at = addresses_.take(size);
    if (!at) return nullptr;
    int32_t status = 0;
    cl::Memory buffer = device_.api->CreateBuffer(context, cl::memory_read_write, bytes, nullptr, &status);
    if (!buffer || status != 0) {
        addresses_.give_back(at, size);
        return nullptr;
    }
    used_ += size;
    std::lock_guard guard(lock_);
    segments_[at] = {buffer, bytes};
    return at;
}

// Commands retain the buffers they use, so nothing has to be waited for.
void OpenclMemory::unmap(void* data, size_t bytes) {
    size_t size = Addresses::rounded(bytes);
    {
        std::lock_guard guard(lock_);
        auto it = segments_.find(static_cast<char*>(data));
        device_.api->ReleaseMemObject(it->second.buffer);
        segments_.erase(it);
    }
    used_ -= size;
    addresses_.give_back(static_cast<char*>(data), size);
}

Place OpenclMemory::place_of(const void* address) const {
    const char* at = static_cast<const char*>(address);
    std::lock_guard guard(lock_);
    auto it = segments_.upper_bound(at);
    if (it == segments_.begin()) return {};
    --it;
    auto offset = static_cast<size_t>(at - it->first);
    if (offset >= it->second.bytes) return {};
    return {it->second.buffer, static_cast<int64_t>(offset)};
}

}  // namespace fb::gpu
