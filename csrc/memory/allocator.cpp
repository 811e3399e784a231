#include "memory/allocator.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "memory/exact.h"

namespace fb {
namespace {

constexpr size_t MB = size_t(1) << 20;
constexpr size_t small_limit = MB;  // requests up to here use 2 MB segments
constexpr size_t small_segment = 2 * MB;
constexpr int64_t cache_floor = 256 * MB;  // this much may always be cached
constexpr size_t middle_limit = 10 * MB;   // requests up to here share 20 MB segments
constexpr size_t middle_segment = 20 * MB;

std::string human(int64_t bytes) {
    char text[32];
    if (bytes < 1024) std::snprintf(text, sizeof text, "%lld B", static_cast<long long>(bytes));
    else if (bytes < int64_t(MB)) std::snprintf(text, sizeof text, "%.1f KiB", bytes / 1024.0);
    else if (bytes < int64_t(1024 * MB)) std::snprintf(text, sizeof text, "%.1f MiB", bytes / double(MB));
    else std::snprintf(text, sizeof text, "%.2f GiB", bytes / double(1024 * MB));
    return text;
}

void raise_peak(int64_t value, int64_t& peak) {
    if (value > peak) peak = value;
}

// A block that was handed out.
void count_block(MemoryStats& s, const Block& block) {
    s.allocations++;
    s.blocks++;
    s.allocated += block.requested;
    s.active += block.size;
    raise_peak(s.allocated, s.allocated_peak);
    raise_peak(s.active, s.active_peak);
    raise_peak(s.blocks, s.blocks_peak);
}

}  // namespace

std::string memory_table(const MemoryStats& s, const std::string& device, size_t total) {
    std::ostringstream out;
    auto row = [&](const char* label, int64_t now, int64_t peak) {
        char line[96];
        std::snprintf(line, sizeof line, "| %-22s | %12s | %12s |\n", label, human(now).c_str(), human(peak).c_str());
        out << line;
    };
    out << "memory of " << device << ", " << human(static_cast<int64_t>(total)) << " in all";
    if (s.cap) out << ", cap " << human(s.cap);
    out << "\n|                        |          now |         peak "
           "|\n|------------------------|--------------|--------------|\n";
    row("allocated (asked for)", s.allocated, s.allocated_peak);
    row("allocated (rounded)", s.active, s.active_peak);
    row("reserved from system", s.reserved, s.reserved_peak);
    row("cached (free to reuse)", s.cached, s.cached);
    out << "blocks " << s.blocks << ", segments " << s.segments << ", allocations " << s.allocations
        << ", system calls " << s.maps << ", retries " << s.retries << ", out of memory " << s.ooms << "\n";
    return out.str();
}

CachingAllocator::Arena& CachingAllocator::arena(int stream) {
    if (stream == 0 && arena_zero_) return *arena_zero_;
    auto& slot = arenas_[stream];
    if (!slot) slot = std::make_unique<Arena>();
    if (stream == 0) arena_zero_ = slot.get();
    return *slot;
}

// Note [Exact blocks] in memory/exact.h
Block* CachingAllocator::allocate_exact(size_t bytes, int stream) {
    std::lock_guard lock(mutex_);
    if (bytes > raw_.total() || (stats_.cap && stats_.active + bytes > size_t(stats_.cap))) out_of_memory(bytes);
    void* data = map_exact(bytes);
    if (!data) out_of_memory(bytes);
    Block* block = new Block;
    block->data = data;
    block->requested = bytes;
    block->size = (bytes + rounding - 1) / rounding * rounding;
    block->stream = stream;
    stats_.reserved += block->size;
    stats_.segments++;
    stats_.maps++;
    raise_peak(stats_.reserved, stats_.reserved_peak);
    count_block(stats_, *block);
    return block;
}

void CachingAllocator::free_exact(Block* block) {
    std::lock_guard lock(mutex_);
    stats_.frees++;
    stats_.blocks--;
    stats_.segments--;
    stats_.unmaps++;
    stats_.reserved -= block->size;
    stats_.allocated -= block->requested;
    stats_.active -= block->size;
    unmap_exact(block->data, block->requested);
    delete block;
}

Block* CachingAllocator::allocate(size_t bytes, int stream) {
    if (raw_.exact() && exact_blocks()) return allocate_exact(bytes, stream);
    size_t size = bytes ? (bytes + rounding - 1) / rounding * rounding : rounding;
    std::lock_guard lock(mutex_);
    Arena& p = arena(stream);
    Block* block = nullptr;
    if (size <= bin_limit) {
        auto& bin = p.bins[size / rounding];
        if (!bin.empty()) {
            block = bin.back();
            bin.pop_back();
            block->binned = false;
        }
    }
    if (!block) block = find(p, size);
    if (!block) block = grow(p, size, stream, bytes);
    block->used = true;
    block->requested = bytes;
    count_block(stats_, *block);
    return block;
}

void CachingAllocator::free(Block* block) {
    if (raw_.exact() && exact_blocks()) return free_exact(block);
    std::lock_guard lock(mutex_);
    stats_.frees++;
    stats_.blocks--;
    stats_.allocated -= block->requested;
    stats_.active -= block->size;
    block->used = false;
    Arena& p = arena(block->stream);
    if (block->size <= bin_limit) {
        auto& bin = p.bins[block->size / rounding];
        if (bin.size() * block->size < bin_bytes) {
            block->binned = true;
            bin.push_back(block);
            return;
        }
    }
    put_back(p, block);
}

Block* CachingAllocator::find(Arena& p, size_t size) {
    bool small = size <= small_limit;
    auto& free_blocks = small ? p.small : p.large;
    Block key;
    key.size = size;
    auto it = free_blocks.lower_bound(&key);
    if (it == free_blocks.end()) return nullptr;
    Block* block = *it;
    // A medium request must not take a huge cached block that its owner will want again next step.
    if (!small && block->size >= 2 * size + middle_segment) return nullptr;
    free_blocks.erase(it);
    return split(p, block, size);
}

Block* CachingAllocator::split(Arena& p, Block* block, size_t size) {
    size_t rest = block->size - size;
    if (rest < (size <= small_limit ? rounding : small_limit)) return block;
    Block* tail = new Block;
    tail->data = static_cast<char*>(block->data) + size;
    tail->size = rest;
    tail->stream = block->stream;
    tail->prev = block;
    tail->next = block->next;
    tail->small = block->small;
    if (block->next) block->next->prev = tail;
    block->next = tail;
    block->size = size;
    (block->small ? p.small : p.large).insert(tail);
    return block;
}

Block* CachingAllocator::grow(Arena& p, size_t size, int stream, size_t bytes) {
    size_t segment = size <= small_limit   ? small_segment
                     : size < middle_limit ? middle_segment
                                           : (size + 2 * MB - 1) / (2 * MB) * (2 * MB);
    auto fits = [&](size_t s) {
        return s <= raw_.total() && (!stats_.cap || stats_.reserved + s <= size_t(stats_.cap));
    };
    // Note [Bound of the cache]: sizes that never recur leave blocks that cannot be used. Before more memory is
    // requested, the cache is emptied if it holds more than the program's peak use, so a process never holds more than
    // about twice its peak. Programs in a steady state request nothing new, and keep their cache.
    if (stats_.reserved - stats_.active > std::max(stats_.active_peak, cache_floor)) release_free_segments();
    if (!fits(segment)) {
        release_free_segments();
        stats_.retries++;
        if (!fits(segment)) segment = size;  // near the cap, request exactly what is needed
        if (!fits(segment)) out_of_memory(bytes);
    }
    void* data = raw_.map(segment);
    if (!data) {
        stats_.retries++;
        release_free_segments();
        data = raw_.map(segment);
    }
    if (!data) out_of_memory(bytes);
    Block* block = new Block;
    block->data = data;
    block->size = segment;
    block->stream = stream;
    block->segment_start = true;
    block->small = segment <= small_segment;
    stats_.maps++;
    stats_.segments++;
    stats_.reserved += segment;
    raise_peak(stats_.segments, stats_.segments_peak);
    raise_peak(stats_.reserved, stats_.reserved_peak);
    return split(p, block, size);
}

void CachingAllocator::put_back(Arena& p, Block* block) {
    auto& free_blocks = block->small ? p.small : p.large;
    auto is_free = [](Block* b) { return b && !b->used && !b->binned; };
    if (is_free(block->prev)) {
        Block* left = block->prev;
        free_blocks.erase(left);
        left->size += block->size;
        left->next = block->next;
        if (block->next) block->next->prev = left;
        delete block;
        block = left;
    }
    if (is_free(block->next)) {
        Block* right = block->next;
        free_blocks.erase(right);
        block->size += right->size;
        block->next = right->next;
        if (right->next) right->next->prev = block;
        delete right;
    }
    free_blocks.insert(block);
}

void CachingAllocator::flush_bins(Arena& p) {
    for (auto& bin : p.bins) {
        for (Block* block : bin) {
            block->binned = false;
            put_back(p, block);
        }
        bin.clear();
    }
}

size_t CachingAllocator::release_free_segments() {
    size_t released = 0;
    for (auto& [stream, p] : arenas_) {
        flush_bins(*p);
        for (auto* free_blocks : {&p->small, &p->large}) {
            for (auto it = free_blocks->begin(); it != free_blocks->end();) {
                Block* block = *it;
                if (block->segment_start && !block->next) {
                    it = free_blocks->erase(it);
                    raw_.unmap(block->data, block->size);
                    stats_.unmaps++;
                    stats_.segments--;
                    stats_.reserved -= block->size;
                    released += block->size;
                    delete block;
                } else {
                    ++it;
                }
            }
        }
    }
    return released;
}

size_t CachingAllocator::empty_cache() {
    std::lock_guard lock(mutex_);
    return release_free_segments();
}

void CachingAllocator::set_cap(size_t bytes) {
    std::lock_guard lock(mutex_);
    stats_.cap = static_cast<int64_t>(bytes);
    if (bytes && stats_.reserved > stats_.cap) release_free_segments();
}

MemoryStats CachingAllocator::stats() {
    std::lock_guard lock(mutex_);
    MemoryStats s = stats_;
    s.cached = s.reserved - s.active;
    return s;
}

void CachingAllocator::reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.allocated_peak = stats_.allocated;
    stats_.active_peak = stats_.active;
    stats_.reserved_peak = stats_.reserved;
    stats_.segments_peak = stats_.segments;
    stats_.blocks_peak = stats_.blocks;
}

void CachingAllocator::out_of_memory(size_t bytes) {
    stats_.ooms++;
    MemoryStats s = stats_;
    s.cached = s.reserved - s.active;
    fail(ErrorKind::Memory, "out of memory: asked for ", human(static_cast<int64_t>(bytes)), " (", bytes,
         " bytes), held ", human(s.allocated), ", cached ", human(s.cached),
         "; free tensors, raise the cap with set_memory_cap(), or use smaller batches\n",
         memory_table(s, raw_.name(), raw_.total()));
}

}  // namespace fb
