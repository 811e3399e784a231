// Large float products: panels of b packed for vector loads, rows of a for broadcasts, a register block of up to 14 × 2
// vectors between them. Each element is summed along k in blocks that depend only on k, not on the number of threads.
#pragma GCC optimize("fp-contract=fast")
#include <utility>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pack.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// depth of a panel. Without AVX-512 a panel of b fits the first-level cache; with it, reading panels from the second
// level is fast enough, and longer sums mean fewer passes over c.
#ifdef __AVX512F__
constexpr int vector_bytes = 64, tall = 14;
constexpr int64_t depth = 512;
#else
constexpr int vector_bytes = 32, tall = 6;
constexpr int64_t depth = 256;
#endif
constexpr int64_t panels_bytes = 1024 * 1024;  // packed panels of b, for the second level

struct Line {
    alignas(vector_bytes) char bytes[vector_bytes];
};
template <class T>
T* buffer(std::vector<Line>& lines, int64_t elements) {
    size_t wanted = (static_cast<size_t>(elements) * sizeof(T) + vector_bytes - 1) / vector_bytes;
    if (lines.size() < wanted) lines.resize(wanted);
    return reinterpret_cast<T*>(lines.data());
}

template <class T>
struct Lanes {
    typedef T type __attribute__((vector_size(vector_bytes), may_alias));
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int64_t width = vector_bytes / sizeof(T), wide = 2 * width;
    // Distance of packed rows of a; not a power of two, or they would evict each other from the cache.
    static constexpr int64_t row = depth + 64 / sizeof(T);
};

// The final step: c = alpha * sums + beta * c, or, with a bias, c = sums + bias.
template <class T>
struct Store {
    T alpha, beta;
    const T* bias = nullptr;  // of the current columns
};

// Rounded after every operation: otherwise the compiler would choose which product to fuse, with different results for
// whole and partial tiles.
template <class T>
__attribute__((noinline, optimize("fp-contract=off"))) void finish(typename Lanes<T>::type& sum, Store<T> store,
                                                                   const typename Lanes<T>::type& old) {
    sum = store.alpha * sum + store.beta * old;
}
template <class T>
__attribute__((noinline, optimize("fp-contract=off"))) T finish_one(T sum, Store<T> store, T old) {
    return store.alpha * sum + store.beta * old;
}

// sum += rows of a times a panel of b, k deep. Element p of row r of a is a[p + r * a_step], or a[p * a_step + r] if
// transposed.
template <bool Transposed, class T, int rows, int Wide>
__attribute__((always_inline)) inline void add_products(typename Lanes<T>::type (&sum)[rows][Wide], int64_t k,
                                                        const T* __restrict a, const T* __restrict b, int64_t a_step) {
    using V = typename Lanes<T>::type;
    constexpr int64_t width = Lanes<T>::width;
    // Four rows share an address, the others are at multiples of the step from it: all addresses fit the registers.
    const T* at[(rows + 3) / 4];
#pragma GCC unroll 4
    for (int i = 0; i < (rows + 3) / 4; i++) at[i] = a + 4 * i * (Transposed ? 1 : a_step);
#pragma GCC unroll 1
    for (int64_t p = 0; p < k; p++) {
        V line[Wide];
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) line[v] = *reinterpret_cast<const V*>(b + (p * Wide + v) * width);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            T x = Transposed ? a[r] : at[r / 4][r % 4 * a_step];
#pragma GCC unroll 2
            for (int v = 0; v < Wide; v++) sum[r][v] += x * line[v];
        }
        if constexpr (Transposed) {
            a += a_step;
        } else {
#pragma GCC unroll 4
            for (auto& row : at) row++;
        }
    }
}

template <class T, int rows, int Wide>
__attribute__((always_inline)) inline void expect_block(T* c, int64_t c_row) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) __builtin_prefetch(c + r * c_row + v * Lanes<T>::width, 1);
    }
}

template <class T, int rows, int Wide>
__attribute__((always_inline)) inline void store_block(typename Lanes<T>::type (&sum)[rows][Wide], T* c, int64_t c_row,
                                                       const Store<T>& store) {
    using V = typename Lanes<T>::type;
    using Loose = typename Lanes<T>::loose;
    constexpr int64_t width = Lanes<T>::width;
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < Wide; v++) {
            Loose* at = reinterpret_cast<Loose*>(c + r * c_row + v * width);
            V value = sum[r][v];
            if (store.bias) {
                value += *reinterpret_cast<const Loose*>(store.bias + v * width);
            } else if (store.alpha != T(1) || (store.beta != T(0) && store.beta != T(1))) {
                V old = {};
                if (store.beta != T(0)) old = *at;
                finish<T>(value, store, old);
            } else if (store.beta == T(1)) {
                value += *at;
            }
            *at = value;
        }
    }
}

