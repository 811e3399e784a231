#include "device/table.h"

#include "base/error.h"

namespace fb::device {

void fail_absent(Device device) {
    fail(ErrorKind::NotImplemented, "not implemented on device '", to_string(device),
         "'; move its tensors to the CPU with .to('cpu')");
}

void fail_without_values() {
    fail_state(
        "the result depends on values, and a tensor on the meta device has none; it has a shape and a dtype only");
}

}  // namespace fb::device
