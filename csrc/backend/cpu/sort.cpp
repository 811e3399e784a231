// Kernels of sort, topk, selection and mode on contiguous rows.
#include "device/sort.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "backend/cpu/search.h"
#include "backend/cpu/sort_key.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

// bool sorts as uint8.
template <class F>
void dispatch_sortable(DType d, F&& f) {
    dispatch<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t, Half, BFloat16, float, double>(
        d == DType::Bool ? DType::U8 : d, "a real dtype", std::forward<F>(f));
}

// Rows in parallel, each thread with its own scratch memory; a single long row is parallelised inside.
template <class F>
void each_row(int64_t rows, int64_t n, double cost, F&& f) {
    int64_t grain = std::max<int64_t>(
        1, static_cast<int64_t>(static_cast<double>(parallel_grain) / cost) / std::max<int64_t>(1, n));
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
        SortScratch scratch;
        for (int64_t r = begin; r < end; r++) f(r, scratch);
    });
}

void check_length(int64_t n) {
    check(n < (int64_t(1) << 32), "rows of 2^32 or more elements cannot be ordered, got ", n);
}

template <class T>
void write_sorted(const T* x, const uint64_t* a, int64_t begin, int64_t end, T* values, int64_t* indices) {
    for (int64_t i = begin; i < end; i++) {
        int64_t at = static_cast<int64_t>(a[i] & 0xffffffffu);
        values[i] = x[at];
        indices[i] = at;
    }
}

}  // namespace

static void sort_rows(const Tensor& in, bool descending, const Tensor& values, const Tensor& indices) {
    int64_t n = in.dim() ? in.shape().back() : 1;
    if (in.numel() == 0) return;
    check_length(n);
    int64_t rows = in.numel() / n;
    dispatch_sortable(in.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = in.data<T>();
        T* v = values.data<T>();
        int64_t* at = indices.data<int64_t>();
        if (rows == 1) {
            SortScratch scratch;
            sort_order<T>(x, n, descending, scratch, true);
            parallel_for(n, parallel_grain,
                         [&](int64_t begin, int64_t end) { write_sorted<T>(x, scratch.a.data(), begin, end, v, at); });
            return;
        }
        each_row(rows, n, 16, [&](int64_t r, SortScratch& scratch) {
            sort_order<T>(x + r * n, n, descending, scratch, false);
            write_sorted<T>(x + r * n, scratch.a.data(), 0, n, v + r * n, at + r * n);
        });
    });
}

namespace {

template <class K>
K smallest(const K* keys, int64_t n) {
    K least = K(~K(0));
#pragma omp simd reduction(min : least)
    for (int64_t j = 0; j < n; j++) least = std::min(least, keys[j]);
    return least;
}

// Puts the k smallest of keys ^ flip, with their indices, into `best`. Scans with a threshold that tightens as
// candidates accumulate.
template <class T>
void gather_best(const T* x, int64_t n, int64_t k, KeyOf<T> flip, std::vector<Packed<KeyOf<T>>>& best) {
    using K = KeyOf<T>;
    best.clear();
    if (k == 0) return;
    auto shrink = [&] { std::nth_element(best.begin(), best.begin() + (k - 1), best.end()); };
    if (n <= 4 * k || n <= 64) {
        best.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; i++) best[static_cast<size_t>(i)] = pack_key<K>(K(sort_key(x[i]) ^ flip), i);
        if (k < n) shrink();
        best.resize(static_cast<size_t>(k));
        return;
    }
    // Few candidates are kept sorted; many are collected and pruned when there are twice too many.
    bool few = k <= 32;
    size_t capacity = static_cast<size_t>(few ? k : 2 * k + 16), count = 0;
    best.resize(capacity);
    K limit = K(~K(0));
    bool full = false;
    auto take = [&](Packed<K> p) {
        if (few) {
            size_t at = full ? capacity - 1 : count++;
            for (; at > 0 && best[at - 1] > p; at--) best[at] = best[at - 1];
            best[at] = p;
        } else {
            best[count++] = p;
        }
        if (count < capacity) return;
        if (!few) {
            shrink();
            count = static_cast<size_t>(k);
        }
        limit = packed_key<K>(best[static_cast<size_t>(k - 1)]);
        full = true;
    };
    constexpr int64_t block = 128, group = 16;
    K keys[block];
    for (int64_t first = 0; first < n; first += block) {
        int64_t m = std::min(block, n - first);
#pragma omp simd
        for (int64_t j = 0; j < m; j++) keys[j] = K(sort_key(x[first + j]) ^ flip);
        if (full && smallest(keys, m) >= limit) continue;  // of equal values the earlier stays
        for (int64_t from = 0; from < m; from += group) {
            int64_t to = std::min(m, from + group);
            if (full && smallest(keys + from, to - from) >= limit) continue;
            for (int64_t j = from; j < to; j++) {
                if (!full || keys[j] < limit) take(pack_key<K>(keys[j], first + j));
            }
        }
    }
    if (few) return;
    std::nth_element(best.begin(), best.begin() + (k - 1), best.begin() + static_cast<int64_t>(count));
    best.resize(static_cast<size_t>(k));
}

}  // namespace

