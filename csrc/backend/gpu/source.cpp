#include "backend/gpu/source.h"

#include <set>

namespace fb::gpu {
namespace {

// The plain functions of the vocabulary: functions or macros with the prefix m_.
const std::set<std::string>& words() {
    static const std::set<std::string> all = [] {
        std::set<std::string> found;
        std::string text = std::string(words_of(DType::F64)) + words_of(DType::I32) + words_of(DType::Bool);
        for (size_t at = text.find("m_"); at != std::string::npos; at = text.find("m_", at + 1)) {
            size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at);
            found.insert(text.substr(at + 2, end - at - 2));
        }
        return found;
    }();
    return all;
}
bool is_operator(const std::string& name) {
    static const std::set<std::string> all{
        "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "&", "|", "^", "!", "~"};
    return all.contains(name);
}

bool write(const Expression& e, DType compute, std::string& text) {
    if (e.type == Expression::Type::Literal) {
        bool whole = e.name.find_first_of(".e") == std::string::npos;
        text += whole || compute != DType::F32 ? e.name : e.name + "f";
        return true;
    }
    if (e.type == Expression::Type::Name) {
        bool number = e.name.starts_with("p.");
        text += number ? "g." + e.name.substr(2) : e.name;
        return number || e.name.size() == 1;
    }
    auto part = [&](size_t i) { return write(e.arguments[i], compute, text); };
    if (e.name == "where") {
        text += "((";
        if (!part(0)) return false;
        text += ") ? (";
        if (!part(1)) return false;
        text += ") : (";
        if (!part(2)) return false;
        text += "))";
        return true;
    }
    if (e.name == "bool" || (e.name == "T" && compute == DType::Bool)) {
        text += "((T)((";
        if (!part(0)) return false;
        text += ") != 0))";
        return true;
    }
    bool infix = is_operator(e.name);
    // Integer division guards against zero.
    if (infix && (e.name == "/" || e.name == "%") && e.arguments.size() == 2 && !is_floating(compute)) return false;
    std::string between = ", ";
    if (e.name == "T") {
        text += "((T)(";
    } else if (infix) {
        text += "(";
        between = " " + e.name + " ";
        if (e.arguments.size() == 1) text += e.name;
    } else {
        if (!words().contains(e.name)) return false;
        text += "m_" + e.name + "(";
    }
    for (size_t i = 0; i < e.arguments.size(); i++) {
        if (i) text += between;
        if (!part(i)) return false;
    }
    text += e.name == "T" ? "))" : ")";
    return true;
}

}  // namespace

const char* compute_type(DType d) {
    switch (d) {
        case DType::Bool:
        case DType::U8:
            return "u8";
        case DType::U16:
            return "u16";
        case DType::U32:
            return "u32";
        case DType::U64:
            return "u64";
        case DType::I8:
            return "i8";
        case DType::I16:
            return "i16";
        case DType::I32:
            return "i32";
        case DType::I64:
            return "i64";
        case DType::F16:
        case DType::BF16:
        case DType::F32:
            return "f32";
        case DType::F64:
            return "f64";
        default:
            return nullptr;
    }
}
const char* stored_type(DType d) { return is_half(d) ? "u16" : compute_type(d); }

std::string loaded(DType from, const std::string& element) {
    if (from == DType::Bool) return "(" + element + " != 0)";
    if (from == DType::F16) return "half_value(" + element + ")";
    if (from == DType::BF16) return "bfloat_value(" + element + ")";
    return element;
}
std::string converted(DType computed, DType to, const std::string& value) {
    if (computed == to) return to == DType::Bool ? "((" + value + ") != 0)" : "(" + value + ")";
    if (to == DType::Bool) return "((" + value + ") != 0)";
    if (is_half(to)) {
        std::string single = computed == DType::F64 ? "odd_of(" + value + ")" : "(f32)(" + value + ")";
        return (to == DType::F16 ? "half_of(" : "bfloat_of(") + single + ")";
    }
    std::string type = compute_type(to);
    if (is_floating(computed) && is_integral(to)) {
        if (itemsize(to) < 4) return "(" + type + ")small_of(" + value + ")";
        return type + "_of(" + value + ")";
    }
    return "(" + type + ")(" + value + ")";
}

bool converts(DType from, DType to) { return compute_type(from) && compute_type(to); }

std::optional<std::string> expression(const Expression& tree, DType compute) {
    std::string text;
    if (!write(tree, compute, text)) return std::nullopt;
    return text;
}
std::optional<std::string> expression(const Formula& formula, DType compute) {
    return expression(parse_formula(formula.text), compute);
}

}  // namespace fb::gpu
