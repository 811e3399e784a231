// Autocast: casts an op's arguments to the precision it should run in. Switched per thread.
#pragma once
#include <functional>
#include <optional>

#include "ops/table/values.h"

namespace fb::py {

// What an op's floating arguments are cast to: nothing, the thread's low precision, float32, or their widest dtype.
enum class Cast : uint8_t { None, Low, Float32, Promote };

struct Autocast {
    bool on = false;
    // The low precision for each device type; if not set, tensors are not cast.
    std::optional<DType> low[device_types];
    bool cache = true;  // casts of parameters are cached until clear_autocast_cache()
};
extern thread_local Autocast autocast;

// Disables autocast inside an op that cast its arguments.
class AutocastOff {
  public:
    AutocastOff() : before_(autocast.on) { autocast.on = false; }
    ~AutocastOff() { autocast.on = before_; }
    AutocastOff(const AutocastOff&) = delete;
    AutocastOff& operator=(const AutocastOff&) = delete;

  private:
    bool before_;
};

// Sets what an op's arguments are cast to; ignored if there is no op of this name.
void set_cast(const char* op, Cast how);
// Casts float16, bfloat16 and float32 arguments; calls `changed` with the number of each argument that was replaced.
void cast_arguments(Cast how, Args& a, const std::function<void(int)>& changed);

}  // namespace fb::py
