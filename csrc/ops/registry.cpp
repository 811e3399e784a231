#include "ops/registry.h"

namespace fb {

std::vector<OpEntry>& op_table() {
    static std::vector<OpEntry> table;
    return table;
}

OpEntry& op_entry(const std::string& name) {
    for (OpEntry& entry : op_table()) {
        if (entry.name == name) return entry;
    }
    op_table().push_back({name, "", {}, ""});
    return op_table().back();
}

Register::Register(const char* signature, unsigned flags, OpFn fn, const char* doc) {
    std::string text = signature;
    OpEntry& entry = op_entry(text.substr(0, text.find('(')));
    entry.overloads.push_back({text, flags, fn, nullptr});
    if (doc) entry.doc = doc;
}

Register::Alias::Alias(const char* name, const char* target) { op_entry(name).alias_of = target; }

}  // namespace fb
