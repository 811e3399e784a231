#include "ops/table/registry.h"

#include <unordered_map>

#include "ops/table/gradient.h"

namespace fb {

std::deque<OpEntry>& op_table() {
    static std::deque<OpEntry> table;
    return table;
}

static std::unordered_map<std::string, OpEntry*>& by_name() {
    static std::unordered_map<std::string, OpEntry*> index;
    return index;
}

OpEntry& op_entry(const std::string& name) {
    OpEntry*& entry = by_name()[name];
    if (!entry) {
        op_table().push_back({name, "", {}, ""});
        entry = &op_table().back();
    }
    return *entry;
}

Register::Register(const char* signature, unsigned flags, OpFn fn, const char* doc) {
    std::string text = signature;
    OpEntry& entry = op_entry(text.substr(0, text.find('(')));
    OpOverload& o = entry.overloads.emplace_back();
    o.text = std::move(text);
    o.flags = flags;
    o.fn = fn;
    if (doc) entry.doc = doc;
}

Register::Alias::Alias(const char* name, const char* target) { op_entry(name).alias_of = target; }

void link_overload(const OpEntry& entry, OpOverload& o) {
    o.signature = parse_signature(o.text);
    o.entry = &entry;
    o.mutates = entry.name.size() > 1 && entry.name.back() == '_' && entry.name[entry.name.size() - 2] != '_';
    for (size_t i = 0; i < o.signature.params.size(); i++) {
        const Param& p = o.signature.params[i];
        bool tensor = p.type == ArgType::Tensor || p.type == ArgType::Operand || p.type == ArgType::TensorList;
        o.place.push_back(tensor ? o.tensors++ : o.others++);
        if (p.name == "requires_grad") o.requires_grad = static_cast<int>(i);
    }
}

void link_ops() {
    for (OpEntry& entry : op_table()) {
        for (OpOverload& o : entry.overloads) link_overload(entry, o);
    }
    // A key that names one overload takes precedence over one that names the op.
    for (bool specific : {false, true}) {
        for (Gradient& gradient : gradient_table()) {
            if ((gradient.key.find('(') != std::string::npos) == specific) link_gradient(gradient);
        }
    }
}

}  // namespace fb
