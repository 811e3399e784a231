// Conversion between dtypes, and queries for result dtypes.
#include "ops/table/common.h"
#include "ops/table/elementwise.h"

namespace fb {

OP("_convert(Tensor input, dtype dtype) -> Tensor", METHOD | ELEMENTWISE,
   R"(The tensor in another dtype; the work behind to().

Example:
    >>> fb.ones(2)._convert(fb.int64)
    tensor([1, 1])
)") {
    return to_dtype(a.tensor(0), std::get<DType>(a.values[1]));
}

OP("_result_type(Operand input, Operand other) -> any", FUNCTION,
   R"(The dtype of an op on two operands; behind result_type().

Example:
    >>> fb._result_type(fb.ones(2), 1)
    flambeau.float32
)") {
    return result_type({a.tensor(0), a.tensor(1)});
}

}  // namespace fb
