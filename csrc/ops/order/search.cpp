// searchsorted, bucketize, isin.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "ops/order/reduce.h"
#include "ops/order/sort.h"
#include "ops/table/common.h"

namespace fb {
namespace {

// Elements are compared in one of these.
DType search_dtype(DType d) {
    if (is_complex(d)) fail_type("complex numbers have no order, got ", d);
    if (is_half(d)) return DType::F32;
    return is_integral_or_bool(d) && d != DType::U64 ? DType::I64 : d;
}

template <class F>
void dispatch_search(DType d, F&& f) {
    dispatch<int64_t, uint64_t, float, double>(d, "a real dtype", std::forward<F>(f));
}

// How many leading elements lie before the place of `value`; no branch depends on the data.
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

// The same for neighbouring values of one row, in step: the loads of all go out together.
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
            for (int64_t i = begin; i < end;) {  // as far as one row of values reaches
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

Tensor search(const Tensor& sequence, const Tensor& values, bool int32, bool right, const Tensor& sorter) {
    DType common =
        search_dtype(sequence.dtype() == values.dtype() ? sequence.dtype() : result_type({sequence, values}));
    int64_t n = sequence.shape().back();
    check(!int32 || n < std::numeric_limits<int32_t>::max(), "out_int32 needs fewer than 2^31 - 1 boundaries, got ", n);
    Tensor rows = contiguous(to_dtype(sequence, common)), wanted = contiguous(to_dtype(values, common));
    Tensor order = sorter ? contiguous(sorter) : Tensor();
    Tensor out = empty(values.shape(), int32 ? DType::I32 : DType::I64, values.device());
    int64_t step = sequence.dim() == 1 ? 0 : n;
    int64_t per_row = sequence.dim() == 1 ? values.numel() : values.shape().back();
    if (out.numel() == 0) return out;
    int64_t count = values.numel() / per_row;
    const int64_t* places = order ? order.data<int64_t>() : nullptr;
    dispatch_search(common, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (int32)
            search_rows<T, int32_t>(rows.data<T>(), places, n, step, wanted.data<T>(), per_row, count, right,
                                    out.data<int32_t>());
        else
            search_rows<T, int64_t>(rows.data<T>(), places, n, step, wanted.data<T>(), per_row, count, right,
                                    out.data<int64_t>());
    });
    return out;
}

void check_sorter(const Tensor& sequence, const Tensor& sorter) {
    check(sorter.shape() == sequence.shape(), "sorter has shape ", sorter.shape(), " but the sorted sequence has ",
          sequence.shape());
    check(sorter.dtype() == DType::I64, "sorter must be int64, got ", sorter.dtype());
    if (sorter.numel() == 0) return;
    auto [low, high] = aminmax(sorter);
    int64_t n = sequence.shape().back();
    if (item(low).i < 0 || item(high).i >= n) fail_index("sorter holds indices outside [0, ", n, ")");
}

// The sorted sequence may be one row, or as many rows as the values have.
void check_rows(const Tensor& sequence, const Tensor& values) {
    check(sequence.dim() > 0, "the sorted sequence must have at least one dimension");
    if (sequence.dim() == 1) return;
    bool same = sequence.dim() == values.dim();
    for (int64_t d = 0; same && d + 1 < sequence.dim(); d++) same = sequence.shape()[d] == values.shape()[d];
    check(same,
          "the sorted sequence must have one dimension, or all but the last in common with the values; got shapes ",
          sequence.shape(), " and ", values.shape());
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
        // Integers close together: a table answers at once.
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

OP("searchsorted(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, str? side=None, "
   "Tensor? sorter=None) -> Tensor",
   FUNCTION | OUT,
   R"(Where values belong in a sorted sequence, so that it stays sorted.

Args:
    sorted_sequence: ascending along the last dimension; one row for all values, or one for each row of ``input``.
    input: the values, a tensor or a number.
    out_int32: give int32 indices instead of int64.
    right: put values behind equal elements instead of before them.
    side: ``'left'`` or ``'right'``, the same as ``right`` in words.
    sorter: indices that sort ``sorted_sequence``, when it is not sorted itself.

Example:
    >>> fb.searchsorted(fb.tensor([1, 3, 5]), fb.tensor([3, 6]))
    tensor([1, 3])
)") {
    const Tensor &sequence = a.tensor(0), &values = a.tensor(1);
    auto side = a.text_or_none(4);
    bool right = a.flag(3);
    if (side) {
        check(*side == "left" || *side == "right", "side must be 'left' or 'right', got '", *side, "'");
        check(!(right && *side == "left"), "side='left' and right=True contradict each other");
        right = *side == "right";
    }
    check_rows(sequence, values);
    Tensor sorter = a.tensor_or_none(5);
    if (sorter) check_sorter(sequence, sorter);
    return search(sequence, values, a.flag(2), right, sorter);
}

OP("bucketize(Operand input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", FUNCTION | OUT,
   R"(Index of the bucket, between sorted boundaries, to which each value belongs.

Args:
    input: the values, a tensor or a number.
    boundaries: a sorted 1-d tensor.
    out_int32: give int32 indices instead of int64.
    right: whether a value equal to a boundary belongs to the bucket behind it.

Example:
    >>> fb.bucketize(fb.tensor([3, 6, 9]), fb.tensor([1, 3, 5, 7, 9]))
    tensor([1, 3, 4])
)") {
    const Tensor& boundaries = a.tensor(1);
    check(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, got shape ", boundaries.shape());
    return search(boundaries, a.tensor(0), a.flag(2), a.flag(3), Tensor());
}

OP("isin(Operand elements, Operand test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
   FUNCTION | OUT, R"(Whether each element is one of given values. NaN is equal to none.

Args:
    elements: the tensor, or a number.
    test_elements: values to look for, a tensor or a number.
    assume_unique: a hint that no element comes twice; not needed here.
    invert: give whether it is none of them.

Example:
    >>> fb.isin(fb.tensor([1, 2, 3]), fb.tensor([3, 1]))
    tensor([ True, False,  True])
)") {
    const Tensor &elements = a.tensor(0), &tests = a.tensor(1);
    check(!(elements.is_wrapped_number() && tests.is_wrapped_number()), "needs at least one tensor");
    DType common = search_dtype(elements.dtype() == tests.dtype() ? tests.dtype() : result_type({elements, tests}));
    Tensor x = contiguous(to_dtype(elements, common)), wanted = contiguous(to_dtype(tests, common));
    Tensor out = empty(elements.shape(), DType::Bool, elements.device());
    dispatch_search(common, [&](auto tag) {
        using T = typename decltype(tag)::type;
        find_members<T>(x.data<T>(), x.numel(), std::vector<T>(wanted.data<T>(), wanted.data<T>() + wanted.numel()),
                        a.flag(3), out.data<bool>());
    });
    return out;
}

}  // namespace fb
