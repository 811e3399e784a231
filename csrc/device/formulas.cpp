#include "device/formula.h"

namespace fb::formulas {

// Backends index their kernels by these numbers.
enum class Id {
#define FORMULA(name, ...) name,
#include "device/formulas/rows.h"
#undef FORMULA
    count
};
static_assert(static_cast<int>(Id::count) <= most);

#define FORMULA(name, text, inputs, conditions, domain, result, cost, wide, second, second_result) \
    constinit const Formula name{static_cast<int>(Id::name),                                       \
                                 #name,                                                            \
                                 text,                                                             \
                                 inputs,                                                           \
                                 conditions,                                                       \
                                 domain,                                                           \
                                 Result::result,                                                   \
                                 cost,                                                             \
                                 wide,                                                             \
                                 second,                                                           \
                                 Result::second_result,                                            \
                                 dtypes_of(domain)};
#include "device/formulas/rows.h"
#undef FORMULA

const std::vector<const Formula*>& all() {
    static const std::vector<const Formula*> list{
#define FORMULA(name, ...) &name,
#include "device/formulas/rows.h"
#undef FORMULA
    };
    return list;
}

}  // namespace fb::formulas
