// A few rows times a large matrix stored by columns, like a layer's weight for a small batch. Packing the matrix would
// cost as much as the product: here both sides are read in place along k, and vectors of partial sums are reduced at
// the end.
#pragma GCC optimize("fp-contract=fast")
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/gemm.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// tall rows of a times across columns of b, in registers.
#ifdef __AVX512F__
constexpr int vector_bytes = 64, tall = 4, across = 6;
#else
constexpr int vector_bytes = 32, tall = 2, across = 4;
#endif
constexpr int64_t depth = 4096;  // bytes of a column that stay in the first-level cache while all rows are processed

template <class T>
struct Lanes {
    typedef T type __attribute__((vector_size(vector_bytes), may_alias));
    typedef T loose __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int64_t width = vector_bytes / sizeof(T);
};

// sums[r][c] += a row r * b column c over n elements, a whole number of vectors. Prefetches what is `ahead` of the
// columns, which are too short for the hardware prefetcher.
template <class T, int rows, int columns>
void dot_products(const T* a, int64_t a_row, const T* b, int64_t b_col, int64_t n, int64_t ahead,
                  typename Lanes<T>::type* sums) {
    using V = typename Lanes<T>::type;
    using Loose = typename Lanes<T>::loose;
    V sum[rows][columns];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 6
        for (int c = 0; c < columns; c++) sum[r][c] = sums[r * across + c];
#pragma GCC unroll 1
    for (int64_t p = 0; p < n; p += Lanes<T>::width) {
        V line[columns];
#pragma GCC unroll 6
        for (int c = 0; c < columns; c++) {
            line[c] = *reinterpret_cast<const Loose*>(b + c * b_col + p);
            __builtin_prefetch(b + c * b_col + p + ahead);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            V x = *reinterpret_cast<const Loose*>(a + r * a_row + p);
#pragma GCC unroll 6
            for (int c = 0; c < columns; c++) sum[r][c] += x * line[c];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 6
        for (int c = 0; c < columns; c++) sums[r * across + c] = sum[r][c];
}

// One step of reducing the lanes of several vectors at once: the halves of every `block` lanes of x and of y are added,
// those of x into the lower half of the block and those of y into the upper one.
template <class T, int block, size_t... lane>
typename Lanes<T>::type fold(typename Lanes<T>::type x, typename Lanes<T>::type y, std::index_sequence<lane...>) {
    using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef Place Places __attribute__((vector_size(vector_bytes)));
    constexpr int half = block / 2, width = sizeof...(lane);
    constexpr Places low{Place(lane % block < half ? lane : lane - half + width)...};
    constexpr Places high{Place(lane % block < half ? lane + half : lane + width)...};
    return __builtin_shuffle(x, y, low) + __builtin_shuffle(x, y, high);
}

// The lane sums of as many vectors as a vector has lanes: lane i is the sum of v[i].
template <class T, int block = int(Lanes<T>::width)>
typename Lanes<T>::type add_up(typename Lanes<T>::type* v) {
    if constexpr (block == 1) {
        return v[0];
    } else {
#pragma GCC unroll 8
        for (int i = 0; i < block / 2; i++)
            v[i] = fold<T, block>(v[i], v[i + block / 2], std::make_index_sequence<Lanes<T>::width>());
        return add_up<T, block / 2>(v);
    }
}

template <class T>
using DotProducts = void (*)(const T*, int64_t, const T*, int64_t, int64_t, int64_t, typename Lanes<T>::type*);
template <class T, size_t... i>
DotProducts<T> pick(int64_t rows, int64_t columns, std::index_sequence<i...>) {
    static constexpr DotProducts<T> table[] = {dot_products<T, int(i) / across + 1, int(i) % across + 1>...};
    return table[(rows - 1) * across + columns - 1];
}

template <class T>
void multiply_rows(const OwnGemm& g) {
    using V = typename Lanes<T>::type;
    constexpr int64_t width = Lanes<T>::width, step = depth / int64_t(sizeof(T));
    const T *a = reinterpret_cast<const T*>(g.a), *b = reinterpret_cast<const T*>(g.b);
    T alpha = g.alpha.to<T>(), beta = g.beta.to<T>();
    const T* bias = reinterpret_cast<const T*>(g.bias);
    int64_t whole = g.k / width * width, groups = (g.n + across - 1) / across;
    int64_t grain = std::max<int64_t>(1, (int64_t(1) << 19) / (across * g.m * g.k));
    parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
        struct Sum {
            V lanes;
        };
        std::vector<Sum> sums(
            static_cast<size_t>((g.m * across + width - 1) / width * width));  // whole groups of lanes
        for (int64_t group = begin; group < end; group++) {
            int64_t j = group * across, columns = std::min<int64_t>(across, g.n - j);
            const T* column = b + j * g.b_col;
            std::fill(sums.begin(), sums.end(), Sum{});
            for (int64_t p = 0; p < whole; p += step) {
                int64_t next = p + step < whole ? step : across * g.b_col - p;
                for (int64_t i = 0; i < g.m; i += tall) {
                    int64_t rows = std::min<int64_t>(tall, g.m - i);
                    pick<T>(rows, columns, std::make_index_sequence<tall * across>())(
                        a + i * g.a_row + p, g.a_row, column + p, g.b_col, std::min(step, whole - p), i == 0 ? next : 0,
                        &sums[static_cast<size_t>(i * across)].lanes);
                }
            }
            // The sums of a group of vectors take the place of the first of them.
            for (size_t first = 0; first < sums.size(); first += width)
                sums[first].lanes = add_up<T>(&sums[first].lanes);
            for (int64_t i = 0; i < g.m; i++)
                for (int64_t c = 0; c < columns; c++) {
                    int64_t place = i * across + c;
                    T sum = sums[static_cast<size_t>(place / width * width)].lanes[place % width];
                    for (int64_t p = whole; p < g.k; p++) sum += a[i * g.a_row + p] * column[c * g.b_col + p];
                    T& to = reinterpret_cast<T*>(g.c)[i * g.c_row + j + c];
                    T scaled = bias ? sum + bias[j + c] : alpha * sum;
                    to = beta == T(0) ? scaled : scaled + beta * to;
                }
        }
    });
}

}  // namespace

bool rows_gemm_fits(const OwnGemm& g) {
    return g.a_col == 1 && g.b_row == 1 && g.m >= 2 && g.m <= 48 && g.k >= 512 && g.n >= 64;
}

void rows_gemm(const OwnGemm& g) {
    if (g.dtype == DType::F32) multiply_rows<float>(g);
    else multiply_rows<double>(g);
}

}  // namespace fb::cpu
