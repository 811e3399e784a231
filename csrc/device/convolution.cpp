#include "device/convolution.h"

namespace fb::device {

bool ConvShape::is_patches() const {
    for (int i = 0; i < 3; i++) {
        if (kernel[i] != stride[i] || padding[i] != 0 || dilation[i] != 1 || out[i] * kernel[i] > in[i]) return false;
    }
    return groups == 1 && taps() > 1;
}

}  // namespace fb::device
