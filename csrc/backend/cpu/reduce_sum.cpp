// Sums, products and counts. float32 accumulates in float lanes that are flushed to double: as fast as one long float
// sum and more accurate.
#include "backend/cpu/reduce.h"
#include "backend/cpu/reduce_rows.h"

namespace fb::cpu {
namespace {

bool found(const char* acc) { return *acc != 0; }

// float16 is converted by the driver, which does that faster than a loop over single elements.
DType as_read(DType d) { return d == DType::F16 ? DType::F32 : d; }

template <class Row>
ReduceKernel floating(DType d) {
    return dispatch<BFloat16, float, double>(as_read(d), "a floating point dtype", [](auto tag) {
        return KernelOf<RowOp<Row, typename decltype(tag)::type>>::kernel();
    });
}

}  // namespace

ReduceKernel sum_kernel(DType d) {
    return dispatch<bool, FB_INTS, BFloat16, float, double>(as_read(d), "a real dtype", [](auto tag) {
        return KernelOf<RowOp<row::Sum, typename decltype(tag)::type>>::kernel();
    });
}
ReduceKernel nansum_kernel(DType d) { return floating<row::NanSum>(d); }
ReduceKernel mean_kernel(DType d) { return floating<row::Mean>(d); }
ReduceKernel prod_kernel(DType d) {
    return dispatch<bool, FB_INTS, BFloat16, float, double, c64, c128>(as_read(d), "any dtype", [](auto tag) {
        return KernelOf<RowOp<row::Product, typename decltype(tag)::type>>::kernel();
    });
}
ReduceKernel count_kernel(DType d) {
    return dispatch_all(d,
                        [](auto tag) { return KernelOf<RowOp<row::Count, typename decltype(tag)::type>>::kernel(); });
}

ReduceKernel truth_kernel(DType d, bool all) {
    return dispatch_all(d, [&](auto tag) {
        using T = typename decltype(tag)::type;
        ReduceKernel k = all ? KernelOf<RowOp<row::All, T>>::kernel() : KernelOf<RowOp<row::Any, T>>::kernel();
        k.done = found;
        return k;
    });
}

}  // namespace fb::cpu
