// Reductions and scans as data, like the elementwise functions of device/formula.h: the rows of formulas/reduction.def.
// Backends compile those with one part, and write the kernels of the others by hand; programs read the expression
// trees of all.
#pragma once
#include <vector>

#include "device/formula.h"

namespace fb {

// What the elements of a row are gathered in before they join a wider state: numbers of their kind (float32, int64)
// that sums have; int64; a byte; their own type; real numbers that hold a modulus.
enum class Lanes { Sums, Counts, Flags, Own, Moduli, None };

struct ReductionRow {
    const char* name;
    unsigned domain;
    Lanes lanes;  // None: the kernel is written by hand
    int numbers;  // of the call
    const char *identity, *element, *combine, *finish;
};
struct ScanRow {
    const char* name;  // of an entry of device::Scanning
    const char* row;
};
const std::vector<ReductionRow>& reduction_rows();
const std::vector<ScanRow>& scan_rows();

}  // namespace fb
