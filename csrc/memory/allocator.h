// The caching allocator: one class for every device, over a small raw interface. Blocks are rounded to 512 bytes, split
// from larger segments, coalesced when free, and kept in one arena per stream so that memory freed on a stream is
// reused there without waiting. Thread safe.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/device.h"
#include "base/fork.h"

namespace fb {

// The interface a device implements: memory in large segments.
class RawMemory {
  public:
    virtual ~RawMemory() = default;
    virtual void* map(size_t bytes) = 0;  // nullptr if there is none left
    virtual void unmap(void* data, size_t bytes) = 0;
    virtual size_t total() const = 0;  // bytes the device has, for the error message and the sanity limit
    virtual std::string name() const = 0;
    virtual bool exact() const { return false; }  // whether blocks may be of exact size (Note [Exact blocks])
};

struct Block {
    void* data = nullptr;
    size_t size = 0;       // rounded
    size_t requested = 0;  // as requested by the user
    int stream = 0;
    bool used = false;
    bool binned = false;
    bool segment_start = false;
    bool small = false;     // of a segment for small blocks
    Block* prev = nullptr;  // neighbours in the same segment
    Block* next = nullptr;
};

struct MemoryStats {
    int64_t allocated = 0, allocated_peak = 0;  // bytes in live blocks, as requested
    int64_t active = 0, active_peak = 0;        // the same, rounded
    int64_t reserved = 0, reserved_peak = 0;    // bytes held from the system
    int64_t cached = 0;                         // reserved but free
    int64_t segments = 0, segments_peak = 0;
    int64_t blocks = 0, blocks_peak = 0;
    int64_t allocations = 0, frees = 0;  // calls
    int64_t maps = 0, unmaps = 0;        // calls to the system
    int64_t retries = 0, ooms = 0;
    int64_t cap = 0;  // 0: none
};

class CachingAllocator {
  public:
    explicit CachingAllocator(RawMemory& raw) : raw_(raw) {}
    Block* allocate(size_t bytes, int stream = 0);
    void free(Block* block);
    // Returns every free segment to the system, and the number of bytes freed.
    size_t empty_cache();
    // Maximum number of reserved bytes; 0 removes the cap.
    void set_cap(size_t bytes);
    MemoryStats stats();
    void reset_peak();
    std::string device_name() const { return raw_.name(); }
    size_t device_total() const { return raw_.total(); }

  private:
    static constexpr size_t rounding = 512;
    static constexpr size_t bin_limit = 64 * 1024;  // blocks up to here are reused by exact size, without coalescing
    static constexpr size_t bin_bytes = size_t(16) << 20;  // maximum free memory kept in the bin of each size
    struct BySize {
        bool operator()(const Block* a, const Block* b) const {
            return a->size != b->size ? a->size < b->size : a->data < b->data;
        }
    };
    struct Arena {
        std::array<std::vector<Block*>, bin_limit / rounding + 1> bins;
        std::set<Block*, BySize> small, large;  // free blocks of 2 MB segments and of bigger ones
    };

    Block* allocate_exact(size_t bytes, int stream);
    void free_exact(Block* block);
    Arena& arena(int stream);
    Block* find(Arena& arena, size_t size);
    Block* grow(Arena& arena, size_t size, int stream, size_t bytes);
    Block* split(Arena& arena, Block* block, size_t size);
    void put_back(Arena& arena, Block* block);
    void flush_bins(Arena& arena);
    size_t release_free_segments();
    [[noreturn]] void out_of_memory(size_t bytes);

    RawMemory& raw_;
    Mutex mutex_;
    std::map<int, std::unique_ptr<Arena>> arenas_;
    Arena* arena_zero_ = nullptr;
    MemoryStats stats_;
};

// The table that memory_summary() prints and an out-of-memory error ends with.
std::string memory_table(const MemoryStats& stats, const std::string& device, size_t total);

// The host's allocator (segments by mmap, huge pages for large ones).
CachingAllocator& host_allocator();

// The memory of a device type other than the CPU; registered by its backend.
struct DeviceMemory {
    CachingAllocator& (*allocator)(int index);
    void (*free)(int index, Block* block);
    void (*copy)(void* to, const void* from, size_t bytes);  // on one device
    int (*stream)();                                         // the one this thread's ops go to
};
inline const DeviceMemory* device_memories[device_types] = {};

}  // namespace fb
