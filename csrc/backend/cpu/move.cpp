#include "device/move.h"

#include <array>
#include <bit>
#include <cstring>

#include "backend/cpu/loops.h"
#include "backend/cpu/walk.h"
#include "base/parallel.h"

namespace fb::cpu {

template <class F>
static void dispatch_bytes(int64_t bytes, F&& f) {
    switch (bytes) {
        case 1:
            return f(TypeTag<uint8_t>{});
        case 2:
            return f(TypeTag<uint16_t>{});
        case 4:
            return f(TypeTag<uint32_t>{});
        case 8:
            return f(TypeTag<uint64_t>{});
        default:
            return f(TypeTag<c128>{});
    }
}

// Bytes from which a second thread pays: one thread copies this much in the time it can take to wake another.
constexpr int64_t copy_grain = 16 * parallel_grain;

// Pieces of bytes, each copied `count` times with its own steps: to + i * to_step ← from + i * from_step.
struct Piece {
    char* to;
    const char* from;
    int64_t bytes, to_step, from_step;
};
// Row i of `to` has one element of each source.
template <class T, size_t N>
void zip(T* __restrict to, const std::array<const T*, N>& from, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        for (size_t k = 0; k < N; k++) to[i * static_cast<int64_t>(N) + static_cast<int64_t>(k)] = from[k][i];
}
// Whether N pieces of one element fill the rows of a contiguous result; if so they are copied in one pass.
template <class T, size_t N>
bool zip_pieces(const std::vector<Piece>& pieces, int64_t count) {
    std::array<const T*, N> from;
    if (pieces.size() != N) return false;
    for (size_t k = 0; k < N; k++) {
        const Piece& p = pieces[k];
        if (p.to != pieces[0].to + k * sizeof(T) || p.to_step != sizeof(T) * N || p.from_step != sizeof(T))
            return false;
        from[k] = reinterpret_cast<const T*>(p.from);
    }
    T* to = reinterpret_cast<T*>(pieces[0].to);
    parallel_for(count, parallel_grain / static_cast<int64_t>(N),
                 [&](int64_t begin, int64_t end) { zip<T, N>(to, from, begin, end); });
    return true;
}
static void copy_pieces(const std::vector<Piece>& pieces, int64_t count) {
    if (pieces.empty()) return;
    int64_t bytes = 0, largest = 0;
    for (const Piece& p : pieces) {
        bytes += p.bytes;
        largest = std::max(largest, p.bytes);
    }
    if (count == 1) {
        // Threads take equal shares of all bytes, across pieces.
        parallel_for(bytes, copy_grain, [&](int64_t begin, int64_t end) {
            int64_t start = 0;
            for (const Piece& p : pieces) {
                int64_t low = std::max(begin - start, int64_t(0)), high = std::min(end - start, p.bytes);
                if (low < high) std::memcpy(p.to + low, p.from + low, static_cast<size_t>(high - low));
                start += p.bytes;
            }
        });
        return;
    }
    // Single elements (stack along the last dimension): strided loops in blocks that stay in the first-level cache.
    bool single = largest <= 16 && std::has_single_bit(static_cast<uint64_t>(largest));
    for (const Piece& p : pieces) single &= p.bytes == largest;
    if (single) {
        dispatch_bytes(largest, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if (zip_pieces<T, 2>(pieces, count) || zip_pieces<T, 3>(pieces, count) || zip_pieces<T, 4>(pieces, count))
                return;
            parallel_for(count, std::max<int64_t>(1, parallel_grain / static_cast<int64_t>(pieces.size())),
                         [&](int64_t begin, int64_t end) {
                             for (int64_t block = begin; block < end; block += 512) {
                                 int64_t last = std::min(end, block + 512);
                                 for (const Piece& p : pieces) {
                                     for (int64_t i = block; i < last; i++) {
                                         std::memcpy(p.to + i * p.to_step, p.from + i * p.from_step, sizeof(T));
                                     }
                                 }
                             }
                         });
        });
        return;
    }
    parallel_for(count, std::max<int64_t>(1, copy_grain / std::max<int64_t>(1, bytes)),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; i++) {
                         for (const Piece& p : pieces)
                             std::memcpy(p.to + i * p.to_step, p.from + i * p.from_step, static_cast<size_t>(p.bytes));
                     }
                 });
}

