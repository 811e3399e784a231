#include "memory/exact.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace fb {

#ifdef FLAMBEAU_SANITIZE

bool exact_blocks() { return true; }
const char* exact_blocks_name() { return "address, undefined"; }

void* map_exact(size_t bytes) {
    void* data = nullptr;
    return posix_memalign(&data, 64, std::max<size_t>(bytes, 1)) == 0 ? data : nullptr;
}
void unmap_exact(void* data, size_t) { std::free(data); }

#else

namespace {

constexpr size_t waiting_blocks = 4096, waiting_bytes = size_t(256) << 20;

struct Range {
    char* begin;
    size_t bytes;  // includes the protected page
};

// Freed blocks stay protected for a while, so that late accesses are detected.
struct Waiting {
    std::deque<Range> ranges;
    size_t bytes = 0;
};
Waiting& waiting() {
    static auto* all = new Waiting;
    return *all;
}

size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    return size;
}

Range range_of(const void* data, size_t bytes) {
    size_t page = page_size(), inside = (bytes + page - 1) / page * page;
    auto end = reinterpret_cast<uintptr_t>(data) + bytes;  // the protected page begins here
    return {reinterpret_cast<char*>(end - inside), inside + page};
}

}  // namespace

bool exact_blocks() {
    static const bool on = [] {
        const char* text = std::getenv("FLAMBEAU_GUARD");
        return text && *text && std::strcmp(text, "0") != 0;
    }();
    return on;
}
const char* exact_blocks_name() { return exact_blocks() ? "guard pages" : "off"; }

// The block ends at the protected page, whatever its size. Its address is then only as aligned as the size is, which
// suffices for the elements, and is no less than that of a view with an offset.
void* map_exact(size_t bytes) {
    size_t page = page_size(), inside = (bytes + page - 1) / page * page;
    if (inside < bytes) return nullptr;
    void* begin = mmap(nullptr, inside + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) return nullptr;
    if (inside && mprotect(begin, inside, PROT_READ | PROT_WRITE) != 0) {
        munmap(begin, inside + page);
        return nullptr;
    }
    return static_cast<char*>(begin) + (inside - bytes);
}

void unmap_exact(void* data, size_t bytes) {
    Range range = range_of(data, bytes);
    // Fresh pages are zero; the bytes before the block must still be.
    if (std::any_of(range.begin, static_cast<char*>(data), [](char c) { return c != 0; })) {
        std::fprintf(stderr, "flambeau: bytes before a block of %zu bytes were written to\n", bytes);
        std::abort();
    }
    madvise(range.begin, range.bytes, MADV_DONTNEED);
    mprotect(range.begin, range.bytes, PROT_NONE);
    Waiting& w = waiting();
    w.ranges.push_back(range);
    w.bytes += range.bytes;
    while (w.ranges.size() > waiting_blocks || (w.bytes > waiting_bytes && w.ranges.size() > 1)) {
        munmap(w.ranges.front().begin, w.ranges.front().bytes);
        w.bytes -= w.ranges.front().bytes;
        w.ranges.pop_front();
    }
}

#endif

}  // namespace fb
