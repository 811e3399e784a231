#include "base/wording.h"

namespace fb {

std::string shown_package = "flambeau";

std::ostream& operator<<(std::ostream& out, const Bracketed& list) {
    out << "[";
    for (int64_t i = 0; i < list.dims.size(); i++) out << (i ? ", " : "") << list.dims[i];
    return out << "]";
}

const char* scalar_type(DType d) { return info(d).torch_name; }

const char* c_type(DType d) {
    switch (d) {
        case DType::U8:
            return "unsigned char";
        case DType::I8:
            return "signed char";
        case DType::I16:
            return "short int";
        case DType::I32:
            return "int";
        case DType::I64:
            return "long int";
        case DType::U16:
            return "unsigned short int";
        case DType::U32:
            return "unsigned int";
        case DType::U64:
            return "unsigned long int";
        case DType::F16:
            return "c10::Half";
        case DType::BF16:
            return "c10::BFloat16";
        case DType::F32:
            return "float";
        case DType::F64:
            return "double";
        case DType::C64:
            return "c10::complex<float>";
        case DType::C128:
            return "c10::complex<double>";
        case DType::Bool:
            return "bool";
        default:
            return info(d).torch_name;
    }
}

std::ostream& operator<<(std::ostream& out, const OutDType& dtypes) {
    return out << "Expected out tensor to have dtype " << c_type(dtypes.wanted) << ", but got " << c_type(dtypes.got)
               << " instead (" << dtypes.wanted << " and " << dtypes.got << ")";
}

}  // namespace fb
