// Elementwise functions as data. A formula is written once, as the text of a row in device/formulas/: backends compile
// the text into kernels, and parse() turns it into an expression tree that programs can read. Ops name their row, as in
// formulas::exp.
#pragma once
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace fb {
namespace formulas {

// The compute types a formula is defined for.
enum Domain : unsigned {
    B = 1,
    I = 2,
    F = 4,
    C = 8,
    BI = B | I,
    IF = I | F,
    BIF = B | I | F,
    FC = F | C,
    IFC = I | F | C,
    ALL = 15,
    E = 16,       // also 8-bit floats, computed in float32; see Note [Storage dtypes]
    BYTES = 32,   // only moves elements: halves and 8-bit floats unconverted
    DIVIDES = 64  // integer division by zero is an error
};
// The dtypes of a domain, one bit each; complex32 computes in complex64.
constexpr uint32_t dtypes_of(unsigned domain) {
    uint32_t mask = 0;
    auto add = [&](unsigned part, DType first, DType last) {
        if (!(domain & part)) return;
        for (int d = static_cast<int>(first); d <= static_cast<int>(last); d++) mask |= uint32_t(1) << d;
    };
    add(B, DType::Bool, DType::Bool);
    add(I, DType::U8, DType::I64);
    add(F, DType::F16, DType::F64);
    add(C, DType::C64, DType::C32);
    add(E, DType::F8E4M3FN, DType::F8E8M0FNU);
    return mask;
}

// The dtype of the result: the common dtype; floating point of it; bool; the real part's dtype; real floating point;
// the common dtype, to which operands are converted first because the result depends on its ULP; int32.
enum class Result { Same, Float, Bool, Real, FloatReal, Step, Int32 };

}  // namespace formulas

// Numbers passed with a call; formulas refer to them as p.a, p.b, p.c and p.value.
struct Numbers {
    // A number of any kind; exact if T is an integer.
    struct Exact {
        c128 number{};
        int64_t whole = 0;
        template <class T>
        explicit operator T() const {
            if constexpr (std::is_integral_v<T>) return convert<T>(whole);
            else return convert<T>(number);
        }
    };
    double a, b, c;
    Exact value;
    constexpr explicit Numbers(double first = 0, double second = 0, double third = 0) : a(first), b(second), c(third) {}
};

struct Formula {
    int id;
    const char* name;
    const char* text;
    // The inputs are called x, y and z; those set in this mask are bool, whatever the dtype of the others.
    int inputs;
    unsigned conditions;
    unsigned domain;
    formulas::Result result;
    double cost;  // per element, in units of an addition
    // computed in double and rounded once: x, y are converted first
    bool wide;
    // For functions with two results (pair.def): the second one's text and dtype.
    const char* second;
    formulas::Result second_result;
    uint32_t dtypes = formulas::dtypes_of(domain);
    bool takes(DType d) const { return dtypes >> static_cast<int>(d) & 1; }
};

namespace formulas {

inline constexpr int most = 256;  // maximum number of formulas

#define FORMULA(name, ...) extern const Formula name;
#include "device/formulas/rows.h"
#undef FORMULA

// All formulas, in no particular order.
const std::vector<const Formula*>& all();

}  // namespace formulas

// A node of an expression tree: a literal number, an input or one of the Numbers, or a function or operator with its
// arguments. `T` and `bool` are conversions, to the compute type and to bool.
struct Expression {
    enum class Type { Literal, Name, Call };
    Type type;
    std::string name;
    double value = 0;
    std::vector<Expression> arguments;
};
Expression parse_formula(const char* text);

}  // namespace fb