template <class T>
static void reverse_run(T* __restrict to, const T* last, int64_t n) {
    // Indexed from the far end, which the compiler turns into vector shuffles.
    const T* first = last - (n - 1);
    for (int64_t i = 0; i < n; i++) to[i] = first[n - 1 - i];
}

static void copy_flipped(const Tensor& to, const Tensor& from) {
    const Tensor* operands[] = {&to, &from};
    LoopPlan plan;
    make_plan(plan, to.shape(), operands, 2);
    int64_t size = to.itemsize();
    bool backwards =
        plan.ndim > 0 && plan.numel > 0 && plan.operands[0].strides[0] == size && plan.operands[1].strides[0] == -size;
    if (!backwards) {
        copy(to, from);
        return;
    }
    dispatch_size(to.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t rows = row_count(plan), n = plan.shape[0];
        if (rows == 1) {
            T* w = reinterpret_cast<T*>(plan.operands[0].data);
            const T* r = reinterpret_cast<const T*>(plan.operands[1].data);
            parallel_for(n, parallel_grain,
                         [&](int64_t begin, int64_t end) { reverse_run(w + begin, r - begin, end - begin); });
            return;
        }
        parallel_for(rows, std::max<int64_t>(1, parallel_grain / n), [&](int64_t begin, int64_t end) {
            walk_runs(plan, begin, end, [](char** at, int64_t count) {
                reverse_run(reinterpret_cast<T*>(at[0]), reinterpret_cast<const T*>(at[1]), count);
            });
        });
    });
}

// ---- repeat ---------------------------------------------------------------------------------------------------------

namespace {

// data[0, unit) is filled: repeats it until there are `times` copies, doubling the amount copied.
void replicate(char* data, int64_t unit, int64_t times) {
    int64_t done = unit, total = unit * times;
    while (done < total) {
        // Blocks stay inside the second-level cache.
        int64_t step = std::min({done, total - done, std::max<int64_t>(unit, (int64_t(1) << 18) / unit * unit)});
        std::memcpy(data + done, data, static_cast<size_t>(step));
        done += step;
    }
}

struct Repeater {
    const Dims &shape, &repeats;
    Dims from_step, to_step;  // bytes of one index of each dimension, before its repetition

    void fill(int64_t d, char* to, const char* from, int64_t first, int64_t last) const {
        if (d == shape.size() - 1) {
            std::memcpy(to + first * to_step[d], from + first * from_step[d],
                        static_cast<size_t>((last - first) * from_step[d]));
            return;
        }
        for (int64_t i = first; i < last; i++) whole(d + 1, to + i * to_step[d], from + i * from_step[d]);
    }
    void whole(int64_t d, char* to, const char* from) const {
        fill(d, to, from, 0, shape[d]);
        replicate(to, shape[d] * to_step[d], repeats[d]);
    }
};

}  // namespace

static void repeat(const Tensor& to, const Tensor& from, const Dims& repeats) {
    if (to.numel() == 0) return;
    int64_t n = from.dim();
    if (n == 0) {
        std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.itemsize()));
        return;
    }
    Repeater r{from.shape(), repeats, Dims(n), Dims(n)};
    int64_t from_bytes = from.itemsize(), to_bytes = from.itemsize();
    for (int64_t d = n - 1; d >= 0; d--) {
        r.from_step[d] = from_bytes;
        r.to_step[d] = to_bytes;
        from_bytes *= from.shape()[d];
        to_bytes *= to.shape()[d];
    }
    // The first dimension with more than one index is split among the threads; those before it have size 1.
    int64_t lead = 0;
    int64_t outer = 1;
    while (lead < n - 1 && from.shape()[lead] == 1) outer *= repeats[lead++];
    constexpr int64_t piece = 1 << 16;  // bytes that stay in a thread's cache while they are copied again
    char* w = to.raw();
    int64_t step = r.to_step[lead], unit = from.shape()[lead] * step, times = outer * repeats[lead];
    if (unit >= 4 * piece) {
        int64_t some = std::max<int64_t>(1, piece / step);
        parallel_for(from.shape()[lead], some, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i += some) {
                int64_t last = std::min(end, i + some);
                r.fill(lead, w, from.raw(), i, last);
                for (int64_t t = 1; t < times; t++)
                    std::memcpy(w + t * unit + i * step, w + i * step, static_cast<size_t>((last - i) * step));
            }
        });
        return;
    }
    r.fill(lead, w, from.raw(), 0, from.shape()[lead]);
    int64_t few = std::min(times, (piece + unit - 1) / unit), block = few * unit;
    replicate(w, unit, few);
    parallel_for((times - 1) / few, std::max<int64_t>(1, 4 * parallel_grain / block), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin + 1; i <= end; i++)
            std::memcpy(w + i * block, w, static_cast<size_t>(std::min(block, unit * times - i * block)));
    });
}