template <class T, int rows, int Wide, bool Transposed = false>
void kernel(int64_t k, const T* __restrict a, const T* __restrict b, T* c, int64_t c_row, Store<T> store,
            int64_t a_step) {
    typename Lanes<T>::type sum[rows][Wide] = {};
    expect_block<T, rows, Wide>(c, c_row);
    add_products<Transposed>(sum, k, a, b, a_step);
    store_block(sum, c, c_row, store);
}

// The left factor is split into pieces along k.
template <class T, int rows, int Wide>
void kernel_of_pieces(const PiecedTile<T>& g, Store<T> store) {
    typename Lanes<T>::type sum[rows][Wide] = {};
    expect_block<T, rows, Wide>(g.c, g.c_row);
    for (const LeftPiece<T>* piece = g.first; piece < g.last; piece++)
        add_products<false>(sum, piece->k, piece->a, g.b + piece->at * Wide * Lanes<T>::width, piece->a_step);
    store_block(sum, g.c, g.c_row, store);
}
template <class T>
using KernelOfPieces = void (*)(const PiecedTile<T>&, Store<T>);
template <class T, int Wide, size_t... i>
KernelOfPieces<T> pick_of_pieces(int64_t rows, std::index_sequence<i...>) {
    static constexpr KernelOfPieces<T> table[] = {kernel_of_pieces<T, i + 1, Wide>...};
    return table[rows - 1];
}

template <class T>
using Kernel = void (*)(int64_t, const T*, const T*, T*, int64_t, Store<T>, int64_t);
template <class T, int Wide, bool Transposed = false, size_t... i>
Kernel<T> pick(int64_t rows, std::index_sequence<i...>) {
    static constexpr Kernel<T> table[] = {kernel<T, i + 1, Wide, Transposed>...};
    return table[rows - 1];
}

template <class T>
struct Packed {
    int64_t m, n, k;
    const T* a;
    int64_t a_row, a_col;
    const T* b;
    int64_t b_row, b_col;
    T* c;
    int64_t c_row;
    T alpha, beta;
    const T* bias = nullptr;    // added to every row; alpha is then 1 and beta 0
    const T* packed = nullptr;  // all panels of b, if packed before

    static constexpr int64_t left_wide = (tall + 7) / 8 * 8;  // of packed columns of a
    static constexpr int64_t wide = Lanes<T>::wide, width = Lanes<T>::width, row = Lanes<T>::row;

    // Columns of b packed at a time.
    static constexpr int64_t columns_packed = panels_bytes / static_cast<int64_t>(sizeof(T)) / depth / wide * wide;

    // Packs columns [first, last) of rows p … p + depth of b as panels; a narrow last panel is one vector wide.
    void pack_b(T* to, int64_t first, int64_t last, int64_t p, int64_t height) const {
        if (b_col == 1) {  // row by row, as stored
            int64_t whole = (last - first) / wide;
            for (int64_t i = 0; i < height; i++) {
                const T* from = b + (p + i) * b_row + first;
                for (int64_t q = 0; q < whole; q++)
                    std::memcpy(to + (q * height + i) * wide, from + q * wide, wide * sizeof(T));
            }
            to += whole * wide * height;
            first += whole * wide;
        }
        for (int64_t j = first; j < last; j += wide, to += wide * height) {
            int64_t cols = std::min(wide, n - j), across = cols <= width ? width : wide;
            pack_rows(to, across, b + p * b_row + j * b_col, b_row, b_col, height, cols);
            for (int64_t i = 0; cols < across && i < height; i++)
                std::fill(to + i * across + cols, to + (i + 1) * across, T(0));
        }
    }

    // Splits the sum along k into blocks of about the same depth, as many as a panel's depth requires.
    int64_t block() const {
        int64_t blocks = (k + depth - 1) / depth;
        return (k + blocks - 1) / blocks;
    }

    // All of b: panels of the first block of rows, then of the next.
    int64_t packed_columns() const { return (n + wide - 1) / wide * wide; }
    void pack_all(T* to) const {
        for (int64_t p = 0; p < k; p += block()) pack_b(to + p * packed_columns(), 0, n, p, std::min(block(), k - p));
    }

