// Kernels over masks. A mask is first counted in fixed blocks, so that every block knows the offset of its results and
// blocks can run on any thread.
#include <cstring>

#include "backend/cpu/index.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/walk.h"
#include "base/bool.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t mask_block = 16384;

int64_t count_bytes(const Bool* mask, int64_t n) {
    int64_t total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) total += mask[i];
    return total;
}

// Result position of the first selected element of each block; the last entry is the total.
std::vector<int64_t> block_starts(const Tensor& mask) {
    int64_t n = mask.numel(), blocks = (n + mask_block - 1) / mask_block;
    std::vector<int64_t> starts(static_cast<size_t>(blocks) + 1, 0);
    const Bool* m = mask.data<Bool>();
    parallel_for(blocks, 16, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; b++)
            starts[b + 1] = count_bytes(m + b * mask_block, std::min(mask_block, n - b * mask_block));
    });
    for (int64_t b = 0; b < blocks; b++) starts[b + 1] += starts[b];
    return starts;
}

// Calls f(block, i, count) for pieces of at most 256 mask elements with at least one true element.
template <class F>
void each_block(int64_t n, F&& f) {
    int64_t blocks = (n + mask_block - 1) / mask_block;
    parallel_for(blocks, 2, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; b++) f(b, b * mask_block, std::min(n, (b + 1) * mask_block));
    });
}

// Positions (relative to begin) of the true elements of a piece of ≤ 256; branch-free because masks are unpredictable.
int64_t positions(const Bool* mask, int64_t n, int32_t* at) {
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        at[k] = static_cast<int32_t>(i);
        k += mask[i];
    }
    return k;
}

constexpr int64_t piece = 256;

bool all_false(const Bool* mask, int64_t n) {
    uint8_t any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = 0; i < n; i++) any |= mask[i].byte;
    return !any;
}

}  // namespace

int64_t count_true(const Tensor& mask) { return block_starts(mask).back(); }

Tensor mask_offsets(const Tensor& mask, const Dims& strides) {
    std::vector<int64_t> starts = block_starts(mask);
    Tensor result = empty({starts.back()}, DType::I64, cpu_device);
    // Trailing contiguous dimensions are one run.
    const Dims& shape = mask.shape();
    int64_t inner = mask.dim() - 1, run = shape[inner], step = strides[inner];
    while (inner > 0 && strides[inner - 1] == step * run) run *= shape[--inner];
    const Bool* m = mask.data<Bool>();
    int64_t* to = result.data<int64_t>();
    each_block(mask.numel(), [&](int64_t b, int64_t begin, int64_t end) {
        if (starts[b] == starts[b + 1]) return;
        int64_t* out = to + starts[b];
        int32_t at[piece + 1];
        for (int64_t i = begin; i < end;) {
            int64_t column = i % run, rest = i / run, base = 0;
            for (int64_t d = inner - 1; d >= 0; d--) {
                base += rest % shape[d] * strides[d];
                rest /= shape[d];
            }
            int64_t row_end = std::min(end, i - column + run);
            while (i < row_end) {
                int64_t n = std::min(piece, row_end - i);
                if (!all_false(m + i, n)) {
                    int64_t k = positions(m + i, n, at);
                    for (int64_t j = 0; j < k; j++) out[j] = base + (column + at[j]) * step;
                    out += k;
                }
                i += n;
                column += n;
            }
        }
    });
    return result;
}

Tensor mask_select(const Tensor& t, const Tensor& mask) {
    std::vector<int64_t> starts = block_starts(mask);
    Tensor result = empty({starts.back()}, t.dtype(), t.device());
    const Bool* m = mask.data<Bool>();
    dispatch_size(t.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* from = t.data<T>();
        T* to = result.data<T>();
        each_block(t.numel(), [&](int64_t b, int64_t begin, int64_t end) {
            int64_t left = starts[b + 1] - starts[b];
            T* out = to + starts[b];
            T buffer[piece + 1];
            for (int64_t i = begin; i < end && left > 0; i += piece) {
                int64_t n = std::min(piece, end - i);
                if (all_false(m + i, n)) continue;
                int64_t k = 0;
                for (int64_t j = 0; j < n; j++) {
                    buffer[k] = from[i + j];
                    k += m[i + j];
                }
                std::memcpy(out, buffer, static_cast<size_t>(k) * sizeof(T));
                out += k;
                left -= k;
            }
        });
    });
    return result;
}

Tensor mask_coordinates(const Tensor& mask) {
    std::vector<int64_t> starts = block_starts(mask);
    int64_t ndim = mask.dim(), count = starts.back();
    // One contiguous row per dimension, returned transposed: as_tuple=True and indexing use the columns.
    Tensor result = empty({ndim, count}, DType::I64, cpu_device);
    if (ndim == 0) return transpose(result, 0, 1);
    const Dims& shape = mask.shape();
    int64_t inner = shape[ndim - 1];
    const Bool* m = mask.data<Bool>();
    int64_t* to = result.data<int64_t>();
    each_block(mask.numel(), [&](int64_t b, int64_t begin, int64_t end) {
        if (starts[b] == starts[b + 1]) return;
        int64_t* out = to + starts[b];
        int32_t at[piece + 1];
        int64_t coordinates[max_dims];
        for (int64_t i = begin; i < end;) {
            int64_t column = i % inner, rest = i / inner;
            for (int64_t d = ndim - 2; d >= 0; d--) {
                coordinates[d] = rest % shape[d];
                rest /= shape[d];
            }
            int64_t row_end = std::min(end, i - column + inner);
            while (i < row_end) {
                int64_t n = std::min(piece, row_end - i);
                if (!all_false(m + i, n)) {
                    int64_t k = positions(m + i, n, at);
                    for (int64_t d = 0; d < ndim - 1; d++) std::fill_n(out + d * count, k, coordinates[d]);
                    int64_t* last = out + (ndim - 1) * count;
                    for (int64_t j = 0; j < k; j++) last[j] = column + at[j];
                    out += k;
                }
                i += n;
                column += n;
            }
        }
    });
    return transpose(result, 0, 1);
}

namespace {

template <class T>
void fill_tile(char** data, int64_t n, const void* context) {
    T* to = reinterpret_cast<T*>(data[0]);
    const T* from = reinterpret_cast<const T*>(data[1]);
    const Bool* mask = reinterpret_cast<const Bool*>(data[2]);
    T value = *static_cast<const T*>(context);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = mask[i] ? value : from[i];
}

}  // namespace

void mask_fill(const Tensor& to, const Tensor& from, const Tensor& mask, const Tensor& value) {
    const Tensor* operands[] = {&to, &from, &mask};
    LoopPlan plan;
    make_plan(plan, to.shape(), operands, 3);
    DType compute[] = {to.dtype(), to.dtype(), DType::Bool};
    dispatch_size(to.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        run_tiles(plan, compute, 1, fill_tile<T>, value.raw());
    });
}

}  // namespace fb::cpu
