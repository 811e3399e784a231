// A signature string, parsed once.
#pragma once
#include <string>
#include <vector>

#include "ops/table/values.h"

namespace fb {

enum class ArgType : uint8_t {
    Tensor,
    Operand,
    TensorList,
    Scalar,
    Int,
    IntList,
    Float,
    Bool,
    Str,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Generator,
    Any
};

struct Param {
    std::string name;
    ArgType type = ArgType::Any;
    bool optional = false;  // accepts None
    bool has_default = false;
    bool keyword_only = false;
    bool spread = false;  // x.view(2, 3)
    Value default_value;
    std::string default_text;
    std::string type_text;             // as written
    mutable void* interned = nullptr;  // the name as an interned Python string
};

struct Signature {
    std::string text;
    std::string name;  // with its namespace
    std::vector<Param> params;
    int positional = 0;
    enum class Result { Tensor, Tuple, List, Named, Value } result = Result::Tensor;
    std::vector<std::string> fields;  // of a named result
    int size() const { return static_cast<int>(params.size()); }
};

// Raises at import for a malformed signature, which is a programming error.
Signature parse_signature(const std::string& text);

}  // namespace fb
