#include "base/wording.h"

namespace fb {

std::string shown_package = "flambeau";

std::ostream& operator<<(std::ostream& out, const Bracketed& list) {
    out << "[";
    for (int64_t i = 0; i < list.dims.size(); i++) out << (i ? ", " : "") << list.dims[i];
    return out << "]";
}

const char* scalar_type(DType d) {
    switch (d) {
        case DType::Bool:
            return "Bool";
        case DType::U8:
            return "Byte";
        case DType::U16:
            return "UInt16";
        case DType::U32:
            return "UInt32";
        case DType::U64:
            return "UInt64";
        case DType::I8:
            return "Char";
        case DType::I16:
            return "Short";
        case DType::I32:
            return "Int";
        case DType::I64:
            return "Long";
        case DType::F16:
            return "Half";
        case DType::BF16:
            return "BFloat16";
        case DType::F32:
            return "Float";
        case DType::F64:
            return "Double";
        case DType::C64:
            return "ComplexFloat";
        case DType::C128:
            return "ComplexDouble";
    }
    return "Undefined";
}

}  // namespace fb