static void topk_rows(const Tensor& in, int64_t k, bool largest, bool sorted, const Tensor& values,
                      const Tensor& indices) {
    int64_t n = in.dim() ? in.shape().back() : 1;
    if (in.numel() == 0 || k == 0) return;
    check_length(n);
    int64_t rows = in.numel() / n;
    dispatch_sortable(in.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using K = KeyOf<T>;
        K flip = largest ? K(~K(0)) : K(0);
        const T* x = in.data<T>();
        T* v = values.data<T>();
        int64_t* at = indices.data<int64_t>();
        // Nearly everything is wanted: sort it all.
        bool whole = sorted && k > 32 && (n <= 8192 ? 16 : 2) * k > n;
        parallel_for(rows, std::max<int64_t>(1, parallel_grain / (2 * n)), [&](int64_t begin, int64_t end) {
            std::vector<Packed<K>> best;
            SortScratch scratch;
            for (int64_t r = begin; r < end; r++) {
                if (whole) {
                    sort_order<T>(x + r * n, n, largest, scratch, rows == 1);
                    write_sorted<T>(x + r * n, scratch.a.data(), 0, k, v + r * k, at + r * k);
                    continue;
                }
                gather_best<T>(x + r * n, n, k, flip, best);
                if (sorted) std::sort(best.begin(), best.end());
                for (int64_t i = 0; i < k; i++) {
                    int64_t place = packed_place<K>(best[static_cast<size_t>(i)]);
                    v[r * k + i] = x[r * n + place];
                    at[r * k + i] = place;
                }
            }
        });
    });
}

namespace {

// A sample gives keys between which the k-th smallest should be; one pass over the row counts what is below and
// collects what is between. If the sample was wrong, everything is collected.
template <class T>
int64_t select_place(const T* x, int64_t n, int64_t k, std::vector<Packed<KeyOf<T>>>& work) {
    using K = KeyOf<T>;
    work.clear();
    auto finish = [&](int64_t among) {
        std::nth_element(work.begin(), work.begin() + among, work.end());
        return packed_place<K>(work[static_cast<size_t>(among)]);
    };
    constexpr int64_t samples = 4096, margin = 128;
    if (n >= 8 * samples) {
        std::vector<K> sample(static_cast<size_t>(samples));
        for (int64_t i = 0; i < samples; i++) sample[static_cast<size_t>(i)] = sort_key(x[i * n / samples]);
        std::sort(sample.begin(), sample.end());
        int64_t middle = k * samples / n;
        K low = middle - margin >= 0 ? sample[static_cast<size_t>(middle - margin)] : K(0);
        K high = middle + margin < samples ? sample[static_cast<size_t>(middle + margin)] : K(~K(0));
        int64_t below = 0;
        size_t count = 0;
        constexpr int64_t block = 256;
        K keys[block];
        for (int64_t first = 0; first < n; first += block) {
            int64_t m = std::min(block, n - first);
            uint32_t less = 0;
#pragma omp simd reduction(+ : less)
            for (int64_t j = 0; j < m; j++) {
                keys[j] = sort_key(x[first + j]);
                less += keys[j] < low ? 1 : 0;
            }
            below += less;
            if (work.size() < count + block) work.resize(2 * (count + block));
            for (int64_t j = 0; j < m; j++) {  // written unconditionally, kept if between
                work[count] = pack_key<K>(keys[j], first + j);
                count += (keys[j] >= low) & (keys[j] <= high);
            }
        }
        work.resize(count);
        if (k >= below && k - below < static_cast<int64_t>(count)) return finish(k - below);
    }
    work.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) work[static_cast<size_t>(i)] = pack_key<K>(sort_key(x[i]), i);
    return finish(k);
}