    // Register blocks of rows of a: in place, unless rows at that distance evict each other from the cache; packed; or
    // packed as columns if these are contiguous.
    enum class Side { there, rows, columns };
    Side side() const {
        if (a_row == 1 && a_col != 1) return Side::columns;
        return a_col == 1 && a_row * static_cast<int64_t>(sizeof(T)) % 4096 != 0 ? Side::there : Side::rows;
    }

    // Packs `rows` rows from i on as columns.
    void pack_columns(T* to, int64_t i, int64_t rows, int64_t p, int64_t height) const {
        for (int64_t q = 0; q < height; q++) {
            const T* from = a + i + (p + q) * a_col;
            if (i + left_wide <= m) std::memcpy(to + q * left_wide, from, left_wide * sizeof(T));
            else std::memcpy(to + q * left_wide, from, rows * sizeof(T));
        }
    }

    // Prefetches `part` of `parts` of the rows needed next into the second-level cache.
    void expect(int64_t i, int64_t rows, int64_t p, int64_t height, int64_t part, int64_t parts) const {
        constexpr int64_t line = 64 / sizeof(T);
        const T* from = a + i * a_row + p * a_col;
        if (a_col == 1) {
            for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; r++) {
                for (int64_t q = 0; q < height; q += line) __builtin_prefetch(from + r * a_row + q, 0, 2);
            }
        } else if (a_row == 1) {
            for (int64_t q = height * part / parts; q < height * (part + 1) / parts; q++) {
                for (int64_t r = 0; r < rows; r += line) __builtin_prefetch(from + q * a_col + r, 0, 2);
            }
        }
    }

    // Writes one sum to column j.
    static void put(T& at, T sum, const Store<T>& store, int64_t j) {
        if (store.bias) at = sum + store.bias[j];
        else if (store.alpha == T(1) && store.beta == T(0)) at = sum;
        else if (store.alpha == T(1) && store.beta == T(1)) at += sum;
        else at = finish_one(sum, store, store.beta == T(0) ? T(0) : at);
    }

    void tile(int64_t rows, int64_t height, const T* left, int64_t step, bool transposed, const T* panel, T* to,
              int64_t cols, Store<T> store) const {
        constexpr auto heights = std::make_index_sequence<tall>();
        bool narrow = cols <= width;
        Kernel<T> tile_kernel = transposed
                                    ? (narrow ? pick<T, 1, true>(rows, heights) : pick<T, 2, true>(rows, heights))
                                    : (narrow ? pick<T, 1>(rows, heights) : pick<T, 2>(rows, heights));
        if (cols == (narrow ? width : wide)) return tile_kernel(height, left, panel, to, c_row, store, step);
        // Past the edge of c: computed in a spare tile first.
        alignas(vector_bytes) T spare[tall * wide];
        int64_t across = narrow ? width : wide;
        tile_kernel(height, left, panel, spare, across, {T(1), T(0), nullptr}, step);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < cols; j++) put(to[r * c_row + j], spare[r * across + j], store, j);
    }

    // Rows [top, bottom) times the packed columns [first, last); the rows are divided evenly among register blocks. One
    // block of a stays in the first-level cache while the panels come from the second.
    void rows_times_panels(const T* panels, int64_t first, int64_t last, int64_t p, int64_t height, int64_t top,
                           int64_t bottom) const {
        thread_local std::vector<Line> lines;
        constexpr int64_t together = 6;  // blocks packed at a time, to read longer pieces of memory
        T* spare = buffer<T>(lines, together * std::max(tall * row, left_wide * depth));
        Store<T> store{alpha, p == 0 ? beta : T(1)};
        Side kind = side();
        int64_t blocks = (bottom - top + tall - 1) / tall, across = (last - first + wide - 1) / wide;
        auto start = [&](int64_t block) { return top + (bottom - top) * std::min(block, blocks) / blocks; };
        for (int64_t group = 0; group < blocks; group += together) {
            int64_t end = std::min(blocks, group + together), next = start(end), more = start(end + together) - next;
            if (kind == Side::rows)
                pack_rows(spare, row, a + start(group) * a_row + p * a_col, a_row, a_col, next - start(group), height);
            for (int64_t block = group; kind == Side::columns && block < end; block++)
                pack_columns(spare + (block - group) * left_wide * height, start(block),
                             start(block + 1) - start(block), p, height);
            for (int64_t block = group, turn = 0; block < end; block++) {
                int64_t i = start(block), rows = start(block + 1) - i;
                const T* left = kind == Side::there  ? a + i * a_row + p
                                : kind == Side::rows ? spare + (i - start(group)) * row
                                                     : spare + (block - group) * left_wide * height;
                int64_t step = kind == Side::there ? a_row : kind == Side::rows ? row : left_wide;
                for (int64_t j = first; j < last; j += wide, turn++) {
                    if (bias && p == 0) store.bias = bias + j;
                    tile(rows, height, left, step, kind == Side::columns, panels + (j - first) * height,
                         c + i * c_row + j, std::min(wide, n - j), store);
                    expect(next, more, p, height, turn, (end - group) * across);
                }
            }
        }
    }

    // Rows [top, bottom) of columns [first, last), on the calling thread.
    void part(int64_t top, int64_t bottom, int64_t first, int64_t last) const {
        thread_local std::vector<Line> lines;
        T* panels = packed ? nullptr : buffer<T>(lines, columns_packed * depth);
        for (int64_t j = first; j < last; j += columns_packed) {
            int64_t end = std::min(last, j + columns_packed);
            for (int64_t p = 0; p < k; p += block()) {
                int64_t height = std::min(block(), k - p);
                if (!packed) pack_b(panels, j, end, p, height);
                const T* from = packed ? packed + p * packed_columns() + j * height : panels;
                rows_times_panels(from, j, end, p, height, top, bottom);
            }
        }
    }

    // A small c with long sums, as in gradients of weights: the sums are split into parts, each computed by one thread.
    // Their number depends only on the shape.
    int64_t parts() const {
        bool fits = !packed && m <= 256 && n <= 256 && k >= 4096;
        return fits ? std::min<int64_t>(16, k / 2048) : 1;
    }
    void run_parts(int64_t count) const {
        bool swapped = m > n && a_row == 1 && b_col == 1;  // fewer columns of a to pack
        Tensor table = empty({count, m * n}, dtype_of<T>(), cpu_device);
        parallel_for(count, 1, [&](int64_t begin, int64_t end) {
            for (int64_t q = begin; q < end; q++) {
                int64_t first = k * q / count;
                Packed one{m,
                           n,
                           k * (q + 1) / count - first,
                           a + first * a_col,
                           a_row,
                           a_col,
                           b + first * b_row,
                           b_row,
                           b_col,
                           table.data<T>() + q * m * n,
                           n,
                           T(1),
                           T(0)};
                if (swapped) {
                    std::swap(one.m, one.n);
                    std::swap(one.a, one.b);
                    one.a_col = b_row;
                    one.b_row = a_col;
                    one.c_row = m;
                }
                one.part(0, one.m, 0, one.n);
            }
        });
        T* __restrict sums = table.data<T>();
        for (int64_t q = 1; q < count; q++) {
            const T* more = sums + q * m * n;
            for (int64_t e = 0; e < m * n; e++) sums[e] += more[e];
        }
        Store<T> store{alpha, beta, bias};
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) put(c[i * c_row + j], sums[swapped ? j * m + i : i * n + j], store, j);
    }

    // The whole product, on as many threads as pay: c is split into a grid. Each thread packs what it needs for itself,
    // which is faster than reading from another core's cache.
    void multiply() const {
        if (int64_t count = parts(); count > 1) return run_parts(count);
        int64_t work = m * n * k, threads = in_parallel_region() ? 1 : std::min<int64_t>(num_threads(), work >> 19);
        if (threads <= 1) return part(0, m, 0, n);
        constexpr int64_t packing = 8;  // cost of packing an element of a or b, in multiplications
        int64_t panels = (n + wide - 1) / wide, down = 1, across = 1, least = INT64_MAX;
        for (int64_t y = 1; y <= threads; y++) {
            int64_t x = threads / y, rows = (m + y - 1) / y, cols = (panels + x - 1) / x * wide;
            int64_t cost = rows * cols + packing * (rows + cols);
            if (cost < least) least = cost, down = y, across = x;
        }
        parallel_for(down * across, 1, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) {
                int64_t y = t / across, x = t % across;
                part(m * y / down, m * (y + 1) / down, panels * x / across * wide,
                     std::min(n, panels * (x + 1) / across * wide));
            }
        });
    }
};