static void interleave(const Tensor& to, const Tensor& from, int64_t block, int64_t times) {
    if (to.numel() == 0) return;
    int64_t blocks = from.numel() / block;
    dispatch_size(from.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        parallel_for(blocks, std::max<int64_t>(1, parallel_grain / (block * times)), [&](int64_t begin, int64_t end) {
            const T* r = from.data<T>() + begin * block;
            T* w = to.data<T>() + begin * block * times;
            for (int64_t i = begin; i < end; i++, r += block) {
                if (block == 1) {
                    w = std::fill_n(w, times, *r);
                    continue;
                }
                for (int64_t k = 0; k < times; k++, w += block)
                    std::memcpy(w, r, static_cast<size_t>(block) * sizeof(T));
            }
        });
    });
}

// ---- triangles ------------------------------------------------------------------------------------------------------

static void keep_triangle(const Tensor& to, const Tensor& from, int64_t diagonal, bool upper) {
    if (to.numel() == 0) return;
    int64_t rows = to.shape()[1], columns = to.shape()[2], size = to.itemsize(), total = to.shape()[0] * rows;
    char* w = to.raw();
    const char* r = from.raw();
    diagonal = std::clamp(diagonal, -rows - 1, columns + 1);
    parallel_for(total, std::max<int64_t>(1, parallel_grain / columns), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            // Columns before `edge` are below the wanted diagonal (upper) or not above it (lower).
            int64_t edge = std::clamp<int64_t>(i % rows + diagonal + (upper ? 0 : 1), 0, columns);
            char* row = w + i * columns * size;
            const char* source = r + i * columns * size;
            int64_t keep_from = upper ? edge : 0, keep_to = upper ? columns : edge;
            if (row != source)
                std::memcpy(row + keep_from * size, source + keep_from * size,
                            static_cast<size_t>((keep_to - keep_from) * size));
            if (upper) std::memset(row, 0, static_cast<size_t>(edge * size));
            else std::memset(row + edge * size, 0, static_cast<size_t>((columns - edge) * size));
        }
    });
}

static void join(const Tensor& to, const std::vector<device::Part>& parts, int64_t dim) {
    int64_t outer = 1, inner = to.itemsize();
    for (int64_t d = 0; d < dim; d++) outer *= to.shape()[d];
    for (int64_t d = dim + 1; d < to.dim(); d++) inner *= to.shape()[d];
    int64_t row = inner * to.shape()[dim];
    std::vector<Piece> pieces;
    for (const device::Part& part : parts) {
        int64_t bytes = part.tensor->shape()[dim] * inner;
        pieces.push_back({to.raw() + part.start * inner, part.tensor->raw(), bytes, row, bytes});
    }
    copy_pieces(pieces, outer);
}

static void fill(const Tensor& to, const char* element) {
    dispatch_size(to.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        T x;
        std::memcpy(&x, element, sizeof(T));
        T* data = to.data<T>();
        parallel_for(to.numel(), 2 * parallel_grain,
                     [&](int64_t begin, int64_t end) { std::fill(data + begin, data + end, x); });
    });
}

static void write(const Tensor& to, const void* from) {
    std::memcpy(to.raw(), from, static_cast<size_t>(to.numel() * to.itemsize()));
}

static const device::Provide<device::Moving> provided(DeviceType::CPU, {.copy = copy,
                                                                        .fill = fill,
                                                                        .write = write,
                                                                        .copy_flipped = copy_flipped,
                                                                        .repeat = repeat,
                                                                        .interleave = interleave,
                                                                        .keep_triangle = keep_triangle,
                                                                        .join = join});

}  // namespace fb::cpu
