#include "bindings/interpreter.h"

#include <unistd.h>

namespace fb::py {

void sleep_forever() {
    for (;;) ::pause();
}

namespace {

void with_lock(void (*f)(void*), void* context) {
    Lock lock;
    f(context);
}
void without_lock(void (*f)(void*), void* context) {
    if (!PyGILState_Check()) return f(context);
    Unlocked unlocked;
    f(context);
}

[[maybe_unused]] const bool ready = [] {
    interpreter = {with_lock, without_lock};
    return true;
}();

}  // namespace
}  // namespace fb::py
