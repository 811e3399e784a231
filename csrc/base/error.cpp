#include "base/error.h"

namespace fb {

thread_local const char* current_op = nullptr;

void raise(ErrorKind kind, const std::string& message) {
    throw Error(kind, current_op ? std::string(current_op) + ": " + message : message);
}

}  // namespace fb