template <class T>
bool is_nan(T x) {
    if constexpr (is_half_type<T>) {
        float f = x;
        return f != f;
    } else if constexpr (std::is_floating_point_v<T>) return x != x;
    else return false;
}

}  // namespace

static void select_rows(const Tensor& in, device::Select what, int64_t k, const Tensor& values, const Tensor& indices) {
    int64_t n = in.dim() ? in.shape().back() : 1;
    if (in.numel() == 0) return;
    check_length(n);
    int64_t rows = in.numel() / n;
    dispatch_sortable(in.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = in.data<T>();
        T* v = values.data<T>();
        int64_t* at = indices.data<int64_t>();
        parallel_for(rows, std::max<int64_t>(1, parallel_grain / (8 * n)), [&](int64_t begin, int64_t end) {
            std::vector<Packed<KeyOf<T>>> work;
            for (int64_t r = begin; r < end; r++) {
                const T* row = x + r * n;
                int64_t place = -1, wanted = k;
                if (what != device::Select::Kth) {
                    int64_t nans = 0, first = -1;
                    if constexpr (is_float_type<T>) {
                        for (int64_t i = 0; i < n; i++) nans += is_nan(row[i]);
                        if (nans) {
                            first = 0;
                            while (!is_nan(row[first])) first++;
                        }
                    }
                    if (nans && (what == device::Select::Median || nans == n)) place = first;
                    wanted = (n - (what == device::Select::NanMedian ? nans : 0) - 1) / 2;
                }
                if (place < 0) place = select_place<T>(row, n, wanted, work);
                v[r] = row[place];
                at[r] = place;
            }
        });
    });
}

static void mode_rows(const Tensor& in, const Tensor& values, const Tensor& indices) {
    int64_t n = in.dim() ? in.shape().back() : 1;
    if (in.numel() == 0) return;
    check_length(n);
    int64_t rows = in.numel() / n;
    dispatch_sortable(in.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = in.data<T>();
        T* v = values.data<T>();
        int64_t* at = indices.data<int64_t>();
        each_row(rows, n, 16, [&](int64_t r, SortScratch& scratch) {
            const T* row = x + r * n;
            sort_order<T>(row, n, false, scratch, false);
            const uint64_t* a = scratch.a.data();
            auto place = [&](int64_t i) { return static_cast<int64_t>(a[i] & 0xffffffffu); };
            int64_t most = 0, best = 0;
            for (int64_t i = 0; i < n;) {
                int64_t end = i + 1;
                while (end < n && row[place(end)] == row[place(i)]) end++;
                if (end - i > most) {
                    most = end - i;
                    best = end - 1;
                }
                i = end;
            }
            v[r] = row[place(best)];
            at[r] = place(best);
        });
    });
}

namespace {
const device::Provide<device::Sorting> provided(DeviceType::CPU, {.sort = sort_rows,
                                                                  .topk = topk_rows,
                                                                  .select = select_rows,
                                                                  .mode = mode_rows,
                                                                  .search = search,
                                                                  .contains = contains,
                                                                  .distinct = distinct,
                                                                  .distinct_slices = distinct_slices});
}  // namespace

}  // namespace fb::cpu
