// Reductions and scans as data, like the elementwise functions of device/formula.h: the rows of formulas/reduction.def.
// Backends compile the rows whose state is one number, and write the kernels of the others by hand; programs can read
// the expression trees of all.
#pragma once
#include <vector>

#include "device/formula.h"

namespace fb {

// The type of the vector lanes that accumulate elements before they join a wider state: numbers of their kind (float32,
// int64) for sums; int64; a byte; the element's type; real numbers for a modulus.
enum class Lanes { Sums, Counts, Flags, Own, Moduli, None };

struct ReductionRow {
    const char* name;
    unsigned domain;
    Lanes lanes;  // None: the kernel is written by hand
    int numbers;  // number of the call's numbers that the row uses
    const char *identity, *element, *combine, *finish;
};
struct ScanRow {
    const char* name;  // of an entry of device::Scanning
    const char* row;
};
const std::vector<ReductionRow>& reduction_rows();
const std::vector<ScanRow>& scan_rows();

}  // namespace fb
