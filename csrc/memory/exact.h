// Blocks of exact size, in place of the cache: for builds and runs that look for accesses outside a block.
//
// Note [Exact blocks]: the cache would hide such accesses, as blocks are rounded up and lie next to each other. With
// FLAMBEAU_SANITIZE (make sanitize) each block is one of malloc's, which AddressSanitizer watches. With the environment
// variable FLAMBEAU_GUARD=1 (make guard) each block ends at a protected page and is protected as a whole once it is
// freed: the processor then stops the optimised code itself, and libraries we link to, at the first access outside.
#pragma once
#include <cstddef>

namespace fb {

// Whether blocks are of this kind; decided once per process.
bool exact_blocks();
const char* exact_blocks_name();  // "off", "address, undefined" or "guard pages"

// nullptr when there is no memory. Not thread safe: the allocator's lock is held.
void* map_exact(size_t bytes);
// Stops the process when bytes before the block were written to.
void unmap_exact(void* data, size_t bytes);

}  // namespace fb
