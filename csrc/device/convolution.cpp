#include "device/convolution.h"

namespace fb::device {

bool ConvShape::is_patches() const {
    for (int i = 0; i < 3; i++) {
        if (kernel[i] != stride[i] || padding[i] != 0 || dilation[i] != 1 || out[i] * kernel[i] > in[i]) return false;
    }
    return groups == 1 && taps() > 1;
}
bool ConvShape::skips_pixels() const {
    bool skips = false;
    for (int i = 0; i < 3; i++) {
        if (kernel[i] != 1 || padding[i] != 0) return false;
        skips = skips || stride[i] > 1;
    }
    return skips;
}
ConvShape ConvShape::without_gaps() const {
    ConvShape s = *this;
    for (int i = 0; i < 3; i++) s.in[i] = s.out[i], s.stride[i] = 1;
    return s;
}

}  // namespace fb::device
