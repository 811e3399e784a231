// Products of integers and of bool: a register block of rows × vectors over a packed panel of b.
#include <cstring>
#include <vector>

#include "backend/cpu/gemm.h"

namespace fb::cpu {
namespace {

#ifdef __AVX512F__
constexpr int vector_bytes = 64, tall = 8;
#else
constexpr int vector_bytes = 32, tall = 4;
#endif
constexpr int64_t panel_depth = 256, panel_row_bytes = 1024;

struct Line {
    alignas(vector_bytes) char bytes[vector_bytes];
};

template <class T>
struct Lanes {
    typedef T type __attribute__((vector_size(vector_bytes), may_alias));
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int64_t width = vector_bytes / sizeof(T);
};

// Ordinary sums of products, and the "or" of "and"s for bool.
struct Arithmetic {
    static constexpr bool plain_elements = true;
    template <class V, class T>
    static void step(V& sum, T a, const V& b) {
        sum += a * b;
    }
    template <class V, class T>
    static V finish(const V& sum, T alpha, const V& c, T beta) {
        return alpha * sum + beta * c;
    }
};
struct Logic {
    static constexpr bool plain_elements = false;  // any byte but 0 is true: see Note [Bytes of bools]
    template <class V, class T>
    static void step(V& sum, T a, const V& b) {
        sum |= a & b;
    }
    template <class V, class T>
    static V finish(const V& sum, T alpha, const V& c, T beta) {
        return (alpha & sum) | (beta & V(c != 0));
    }
};

template <class Ops, class T>
inline T element(T x) {
    if constexpr (Ops::plain_elements) return x;
    else return x != 0;
}

template <class T>
struct Block {
    int64_t n, k;
    const T* a;
    int64_t a_row, a_col;
    const T* panel;
    int64_t panel_row;
    T* c;
    int64_t c_row;
    T alpha, beta;
    bool plain;  // alpha = 1, beta = 0
};

// `rows` rows of c, all columns of the panel, `Wide` vectors at a time.
template <class T, class Ops, int rows, int Wide>
void row_block(const Block<T>& g) {
    using V = typename Lanes<T>::type;
    using Loose = typename Lanes<T>::loose;
    constexpr int64_t width = Lanes<T>::width;
    for (int64_t j = 0; j < g.n; j += Wide * width) {
        V sum[rows][Wide] = {};
        const T* b = g.panel + j;
        for (int64_t p = 0; p < g.k; p++, b += g.panel_row) {
            V line[Wide];
            for (int v = 0; v < Wide; v++) line[v] = *reinterpret_cast<const V*>(b + v * width);
            for (int r = 0; r < rows; r++) {
                T x = element<Ops>(g.a[r * g.a_row + p * g.a_col]);
                for (int v = 0; v < Wide; v++) Ops::step(sum[r][v], x, line[v]);
            }
        }
        for (int r = 0; r < rows; r++) {
            for (int v = 0; v < Wide; v++) {
                int64_t left = g.n - j - v * width;
                if (left <= 0) break;
                T* at = g.c + r * g.c_row + j + v * width;
                V value = sum[r][v];
                if (left >= width) {
                    if (!g.plain)
                        value = Ops::finish(value, g.alpha, g.beta ? V(*reinterpret_cast<Loose*>(at)) : V{}, g.beta);
                    *reinterpret_cast<Loose*>(at) = value;
                } else {
                    V old = {};
                    if (!g.plain && g.beta) std::memcpy(&old, at, left * sizeof(T));
                    if (!g.plain) value = Ops::finish(value, g.alpha, old, g.beta);
                    std::memcpy(at, &value, left * sizeof(T));
                }
            }
        }
    }
}

template <class T, class Ops, int Wide>
void all_rows(Block<T> g, int64_t m) {
    auto advance = [&](int64_t rows) {
        m -= rows;
        g.a += rows * g.a_row;
        g.c += rows * g.c_row;
    };
    for (; m >= tall; advance(tall)) row_block<T, Ops, tall, Wide>(g);
    if constexpr (tall > 4) {
        for (; m >= 4; advance(4)) row_block<T, Ops, 4, Wide>(g);
    }
    for (; m >= 2; advance(2)) row_block<T, Ops, 2, Wide>(g);
    if (m) row_block<T, Ops, 1, Wide>(g);
}

template <class Ops, class T>
void pack(T* panel, int64_t panel_row, const T* b, int64_t b_row, int64_t b_col, int64_t k, int64_t n) {
    for (int64_t p = 0; p < k; p++) {
        T* to = panel + p * panel_row;
        const T* from = b + p * b_row;
        if (Ops::plain_elements && b_col == 1) std::memcpy(to, from, n * sizeof(T));
        else {
            for (int64_t j = 0; j < n; j++) to[j] = element<Ops>(from[j * b_col]);
        }
        for (int64_t j = n; j < panel_row; j++) to[j] = 0;
    }
}

template <class T, class Ops>
void multiply_block(const OwnGemm& g, T alpha, T beta) {
    constexpr int64_t width = Lanes<T>::width, most = panel_row_bytes / sizeof(T);
    const T* b = reinterpret_cast<const T*>(g.b);
    alignas(vector_bytes) T small[4096 / sizeof(T)];
    thread_local std::vector<Line> large;
    for (int64_t j = 0; j < g.n; j += most) {
        int64_t n = std::min(most, g.n - j);
        int64_t step = n <= width ? width : 2 * width, row = (n + step - 1) / step * step;
        for (int64_t p = 0; p < g.k; p += panel_depth) {
            int64_t k = std::min(panel_depth, g.k - p);
            T* panel = small;
            if (k * row > int64_t(sizeof small / sizeof(T))) {
                large.resize(panel_depth * panel_row_bytes / vector_bytes);
                panel = reinterpret_cast<T*>(large.data());
            }
            pack<Ops>(panel, row, b + p * g.b_row + j * g.b_col, g.b_row, g.b_col, k, n);
            T keep = p == 0 ? beta : T(1);
            Block<T> block{n,
                           k,
                           reinterpret_cast<const T*>(g.a) + p * g.a_col,
                           g.a_row,
                           g.a_col,
                           panel,
                           row,
                           reinterpret_cast<T*>(g.c) + j,
                           g.c_row,
                           alpha,
                           keep,
                           alpha == T(1) && keep == T(0)};
            if (n <= width) all_rows<T, Ops, 1>(block, g.m);
            else all_rows<T, Ops, 2>(block, g.m);
        }
    }
}

// Wrapping products have the same bits for signed and unsigned integers.
template <class T>
void run_integer(const OwnGemm& g) {
    multiply_block<T, Arithmetic>(g, static_cast<T>(g.alpha.to<int64_t>()), static_cast<T>(g.beta.to<int64_t>()));
}

}  // namespace

void own_gemm(const OwnGemm& g) {
    switch (g.dtype) {
        case DType::Bool:
            return multiply_block<uint8_t, Logic>(g, g.alpha.to<bool>(), g.beta.to<bool>());
        case DType::U8:
        case DType::I8:
            return run_integer<uint8_t>(g);
        case DType::U16:
        case DType::I16:
            return run_integer<uint16_t>(g);
        case DType::U32:
        case DType::I32:
            return run_integer<uint32_t>(g);
        case DType::U64:
        case DType::I64:
            return run_integer<uint64_t>(g);
        default:
            fail_dtype(g.dtype, "an integer dtype or bool");
    }
}

}  // namespace fb::cpu
