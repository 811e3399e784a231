// Raw host memory: anonymous mappings, aligned for and advised to use huge pages when large.
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "memory/allocator.h"

namespace fb {
namespace {

constexpr size_t huge_page = size_t(2) << 20;

class HostMemory final : public RawMemory {
  public:
    HostMemory() {
        total_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
        size_t limit = 0;
        for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
            std::ifstream file(path);
            if (file >> limit && limit > 0 && limit < total_) total_ = limit;
        }
    }
    void* map(size_t bytes) override {
        size_t extra = bytes + huge_page;
        void* raw = mmap(nullptr, extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (raw == MAP_FAILED) return nullptr;
        // Keep the aligned middle, unmap the rest.
        uintptr_t begin = reinterpret_cast<uintptr_t>(raw), aligned = (begin + huge_page - 1) / huge_page * huge_page;
        size_t page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
        size_t used = (bytes + page - 1) / page * page;
        if (aligned > begin) munmap(raw, aligned - begin);
        if (begin + extra > aligned + used)
            munmap(reinterpret_cast<void*>(aligned + used), begin + extra - aligned - used);
        void* data = reinterpret_cast<void*>(aligned);
        if (bytes >= huge_page) madvise(data, used, MADV_HUGEPAGE);
        return data;
    }
    void unmap(void* data, size_t bytes) override {
        size_t page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
        munmap(data, (bytes + page - 1) / page * page);
    }
    size_t total() const override { return total_; }
    std::string name() const override { return "cpu"; }
    bool exact() const override { return true; }

  private:
    size_t total_ = 0;
};

}  // namespace

CachingAllocator& host_allocator() {
    // Never destroyed: tensors may outlive every static object.
    static auto* allocator = new CachingAllocator(*new HostMemory);
    return *allocator;
}

}  // namespace fb
