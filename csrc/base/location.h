// The place in the user's program where an op was called: an index into a table of code objects kept by the bindings,
// and the instruction. Cheap to take and to store; converted to "file:line" only for a message.
#pragma once
#include <cstdint>
#include <string>

namespace fb {

struct Location {
    uint32_t code = 0;  // 0: unknown
    int32_t instruction = 0;
};

// Of the call running on this thread.
extern thread_local Location current_location;
// "train.py:12", or "" when unknown. Set by the bindings.
extern std::string (*describe_location)(Location);

}  // namespace fb
