// Errors found by kernels. A kernel writes a word in its stream (FAIL, Note [Kernel text]); the meaning of the word is
// stored here under the number of the launch, and raised at the next wait for the device.
#include <array>
#include <mutex>

#include "backend/gpu/profile.h"
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
    int codes = 0;
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

std::string filled(const char* text, const Launch& record, int64_t index) {
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
        ring().records[number % kept] = {number, current_op, l.faults, l.a, l.b, line, l.codes};
    }
    DeviceScope scope(device, current_stream(device), ProfileEvent::Kernel, current_op ? current_op : "a kernel");
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
        std::string line = describe_location && record.line.code ? describe_location(record.line) : "";
        std::string where = "on device '" + to_string(device) + (line.empty() ? "'" : "', called at " + line);
        OpScope scope(record.op ? record.op : "a kernel");
        raise_fault({.faults = record.faults, .a = record.a, .b = record.b, .codes = record.codes}, word, where);
    }
}

void raise_fault(const Launch& launch, const FaultWord& word, const std::string& where) {
    if (!launch.faults || word.code < 0 || word.code >= launch.codes)
        fail(ErrorKind::Index, "the kernel reported error ", word.code, " at index ", word.index, " (", where, ")");
    const Fault& fault = launch.faults[word.code];
    fail(fault.kind, filled(fault.text, launch, word.index), " (", where, ")");
}

}  // namespace fb::gpu
