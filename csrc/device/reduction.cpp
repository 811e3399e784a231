#include "device/reduction.h"

namespace fb {

using enum formulas::Domain;

const std::vector<ReductionRow>& reduction_rows() {
    static const std::vector<ReductionRow> rows{
#define REDUCTION(name, domain, lanes, numbers, identity, element, combine, finish) \
    {#name, domain, Lanes::lanes, numbers, #identity, #element, #combine, #finish},
#define STATES(name, domain, numbers, identity, element, combine, finish) \
    {#name, domain, Lanes::None, numbers, #identity, #element, #combine, #finish},
#define PLACES(name, domain, identity, element, combine, finish) \
    {#name, domain, Lanes::None, 0, #identity, #element, #combine, #finish},
#define SCAN(...)
#include "device/formulas/reduction.def"
#undef REDUCTION
#undef STATES
#undef PLACES
#undef SCAN
    };
    return rows;
}

const std::vector<ScanRow>& scan_rows() {
    static const std::vector<ScanRow> rows{
#define REDUCTION(...)
#define STATES(...)
#define PLACES(...)
#define SCAN(name, row) {#name, #row},
#include "device/formulas/reduction.def"
#undef REDUCTION
#undef STATES
#undef PLACES
#undef SCAN
    };
    return rows;
}

}  // namespace fb
