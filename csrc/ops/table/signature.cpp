#include "ops/table/signature.h"

#include <cstdlib>
#include <limits>

namespace fb {
namespace {

std::string trim(const std::string& s) {
    size_t a = s.find_first_not_of(' '), b = s.find_last_not_of(' ');
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

// Splits at commas that are not inside brackets or quotes.
std::vector<std::string> split_commas(const std::string& s) {
    std::vector<std::string> parts;
    int depth = 0;
    bool quoted = false;
    std::string part;
    for (char c : s) {
        if (c == '\'') quoted = !quoted;
        if (!quoted && (c == '(' || c == '[')) depth++;
        if (!quoted && (c == ')' || c == ']')) depth--;
        if (c == ',' && depth == 0 && !quoted) {
            parts.push_back(trim(part));
            part.clear();
        } else {
            part += c;
        }
    }
    if (!trim(part).empty()) parts.push_back(trim(part));
    return parts;
}

ArgType parse_type(const std::string& t, const std::string& where) {
    if (t == "Tensor") return ArgType::Tensor;
    if (t == "Operand") return ArgType::Operand;
    if (t == "Tensor[]") return ArgType::TensorList;
    if (t == "Scalar") return ArgType::Scalar;
    if (t == "int") return ArgType::Int;
    if (t == "int[]") return ArgType::IntList;
    if (t == "float") return ArgType::Float;
    if (t == "bool") return ArgType::Bool;
    if (t == "str") return ArgType::Str;
    if (t == "dtype") return ArgType::DType;
    if (t == "device") return ArgType::Device;
    if (t == "layout") return ArgType::Layout;
    if (t == "memory_format") return ArgType::MemoryFormat;
    if (t == "Generator") return ArgType::Generator;
    if (t == "any") return ArgType::Any;
    fail_state("unknown argument type '", t, "' in the signature ", where);
}

Value parse_default(const std::string& s, ArgType type, const std::string& where) {
    if (s == "None") return {};
    if (s == "True") return Scalar(true);
    if (s == "False") return Scalar(false);
    if (s[0] == '\'') return s.substr(1, s.size() - 2);
    if (s[0] == '[' || s[0] == '(') {
        Dims values;
        for (const std::string& part : split_commas(s.substr(1, s.size() - 2)))
            values.push_back(std::atoll(part.c_str()));
        return values;
    }
    if (s == "inf") return Scalar(std::numeric_limits<double>::infinity());
    if (s == "nan") return Scalar(std::numeric_limits<double>::quiet_NaN());
    char* end = nullptr;
    double number = std::strtod(s.c_str(), &end);
    if (*end) fail_state("cannot read the default '", s, "' in the signature ", where);
    bool whole = s.find_first_of(".e") == std::string::npos;
    Scalar value = whole ? Scalar(static_cast<int64_t>(std::atoll(s.c_str()))) : Scalar(number);
    if (type == ArgType::IntList) return Dims{value.i};
    if (type == ArgType::Operand) return scalar_tensor(value, whole ? DType::I64 : DType::F64, true);
    return value;
}

Param parse_param(std::string s, const std::string& where) {
    Param p;
    if (s[0] == '*') {
        p.spread = true;
        s = s.substr(1);
    }
    if (size_t eq = s.find('='); eq != std::string::npos) {
        p.has_default = true;
        p.default_text = trim(s.substr(eq + 1));
        s = trim(s.substr(0, eq));
    }
    size_t space = s.rfind(' ');
    if (space == std::string::npos) fail_state("argument '", s, "' lacks a type in the signature ", where);
    p.name = s.substr(space + 1);
    p.type_text = trim(s.substr(0, space));
    std::string type = p.type_text;
    if (type.back() == '?') {
        p.optional = true;
        type.pop_back();
    }
    p.type = parse_type(type, where);
    if (p.has_default) p.default_value = parse_default(p.default_text, p.type, where);
    return p;
}

}  // namespace

Signature parse_signature(const std::string& text) {
    Signature sig;
    sig.text = text;
    size_t open = text.find('('), arrow = text.rfind(" -> ");
    if (open == std::string::npos || arrow == std::string::npos) fail_state("malformed signature: ", text);
    size_t close = text.rfind(')', arrow);
    sig.name = text.substr(0, open);
    bool keyword_only = false;
    for (const std::string& part : split_commas(text.substr(open + 1, close - open - 1))) {
        if (part == "*") {
            keyword_only = true;
            continue;
        }
        sig.params.push_back(parse_param(part, text));
        sig.params.back().keyword_only = keyword_only;
        if (!keyword_only) sig.positional++;
    }
    if (sig.params.size() > Args::max_args) fail_state("too many arguments in the signature ", text);
    std::string result = trim(text.substr(arrow + 4));
    if (result == "Tensor") sig.result = Signature::Result::Tensor;
    else if (result == "Tensor[]") sig.result = Signature::Result::Tuple;
    else if (result == "list") sig.result = Signature::Result::List;
    else if (result[0] == '(') {
        sig.result = Signature::Result::Named;
        for (const std::string& field : split_commas(result.substr(1, result.size() - 2))) {
            size_t space = field.rfind(' ');
            if (space == std::string::npos) fail_state("a result without a name in the signature ", text);
            sig.fields.push_back(field.substr(space + 1));
        }
    } else sig.result = Signature::Result::Value;
    return sig;
}

}  // namespace fb
