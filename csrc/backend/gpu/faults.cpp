// Errors that kernels find. A kernel writes a word in its stream (FAIL, Note [Kernel text]); what the word means is
// kept here by the number of the launch, and raised when somebody waits for the device.
#include <array>
#include <mutex>

#include "backend/gpu/driver.h"
#include "base/fork.h"

namespace fb::gpu {
namespace {

// The last launches of kernels that can fail. Older ones are reported without op and line.
constexpr int64_t kept = 4096;
struct Record {
    int64_t number = 0;
    const char* op = nullptr;
    const Fault* faults = nullptr;
    int64_t a = 0, b = 0;
    Location line;
};
struct Ring {
    Mutex lock;
    std::array<Record, kept> records;
    int64_t last = 0;
};
Ring& ring() {
    static auto* all = new Ring;
    return *all;
}

std::string filled(const char* text, const Record& record, int64_t index) {
    std::string out = text;
    auto put = [&](const char* name, int64_t value) {
        for (size_t at = out.find(name); at != std::string::npos; at = out.find(name))
            out.replace(at, std::char_traits<char>::length(name), std::to_string(value));
    };
    put("{index}", index);
    put("{a}", record.a);
    put("{b}", record.b);
    return out;
}

}  // namespace

Location (*line_now)() = nullptr;

void launch(Device device, const Launch& l) {
    int64_t number = 0;
    if (l.faults) {
        Location line = line_now ? line_now() : Location();
        std::lock_guard guard(ring().lock);
        number = ++ring().last;
        ring().records[number % kept] = {number, current_op, l.faults, l.a, l.b, line};
    }
    driver(device).launch(current_stream(device), l, number);
}

void raise_faults(Device device) {
    Driver& d = driver(device);
    for (int stream = 0; stream < d.streams(); stream++) {
        FaultWord word;
        if (!d.take_fault(stream, word)) continue;
        Record record;
        {
            std::lock_guard guard(ring().lock);
            record = ring().records[word.launch % kept];
        }
        if (record.number != word.launch || !record.faults)
            fail_state("a kernel on device '", to_string(device), "' reported error ", word.code, " at index ",
                       word.index);
        const Fault& fault = record.faults[word.code];
        std::string where = describe_location && record.line.code ? describe_location(record.line) : "";
        OpScope scope(record.op ? record.op : "a kernel");
        fail(fault.kind, filled(fault.text, record, word.index), " (on device '", to_string(device),
             where.empty() ? "')" : "', called at " + where + ")");
    }
}

}  // namespace fb::gpu
