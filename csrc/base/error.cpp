#include "base/error.h"

#include "base/location.h"

namespace fb {

thread_local const char* current_op = nullptr;
thread_local Location current_location;
std::string (*describe_location)(Location) = [](Location) { return std::string(); };

void raise(ErrorKind kind, const std::string& message) {
    if (!current_op) throw Error(kind, message);
    // Ops in the namespace _nn implement public functions of the same name.
    std::string op = current_op;
    throw Error(kind, (op.starts_with("_nn.") ? op.substr(4) : op) + ": " + message);
}

}  // namespace fb
