// searchsorted, bucketize, isin.
#include <limits>

#include "device/sort.h"
#include "ops/order/reduce.h"
#include "ops/order/sort.h"
#include "ops/table/common.h"

namespace fb {
namespace {

// The dtype in which elements are compared.
DType search_dtype(DType d) {
    if (is_complex(d)) fail_type("complex numbers have no order, got ", d);
    if (is_half(d)) return DType::F32;
    return is_integral_or_bool(d) && d != DType::U64 ? DType::I64 : d;
}

Tensor search(const Tensor& sequence, const Tensor& values, bool int32, bool right, const Tensor& sorter) {
    DType common =
        search_dtype(sequence.dtype() == values.dtype() ? sequence.dtype() : result_type({sequence, values}));
    int64_t n = sequence.shape().back();
    check(!int32 || n < std::numeric_limits<int32_t>::max(), "out_int32 needs fewer than 2^31 - 1 boundaries, got ", n);
    Tensor rows = contiguous(to_dtype(sequence, common)), wanted = contiguous(to_dtype(values, common));
    Tensor order = sorter ? contiguous(sorter) : Tensor();
    Tensor out = empty(values.shape(), int32 ? DType::I32 : DType::I64, values.device());
    if (out.numel()) device::sorting(out).search(rows, order, wanted, right, out);
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

}  // namespace

OP("searchsorted(Tensor sorted_sequence, Operand input, *, bool out_int32=False, bool right=False, str? side=None, "
   "Tensor? sorter=None) -> Tensor",
   FUNCTION | OUT,
   R"(Indices at which values can be inserted into a sorted sequence, keeping it sorted.

Args:
    sorted_sequence: ascending along the last dimension; one row for all values, or one for each row of ``input``.
    input: the values, a tensor or a number.
    out_int32: return int32 indices instead of int64.
    right: insert values after equal elements instead of before them.
    side: ``'left'`` or ``'right'``, the same as ``right`` in words.
    sorter: indices that sort ``sorted_sequence``, if it is not sorted.

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
    out_int32: return int32 indices instead of int64.
    right: whether a value equal to a boundary belongs to the bucket above it.

Example:
    >>> fb.bucketize(fb.tensor([3, 6, 9]), fb.tensor([1, 3, 5, 7, 9]))
    tensor([1, 3, 4])
)") {
    const Tensor& boundaries = a.tensor(1);
    check(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, got shape ", boundaries.shape());
    return search(boundaries, a.tensor(0), a.flag(2), a.flag(3), Tensor());
}

OP("isin(Operand elements, Operand test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
   FUNCTION | OUT, R"(Whether each element is one of the given values. NaN is equal to none.

Args:
    elements: the tensor, or a number.
    test_elements: values to look for, a tensor or a number.
    assume_unique: a hint that no element occurs twice; has no effect.
    invert: return whether it is none of them.

Example:
    >>> fb.isin(fb.tensor([1, 2, 3]), fb.tensor([3, 1]))
    tensor([ True, False,  True])
)") {
    const Tensor &elements = a.tensor(0), &tests = a.tensor(1);
    check(!(elements.is_wrapped_number() && tests.is_wrapped_number()), "needs at least one tensor");
    DType common = search_dtype(elements.dtype() == tests.dtype() ? tests.dtype() : result_type({elements, tests}));
    Tensor x = contiguous(to_dtype(elements, common)), wanted = contiguous(to_dtype(tests, common));
    Tensor out = empty(elements.shape(), DType::Bool, elements.device());
    device::sorting(out).contains(x, wanted, a.flag(3), out);
    return out;
}

}  // namespace fb
