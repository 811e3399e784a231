// Binary elementwise ops: the rows of binary.def.
#include "ops/pointwise/elementwise.h"

namespace fb::ew {
namespace {

// PyTorch's rule for heaviside, which does not promote.
void check_step(const Tensor& x, const Tensor& values) {
    check(!is_complex(x.dtype()) && !is_complex(values.dtype()),
          "heaviside is not yet implemented for complex tensors.");
    check(x.dtype() == values.dtype(), "heaviside is not yet implemented for tensors with different dtypes: got ",
          x.dtype(), " and ", values.dtype(), "; convert one with .to(dtype)");
}

// The kinds of the two arguments; see binary.def.
enum class Operands { TT, TS, SS, NN, TV, PP };

struct RegisterBinary {
    RegisterBinary(const char* name, Operands operands, OpFn fn, const char* summary, const char* example) {
        std::string second =
            operands == Operands::TV ? "values: the result where input is 0" : "other: the second operand";
        std::string doc = std::string(summary) + "\n\nArgs:\n    input: the first operand.\n    " + second +
                          ".\n\nExample:\n    >>> " + example;
        std::string head = name;
        const char* args[] = {"(Tensor input, Tensor other) -> Tensor",  "(Tensor input, Operand other) -> Tensor",
                              "(Tensor input, Operand other) -> Tensor", "(Tensor input, Operand other) -> Tensor",
                              "(Tensor input, Tensor values) -> Tensor", "(Tensor input, Tensor other) -> Tensor"};
        unsigned forms = operands == Operands::PP ? COMMON : POINTWISE;
        Register((head + args[static_cast<int>(operands)]).c_str(), forms | FREE | ELEMENTWISE, fn, doc.c_str());
        if (operands == Operands::SS)
            Register((head + "(Operand input, Tensor other) -> Tensor").c_str(), FUNCTION | OUT | ELEMENTWISE, fn);
        if (operands == Operands::NN)
            Register((head + "(Operand input, Operand other) -> Tensor").c_str(), FUNCTION | OUT | FREE | ELEMENTWISE,
                     fn);
    }
};

#define BINARY(name, operands, types, result, cost, text, summary, example, shown)              \
    Value call_##name(Args& a) {                                                                \
        if (Operands::operands == Operands::TV) check_step(a.tensor(0), a.tensor(1));           \
        if (formulas::name.domain & formulas::DIVIDES) check_divisor(a.tensor(0), a.tensor(1)); \
        return binary(a, a.tensor(0), a.tensor(1), formulas::name);                             \
    }                                                                                           \
    const RegisterBinary register_##name(#name, Operands::operands, call_##name, summary, example "\n    " shown "\n");
#include "device/formulas/binary.def"
#undef BINARY

OP_ALIAS("multiply", "mul");
OP_ALIAS("arctan2", "atan2");
OP_ALIAS("not_equal", "ne");
OP_ALIAS("less", "lt");
OP_ALIAS("less_equal", "le");
OP_ALIAS("greater", "gt");
OP_ALIAS("greater_equal", "ge");
OP_ALIAS("special.xlogy", "xlogy");

}  // namespace
}  // namespace fb::ew
