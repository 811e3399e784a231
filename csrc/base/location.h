// Where in the user's program an op was called: an index into a table of code objects that the bindings keep, and the
// instruction. Cheap to take and to store; turned into "file:line" only for a message.
#pragma once
#include <cstdint>
#include <string>

namespace fb {

struct Location {
    uint32_t code = 0;  // 0: unknown
    int32_t instruction = 0;
};

// Of the call that runs on this thread.
extern thread_local Location current_location;
// "train.py:12", or "" when unknown. The bindings set it.
extern std::string (*describe_location)(Location);

}  // namespace fb
