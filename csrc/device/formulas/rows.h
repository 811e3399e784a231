// Every row as FORMULA(name, text, inputs, conditions, domain, result, cost, wide). To be included where FORMULA is
// defined, any number of times.
#define UNARY(name, domain, result, cost, text, ...) FORMULA(name, #text, 1, 0, domain, result, cost, false)
#include "device/formulas/unary.def"
#undef UNARY
#define BINARY(name, operands, domain, result, cost, text, ...) FORMULA(name, #text, 2, 0, domain, result, cost, false)
#include "device/formulas/binary.def"
#undef BINARY
#define ACTIVATION(name, cost, value, rise)           \
    FORMULA(name, #value, 1, 0, F, Same, cost, false) \
    FORMULA(name##_backward, "y * (" #rise ")", 2, 0, F, Same, cost, false)
#include "device/formulas/activation.def"
#undef ACTIVATION
#define SPECIAL(name, op, flags, text, ...) FORMULA(name, #text, 1, 0, F, Float, 40, true)
#define VECTOR(name, op, flags, text, ...) FORMULA(name, #text, 1, 0, F, Float, 40, true)
#include "device/formulas/special.def"
#undef SPECIAL
#undef VECTOR
#define PLAIN(name, inputs, domain, result, cost, text) FORMULA(name, #text, inputs, 0, domain, result, cost, false)
#define NUMBERED PLAIN
#define CHOICE(name, inputs, conditions, text) FORMULA(name, #text, inputs, conditions, ALL | E | BYTES, Same, 1, false)
#define LOOP(name, inputs, result, cost, text) FORMULA(name, #text, inputs, 0, F, result, cost, false)
#define WIDE(name, inputs, result, cost, text) FORMULA(name, #text, inputs, 0, F, result, cost, true)
#include "device/formulas/plain.def"
#undef PLAIN
#undef NUMBERED
#undef CHOICE
#undef LOOP
#undef WIDE
