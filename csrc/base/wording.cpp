#include "base/wording.h"

namespace fb {

std::string shown_package = "flambeau";

std::ostream& operator<<(std::ostream& out, const Bracketed& list) {
    out << "[";
    for (int64_t i = 0; i < list.dims.size(); i++) out << (i ? ", " : "") << list.dims[i];
    return out << "]";
}

const char* scalar_type(DType d) { return info(d).torch_name; }

}  // namespace fb
