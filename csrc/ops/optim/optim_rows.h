// What optimizer steps share: parameters with their gradients and state as rows of flat memory, and a pass over all of
// them.
#pragma once
#include <algorithm>
#include <cmath>

#include "ops/table/common.h"
#include "ops/table/gradient.h"

namespace fb::optim {

constexpr int most_columns = 5;  // parameter, gradient, and up to three tensors of state

// A parameter with its gradient and state, as flat memory of one dtype.
struct Row {
    Tensor given[most_columns];  // what the caller has
    Tensor used[most_columns];   // the same, or copies in a form the kernels take
    int64_t numel = 0;
    double numbers[4] = {};  // what depends on the number of the step
};

using Columns = std::initializer_list<const std::vector<Tensor>*>;

// Collects row i of all lists. Column 1, the gradient, is only read.
inline Row make_row(Columns columns, size_t i) {
    Row row;
    const Tensor& p = (**columns.begin())[i];
    check(is_floating(p.dtype()), "parameter ", i, " has dtype ", p.dtype(), "; expected a real floating-point one");
    row.numel = p.numel();
    int n = 0;
    bool flat = is_dense(p) && !is_half(p.dtype());
    auto alike = [&](const Tensor& t) {
        return t.dtype() == p.dtype() && (t.strides() == p.strides() || (t.is_contiguous() && p.is_contiguous()));
    };
    for (const std::vector<Tensor>* column : columns) {
        const Tensor& t = (*column)[i];
        check(t.shape() == p.shape(), "parameter ", i, " has shape ", p.shape(), ", but its ",
              n == 1 ? "gradient" : "state", " has shape ", t.shape());
        if (n != 1) flat &= alike(t);
        row.given[n++] = t;
    }
    for (int k = 0; k < n; k++) {
        const Tensor& t = row.given[k];
        if (k != 1) t.will_write();
        if (!flat) {
            row.used[k] = contiguous(to_dtype(t, compute_dtype(p.dtype())));
        } else if (alike(t)) {
            row.used[k] = t;
        } else {
            row.used[k] = empty_like(p, p.dtype());
            copy_into(row.used[k], t);
        }
    }
    return row;
}

inline void check_lengths(Columns columns) {
    size_t n = (*columns.begin())->size();
    for (const std::vector<Tensor>* column : columns)
        check(column->size() == n, "lists differ in length: ", n, " parameters and ", column->size(), " of another");
}

inline double count_step(const Tensor& step) {
    check(step.numel() == 1, "a step count must have one element, got shape ", step.shape());
    double t = item(step).re + 1;
    step.will_write();
    fill(step, Scalar(t));
    return t;
}

// Runs kernel(data, n, row's numbers) over all rows, cut into pieces across the threads.
template <class F>
void run_rows(std::vector<Row>& rows, DType dtype, F kernel) {
    std::vector<int64_t> first{0};
    std::vector<Row*> mine;
    for (Row& row : rows) {
        if (row.used[0].dtype() != dtype) continue;
        mine.push_back(&row);
        first.push_back(first.back() + row.numel);
    }
    parallel_for(first.back(), parallel_grain / 4, [&](int64_t begin, int64_t end) {
        size_t r = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) - 1;
        for (; begin < end; r++) {
            int64_t stop = std::min(end, first[r + 1]);
            if (stop == begin) continue;
            void* data[most_columns] = {};
            for (int k = 0; k < most_columns; k++) {
                const Tensor& t = mine[r]->used[k];
                if (t.defined()) data[k] = t.raw() + (begin - first[r]) * t.itemsize();
            }
            kernel(data, stop - begin, mine[r]->numbers);
            begin = stop;
        }
    });
}

// Both precisions, then copies go back to where they came from.
template <class F>
void run_all(std::vector<Row>& rows, F kernel) {
    run_rows(rows, DType::F32,
             [&](void** data, int64_t n, const double* numbers) { kernel(TypeTag<float>{}, data, n, numbers); });
    run_rows(rows, DType::F64,
             [&](void** data, int64_t n, const double* numbers) { kernel(TypeTag<double>{}, data, n, numbers); });
    for (Row& row : rows) {
        for (int k = 0; k < most_columns; k++) {
            if (k != 1 && row.given[k].defined() && !row.used[k].is_same(row.given[k]))
                copy_into(row.given[k], row.used[k]);
        }
    }
}

// Options that are the same at every element become compile-time constants of the loop.
template <class F>
void with_flags(F f) {
    f();
}
template <class F, class... Rest>
void with_flags(F f, bool flag, Rest... rest) {
    if (flag) with_flags([&](auto... more) { f(std::true_type{}, more...); }, rest...);
    else with_flags([&](auto... more) { f(std::false_type{}, more...); }, rest...);
}

}  // namespace fb::optim
