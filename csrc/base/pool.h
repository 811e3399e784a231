// The worker threads. One job at a time is cut into chunks, a run of them for each thread. A thread that is through
// with its own takes what others have not begun, and the caller waits for nobody who has not begun either: a worker
// that wakes late, because the machine is busy, costs nothing.
#pragma once
#include <cstdint>

namespace fb::pool {

// Calls body(context, i) for every i < chunks, on up to `threads` threads, the caller among them. False, and nothing
// was called, when another thread's job has the workers. An exception in any chunk reaches the caller.
bool run_chunks(int64_t chunks, int threads, void (*body)(void*, int64_t), void* context);

// Whether this thread works on a chunk.
bool inside();

// In a forked child: the workers are gone, and whatever they did with them.
void forget();

}  // namespace fb::pool
