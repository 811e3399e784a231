// Pieces of messages in the words PyTorch uses for the same error, which is what people search for.
#pragma once
#include <string>

#include "base/dtype.h"
#include "base/shape.h"

namespace fb {

// Prints sizes in brackets, [2, 3].
struct Bracketed {
    const Dims& dims;
};
std::ostream& operator<<(std::ostream& out, const Bracketed& list);

// PyTorch's older name of a dtype, "Long" for int64.
const char* scalar_type(DType d);

// PyTorch's name of a dtype in C, "long int" for int64.
const char* c_type(DType d);

// The error for an out= whose dtype is not that of the result.
struct OutDType {
    DType wanted, got;
};
std::ostream& operator<<(std::ostream& out, const OutDType& dtypes);

// The package named in messages and in texts of dtypes: "flambeau", or "torch" for programs written for PyTorch.
extern std::string shown_package;

}  // namespace fb
