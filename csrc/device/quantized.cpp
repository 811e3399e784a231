#include "device/quantized.h"

#include "base/error.h"

namespace fb::device {

static constexpr QuantInfo infos[quant_formats] = {{"int8", 1, 1},     {"int4", 32, 16},   {"q8_0", 32, 34},
                                                   {"q4_0", 32, 18},   {"q4_1", 32, 20},   {"q5_0", 32, 22},
                                                   {"q5_1", 32, 24},   {"q2_k", 256, 84},  {"q3_k", 256, 110},
                                                   {"q4_k", 256, 144}, {"q5_k", 256, 176}, {"q6_k", 256, 210}};

const QuantInfo& info(QuantFormat format) { return infos[static_cast<size_t>(format)]; }

QuantFormat quant_format_named(const std::string& name) {
    std::string known;
    for (int i = 0; i < quant_formats; i++) {
        if (name == infos[i].name) return static_cast<QuantFormat>(i);
        known += (i ? ", " : "") + std::string(infos[i].name);
    }
    fail(ErrorKind::Value, "unknown format '", name, "'; expected one of ", known);
}

}  // namespace fb::device
