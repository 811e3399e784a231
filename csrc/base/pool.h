// The worker threads. One job at a time is cut into chunks, a run of them per thread. A thread that finishes its own
// steals unstarted chunks, and the caller waits only for started ones, so a worker that wakes up late because the
// machine is busy costs nothing.
#pragma once
#include <cstdint>

namespace fb::pool {

// Calls body(context, i) for every i < chunks, on up to `threads` threads including the caller. Returns false, without
// a call, when another thread's job occupies the workers. An exception in any chunk reaches the caller.
bool run_chunks(int64_t chunks, int threads, void (*body)(void*, int64_t), void* context);

// Whether this thread is executing a chunk.
bool inside();

// Called in a forked child: the workers no longer exist, nor does their job.
void forget();

}  // namespace fb::pool
