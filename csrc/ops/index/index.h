// x[...] and x[...] = value with all of NumPy's forms. The bindings convert Python's index to a list of items.
#pragma once
#include <limits>

#include "ops/table/common.h"

namespace fb {

struct IndexItem {
    enum class Type : uint8_t { None, Ellipsis, Integer, Slice, Bool, Tensor };
    // Open ends of a slice: `x[::-1]` is slice(open_high, open_low, -1), `x[::2]` is slice(open_low, open_high, 2).
    static constexpr int64_t open_low = std::numeric_limits<int64_t>::min();
    static constexpr int64_t open_high = std::numeric_limits<int64_t>::max();

    Type type = Type::None;
    int64_t start = 0;  // of a slice; the value of an integer or bool
    int64_t stop = 0;
    int64_t step = 1;
    Tensor indices;  // bool or uint8 (a mask), or any other integer dtype

    static IndexItem none() { return {}; }
    static IndexItem ellipsis() { return make(Type::Ellipsis); }
    static IndexItem integer(int64_t i) { return make(Type::Integer, i); }
    static IndexItem slice(int64_t start, int64_t stop, int64_t step) { return make(Type::Slice, start, stop, step); }
    static IndexItem boolean(bool b) { return make(Type::Bool, b); }
    static IndexItem tensor(const Tensor& t) {
        IndexItem item = make(Type::Tensor);
        item.indices = t;
        return item;
    }

  private:
    static IndexItem make(Type type, int64_t start = 0, int64_t stop = 0, int64_t step = 1) {
        IndexItem item;
        item.type = type;
        item.start = start;
        item.stop = stop;
        item.step = step;
        return item;
    }
};

// A view if only None, Ellipsis, integers (0-d integer tensors included) and slices occur, else a copy. The dimensions
// of advanced indices that are not adjacent come first.
Tensor index_get(const Tensor& t, const std::vector<IndexItem>& items);
// t[items] = value: the value is broadcast and converted. All indices are checked before anything is written. If an
// element is written more than once, the last value wins.
void index_set(const Tensor& t, const std::vector<IndexItem>& items, const Tensor& value);
// Like index_set, but repeated elements accumulate (in the order of the indices, whatever the number of threads).
void index_add_to(const Tensor& t, const std::vector<IndexItem>& items, const Tensor& value);

// Coordinates of the nonzero elements, row-major: int64 of shape (count, dim).
Tensor nonzero(const Tensor& t);
// An int64 tensor with the same values; raises an error unless t has an integer dtype.
Tensor as_indices(const Tensor& t);

}  // namespace fb