template <class T>
Packed<T> typed(const OwnGemm& g, const char* packed = nullptr) {
    return {g.m,
            g.n,
            g.k,
            reinterpret_cast<const T*>(g.a),
            g.a_row,
            g.a_col,
            reinterpret_cast<const T*>(g.b),
            g.b_row,
            g.b_col,
            reinterpret_cast<T*>(g.c),
            g.c_row,
            g.alpha.to<T>(),
            g.beta.to<T>(),
            reinterpret_cast<const T*>(g.bias),
            reinterpret_cast<const T*>(packed)};
}

static_assert(panel_tall == tall && panel_bytes == 2 * vector_bytes && panel_depth == depth &&
              panel_row == Lanes<float>::row);

template <class T, bool Transposed>
void panels(const PanelProduct<T>& g, int64_t a_row, int64_t a_step) {
    constexpr auto heights = std::make_index_sequence<tall>();
    constexpr int64_t width = Lanes<T>::width, wide = Lanes<T>::wide;
    Store<T> store{1, g.add ? T(1) : T(0)};
    int64_t blocks = (g.m + tall - 1) / tall, step = g.b_step ? g.b_step : g.k * wide;
    for (int64_t j = 0; j < g.n; j += wide) {
        const T* panel = g.b + j / wide * step;
        bool narrow = g.n - j <= width;
        if (g.bias) store.bias = g.bias + j;
        for (int64_t q = 0; q < blocks; q++) {
            int64_t r = g.m * q / blocks, rows = g.m * (q + 1) / blocks - r;
            Kernel<T> tile_kernel =
                narrow ? pick<T, 1, Transposed>(rows, heights) : pick<T, 2, Transposed>(rows, heights);
            tile_kernel(g.k, g.a + r * a_row, panel, g.c + r * g.c_row + j, g.c_row, store, a_step);
        }
    }
}

}  // namespace

