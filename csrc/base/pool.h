// The worker threads. One job at a time is cut into chunks, a run of them for each thread. A thread that is through
// with its own takes what others have not begun, and the caller waits for nobody who has not begun either: a worker
// that wakes late, because the machine is busy, costs nothing.
#pragma once
#include <cstdint>

namespace fb::pool {

// Calls body(context, i) for every i < chunks, on up to `threads` threads, the caller among them. False, and nothing
// was called, when another thread's job has the workers. An exception in any chunk reaches the caller.
bool run_chunks(int64_t chunks, int threads, void (*body)(void*, int64_t), void* context);

// A team, for code with barriers inside: rank 1 … size - 1 each on a worker of its own at once, rank 0 is what the
// caller does until leave(). Waits while another job has the workers.
// An exception of any member is kept, as the library that asks for the team cannot pass one on: rethrow_team_error() is
// for the one who called that library.
void enter(int size, void (*body)(void*), void* context);
void leave();
void barrier();
void keep_team_error();  // the exception in flight
void rethrow_team_error();

// The team this thread is in: {0, 1} where it is alone.
struct Place {
    int rank = 0, size = 1;
};
Place place();
// Whether this thread works on a chunk or in a team.
bool inside();

// In a forked child: the workers are gone, and whatever they did with them.
void forget();

}  // namespace fb::pool
