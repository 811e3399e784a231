// Insertion positions of values in sorted rows, and membership.
#include "backend/cpu/search.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"

namespace fb::cpu {
namespace {

template <class F>
void dispatch_search(DType d, F&& f) {
    dispatch<int64_t, uint64_t, float, double>(d, "a real dtype", std::forward<F>(f));
}

// Number of leading elements before the position of `value`; branch-free.
template <class T, class At>
int64_t place_of(At at, int64_t n, T value, bool right) {
    if (n == 0) return 0;
    int64_t base = 0;
    auto before = [&](T x) { return right ? !(x > value) : !(x >= value); };
    while (n > 1) {
        int64_t half = n / 2;
        base += before(at(base + half - 1)) ? half : 0;
        n -= half;
    }
    return base + before(at(base));
}

// The same for adjacent values of one row in lockstep, so that their loads overlap.
template <class T, class O>
void places_of(const T* row, int64_t n, const T* values, int64_t count, bool right, O* out) {
    using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr int64_t width = 32;
    for (int64_t first = 0; first < count; first += width) {
        int64_t m = std::min(width, count - first);
        T v[width];
        I base[width];
        for (int64_t j = 0; j < width; j++) {
            v[j] = values[first + std::min(j, m - 1)];
            base[j] = 0;
        }
        int64_t left = n;
        auto count = [&](auto before) {  // few boundaries: compare with all of them
            for (int64_t k = 0; k < n; k++) {
                T x = row[k];
#pragma omp simd
                for (int64_t j = 0; j < width; j++) base[j] += before(x, v[j]) ? 1 : 0;
            }
        };
        auto halve = [&](auto before) {
            while (left > 1) {
                I half = static_cast<I>(left / 2);
#pragma omp simd
                for (int64_t j = 0; j < width; j++) base[j] += before(row[base[j] + half - 1], v[j]) ? half : 0;
                left -= half;
            }
#pragma omp simd
            for (int64_t j = 0; j < width; j++) base[j] += before(row[base[j]], v[j]) ? 1 : 0;
        };
        auto search = [&](auto before) { n <= 48 ? count(before) : halve(before); };
        if (right) search([](T x, T value) { return !(x > value); });
        else search([](T x, T value) { return !(x >= value); });
        for (int64_t j = 0; j < m; j++) out[first + j] = static_cast<O>(base[j]);
    }
}

template <class T, class O>
void search_rows(const T* sorted, const int64_t* sorter, int64_t n, int64_t sorted_step, const T* values,
                 int64_t per_row, int64_t rows, bool right, O* out) {
    parallel_for(rows * per_row, parallel_grain / 16, [&](int64_t begin, int64_t end) {
        if (!sorter && n > 0 && n < std::numeric_limits<int32_t>::max()) {
            for (int64_t i = begin; i < end;) {  // to the end of a row of values
                int64_t stop = std::min(end, (i / per_row + 1) * per_row);
                places_of<T, O>(sorted + i / per_row * sorted_step, n, values + i, stop - i, right, out + i);
                i = stop;
            }
            return;
        }
        for (int64_t i = begin; i < end; i++) {
            int64_t first = i / per_row * sorted_step;
            const T* row = sorted + first;
            const int64_t* order = sorter ? sorter + first : nullptr;
            int64_t place = order ? place_of<T>([&](int64_t k) { return row[order[k]]; }, n, values[i], right)
                                  : place_of<T>([&](int64_t k) { return row[k]; }, n, values[i], right);
            out[i] = static_cast<O>(place);
        }
    });
}

template <class T>
void find_members(const T* x, int64_t n, std::vector<T> wanted, bool invert, bool* out) {
    wanted.erase(std::remove_if(wanted.begin(), wanted.end(), [](T v) { return v != v; }), wanted.end());
    int64_t m = static_cast<int64_t>(wanted.size());
    if (m <= 8) {
        parallel_for(n, parallel_grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++) out[i] = invert;
            for (T w : wanted) {
                for (int64_t i = begin; i < end; i++) out[i] = x[i] == w ? !invert : out[i];
            }
        });
        return;
    }
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    m = static_cast<int64_t>(wanted.size());
    if constexpr (std::is_integral_v<T>) {
        // Integers from a narrow range: a table lookup.
        T low = wanted.front();
        uint64_t span = static_cast<uint64_t>(wanted.back()) - static_cast<uint64_t>(low);
        if (span < (1u << 20)) {
            std::vector<uint8_t> table(static_cast<size_t>(span) + 1, 0);
            for (T w : wanted) table[static_cast<size_t>(static_cast<uint64_t>(w) - static_cast<uint64_t>(low))] = 1;
            parallel_for(n, parallel_grain, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; i++) {
                    uint64_t at = static_cast<uint64_t>(x[i]) - static_cast<uint64_t>(low);
                    out[i] = (at <= span && table[static_cast<size_t>(at)]) != invert;
                }
            });
            return;
        }
    }
    const T* sorted = wanted.data();
    parallel_for(n, parallel_grain / 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            int64_t place = place_of<T>([&](int64_t k) { return sorted[k]; }, m, x[i], false);
            out[i] = (place < m && sorted[place] == x[i]) != invert;
        }
    });
}

}  // namespace

void search(const Tensor& rows, const Tensor& sorter, const Tensor& values, bool right, const Tensor& out) {
    int64_t n = rows.shape().back(), step = rows.dim() == 1 ? 0 : n;
    int64_t per_row = rows.dim() == 1 ? values.numel() : values.shape().back();
    int64_t count = values.numel() / per_row;
    const int64_t* places = sorter ? sorter.data<int64_t>() : nullptr;
    dispatch_search(rows.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (out.dtype() == DType::I32)
            search_rows<T, int32_t>(rows.data<T>(), places, n, step, values.data<T>(), per_row, count, right,
                                    out.data<int32_t>());
        else
            search_rows<T, int64_t>(rows.data<T>(), places, n, step, values.data<T>(), per_row, count, right,
                                    out.data<int64_t>());
    });
}

void contains(const Tensor& x, const Tensor& wanted, bool invert, const Tensor& out) {
    dispatch_search(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        find_members<T>(x.data<T>(), x.numel(), std::vector<T>(wanted.data<T>(), wanted.data<T>() + wanted.numel()),
                        invert, out.data<bool>());
    });
}

}  // namespace fb::cpu
