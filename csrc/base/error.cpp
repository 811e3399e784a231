#include "base/error.h"

#include "base/location.h"

namespace fb {

thread_local const char* current_op = nullptr;
thread_local Location current_location;
std::string (*describe_location)(Location) = [](Location) { return std::string(); };

void raise(ErrorKind kind, const std::string& message) {
    throw Error(kind, current_op ? std::string(current_op) + ": " + message : message);
}

}  // namespace fb
