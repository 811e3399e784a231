// Every row as FORMULA(name, text, inputs, conditions, domain, result, cost, wide, second, second_result). Included
// where FORMULA is defined, any number of times.
#define UNARY(name, domain, result, cost, text, ...) \
    FORMULA(name, #text, 1, 0, domain, result, cost, false, nullptr, Same)
#include "device/formulas/unary.def"
#undef UNARY
#define BINARY(name, operands, domain, result, cost, text, ...) \
    FORMULA(name, #text, 2, 0, domain, result, cost, false, nullptr, Same)
#include "device/formulas/binary.def"
#undef BINARY
#define ACTIVATION(name, cost, value, rise)                          \
    FORMULA(name, #value, 1, 0, F, Same, cost, false, nullptr, Same) \
    FORMULA(name##_backward, "y * (" #rise ")", 2, 0, F, Same, cost, false, nullptr, Same)
#include "device/formulas/activation.def"
#undef ACTIVATION
#define SPECIAL(name, op, flags, text, ...) FORMULA(name, #text, 1, 0, F, Float, 40, true, nullptr, Same)
#define VECTOR(name, op, flags, text, ...) FORMULA(name, #text, 1, 0, F, Float, 40, true, nullptr, Same)
#include "device/formulas/special.def"
#undef SPECIAL
#undef VECTOR
#define PLAIN(name, inputs, domain, result, cost, text) \
    FORMULA(name, #text, inputs, 0, domain, result, cost, false, nullptr, Same)
#define NUMBERED PLAIN
#define CHOICE(name, inputs, conditions, text) \
    FORMULA(name, #text, inputs, conditions, ALL | E | BYTES, Same, 1, false, nullptr, Same)
#define LOOP(name, inputs, result, cost, text) FORMULA(name, #text, inputs, 0, F, result, cost, false, nullptr, Same)
#define WIDE(name, inputs, result, cost, text) FORMULA(name, #text, inputs, 0, F, result, cost, true, nullptr, Same)
#include "device/formulas/plain.def"
#undef PLAIN
#undef NUMBERED
#undef CHOICE
#undef LOOP
#undef WIDE
#define PAIR(name, cost, text, second_result, second) \
    FORMULA(name, #text, 1, 0, F, Same, cost, false, #second, second_result)
#include "device/formulas/pair.def"
#undef PAIR
