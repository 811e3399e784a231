// Parses the text of formulas: names, numbers, calls and members of p, with C++'s operators and their precedence.
#include "device/formula.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace fb {
namespace {

// Binary operators by precedence, loosest first.
constexpr std::initializer_list<const char*> levels[] = {
    {"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}};
constexpr size_t level_count = std::size(levels);

class Parser {
  public:
    explicit Parser(const char* text) : text_(text), at_(text) {}

    Expression whole() {
        Expression e = binary(0);
        skip();
        if (*at_) fail_here("an operator");
        return e;
    }

  private:
    [[noreturn]] void fail_here(const char* expected) {
        fail_value("formula '", text_, "': expected ", expected, " at position ", at_ - text_);
    }
    void skip() {
        while (std::isspace(static_cast<unsigned char>(*at_))) at_++;
    }
    bool take(const char* token) {
        skip();
        size_t n = std::strlen(token);
        if (std::strncmp(at_, token, n) != 0) return false;
        // "|" is not the beginning of "||", nor "<" of "<=".
        if (n == 1 && std::strchr("|&", *token) && at_[1] == *token) return false;
        if (n == 1 && std::strchr("<>", *token) && at_[1] == '=') return false;
        at_ += n;
        return true;
    }
    static Expression call(std::string name, std::vector<Expression> arguments) {
        return {Expression::Type::Call, std::move(name), 0, std::move(arguments)};
    }

    Expression binary(size_t level) {
        if (level == level_count) return unary();
        Expression left = binary(level + 1);
        while (true) {
            const char* found = nullptr;
            for (const char* op : levels[level]) {
                if (take(op)) {
                    found = op;
                    break;
                }
            }
            if (!found) return left;
            Expression right = binary(level + 1);
            left = call(found, {std::move(left), std::move(right)});
        }
    }
    Expression unary() {
        for (const char* op : {"-", "!", "~"}) {
            if (take(op)) return call(op, {unary()});
        }
        return primary();
    }
    Expression primary() {
        skip();
        if (take("(")) {
            Expression e = binary(0);
            if (!take(")")) fail_here("')'");
            return e;
        }
        if (std::isdigit(static_cast<unsigned char>(*at_))) {
            char* end;
            double value = std::strtod(at_, &end);
            std::string digits(at_, static_cast<size_t>(end - at_));
            at_ = end;
            return {Expression::Type::Literal, digits, value, {}};
        }
        std::string name;
        while (std::isalnum(static_cast<unsigned char>(*at_)) || *at_ == '_' || *at_ == '.' || *at_ == ':') {
            if (*at_ != ':') name += *at_;  // ::j0 is C's j0
            at_++;
        }
        if (name.empty()) fail_here("a name, a number or '('");
        if (!take("(")) return {Expression::Type::Name, name, 0, {}};
        std::vector<Expression> arguments;
        if (!take(")")) {
            do arguments.push_back(binary(0));
            while (take(","));
            if (!take(")")) fail_here("',' or ')'");
        }
        return call(std::move(name), std::move(arguments));
    }

    const char* text_;
    const char* at_;
};

}  // namespace

Expression parse_formula(const char* text) { return Parser(text).whole(); }

}  // namespace fb