template <class T>
void pieced_tile(const PiecedTile<T>& g) {
    constexpr auto heights = std::make_index_sequence<tall>();
    Store<T> store{1, g.add ? T(1) : T(0), g.bias};
    (g.narrow ? pick_of_pieces<T, 1>(g.m, heights) : pick_of_pieces<T, 2>(g.m, heights))(g, store);
}
template void pieced_tile(const PiecedTile<float>& g);
template void pieced_tile(const PiecedTile<double>& g);

template <class T>
void panel_product(const PanelProduct<T>& g) {
    panels<T, false>(g, panel_pitch<T>, panel_pitch<T>);
}
template <class T>
void panel_product_transposed(const PanelProduct<T>& g, int64_t a_row) {
    panels<T, true>(g, 1, a_row);
}
template void panel_product(const PanelProduct<float>& g);
template void panel_product(const PanelProduct<double>& g);
template void panel_product_transposed(const PanelProduct<float>& g, int64_t a_row);
template void panel_product_transposed(const PanelProduct<double>& g, int64_t a_row);

void packed_gemm(const OwnGemm& g) {
    if (g.dtype == DType::F32) typed<float>(g).multiply();
    else typed<double>(g).multiply();
}

RightFactor::RightFactor(const Tensor& b) : b_(b) {
    check(b.dim() == 2 && (b.dtype() == DType::F32 || b.dtype() == DType::F64), "expected a float matrix");
    OwnGemm g = product(nullptr, 0, 0, 0, nullptr, 0, 0);
    dispatch<float, double>(b.dtype(), "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        Packed<T> all = typed<T>(g);
        panels_ = empty({all.packed_columns() * g.k + 64 / itemsize(b.dtype())}, b.dtype(), b.device());
        all.pack_all(reinterpret_cast<T*>(start()));
    });
}

char* RightFactor::start() const {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(panels_.raw()) + 63) / 64 * 64);
}

OwnGemm RightFactor::product(const char* a, int64_t m, int64_t a_row, int64_t a_col, char* c, int64_t c_row,
                             double beta) const {
    return {b_.dtype(),      m, b_.size(1), b_.size(0),  a,           a_row, a_col, b_.raw(), b_.strides()[0],
            b_.strides()[1], c, c_row,      Scalar(1.0), Scalar(beta)};
}

void RightFactor::times(const Tensor& c, const Tensor& a, double beta) const {
    check(a.dim() == 2 && c.dim() == 2 && a.size(1) == b_.size(0) && c.size(0) == a.size(0) &&
              c.size(1) == b_.size(1) && c.strides()[1] == 1 && a.dtype() == b_.dtype() && c.dtype() == b_.dtype(),
          "factors ", a.shape(), " and ", b_.shape(), " do not fit the result ", c.shape());
    OwnGemm g = product(a.raw(), a.size(0), a.strides()[0], a.strides()[1], c.raw(), c.strides()[0], beta);
    if (g.m == 0 || g.n == 0 || g.k == 0) return;
    if (b_.dtype() == DType::F32) typed<float>(g, start()).multiply();
    else typed<double>(g, start()).multiply();
}

}  // namespace fb::cpu
