// Blocks of exact size, in place of the cache: for builds and runs that look for out-of-bounds accesses.
//
// Note [Exact blocks]: the cache would hide such accesses, as blocks are rounded up and adjacent. With
// FLAMBEAU_SANITIZE (make sanitize) each block comes from malloc, which AddressSanitizer watches. With the environment
// variable FLAMBEAU_GUARD=1 (make guard) each block ends at a protected page and is protected as a whole once it is
// freed: the processor then stops even optimised code, and libraries we link to, at the first access outside.
#pragma once
#include <cstddef>

namespace fb {

// Whether blocks are exact; decided once per process.
bool exact_blocks();
const char* exact_blocks_name();  // "off", "address, undefined" or "guard pages"

// nullptr if there is no memory. Not thread safe: called with the allocator's lock held.
void* map_exact(size_t bytes);
// Aborts the process if bytes before the block were overwritten.
void unmap_exact(void* data, size_t bytes);

}  // namespace fb
