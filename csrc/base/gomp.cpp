// oneDNN comes as a library that asks an OpenMP runtime for its threads. These are the functions it asks (GOMP_parallel
// when a newer compiler has built it, GOMP_parallel_start and GOMP_parallel_end when an older one has); as this
// library is searched before the runtime, it finds them here and computes on our workers. With threads of its own the
// two kinds would wait for each other's CPUs: the runtime's spin for milliseconds after every use.
#include "base/parallel.h"
#include "base/pool.h"

#define FB_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Regions this thread has entered inside of another: each is a team of one.
thread_local int nested = 0;

struct Loop {
    long start, count, step, chunk, next;
};
thread_local Loop loop;

fb::pool::Place place() { return nested ? fb::pool::Place{} : fb::pool::place(); }

}  // namespace

FB_EXPORT int omp_get_max_threads() { return fb::num_threads(); }
FB_EXPORT int omp_get_num_threads() { return place().size; }
FB_EXPORT int omp_get_thread_num() { return place().rank; }
FB_EXPORT int omp_in_parallel() { return fb::pool::inside(); }

FB_EXPORT void GOMP_parallel_start(void (*body)(void*), void* data, unsigned threads) {
    int size = threads ? static_cast<int>(threads) : fb::num_threads();
    if (nested || size == 1 || fb::pool::inside()) nested++;
    else fb::pool::enter(size, body, data);
}
FB_EXPORT void GOMP_parallel_end() {
    if (nested) nested--;
    else fb::pool::leave();
}
FB_EXPORT void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned) {
    GOMP_parallel_start(body, data, threads);
    try {
        body(data);
    } catch (...) {
        fb::pool::keep_team_error();
    }
    GOMP_parallel_end();
}
FB_EXPORT void GOMP_barrier() {
    if (!nested) fb::pool::barrier();
}

// for (i = start; i < end; i += step) with schedule(static) or, where chunk is given, schedule(static, chunk).
FB_EXPORT bool GOMP_loop_static_next(long* begin, long* end) {
    auto [rank, size] = place();
    long first, last;
    if (loop.chunk == 0) {
        if (loop.next++ > 0) return false;
        first = loop.count * rank / size, last = loop.count * (rank + 1) / size;
    } else {
        first = (loop.next++ * size + rank) * loop.chunk, last = std::min(first + loop.chunk, loop.count);
    }
    if (first >= last) return false;
    *begin = loop.start + first * loop.step;
    *end = loop.start + last * loop.step;
    return true;
}
FB_EXPORT bool GOMP_loop_static_start(long start, long end, long step, long chunk, long* first, long* last) {
    long span = step > 0 ? end - start + step - 1 : start - end - step - 1, size = step > 0 ? step : -step;
    loop = {start, span > 0 ? span / size : 0, step, chunk, 0};
    return GOMP_loop_static_next(first, last);
}
FB_EXPORT void GOMP_loop_end_nowait() {}
