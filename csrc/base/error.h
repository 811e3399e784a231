// Error messages: every message is "op: what, got, expected, way out".
#pragma once
#include <exception>
#include <sstream>
#include <string>

namespace fb {

enum class ErrorKind { Value, Type, Index, State, Memory, NotImplemented, LinAlg };

class Error : public std::exception {
  public:
    Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }
    ErrorKind kind() const { return kind_; }

  private:
    ErrorKind kind_;
    std::string message_;
};

// Name of the op running on this thread; fail() prefixes every message with it.
extern thread_local const char* current_op;

struct OpScope {
    explicit OpScope(const char* name) : previous_(current_op) { current_op = name; }
    ~OpScope() { current_op = previous_; }
    OpScope(const OpScope&) = delete;
    OpScope& operator=(const OpScope&) = delete;

  private:
    const char* previous_;
};

[[noreturn]] void raise(ErrorKind kind, const std::string& message);

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    raise(kind, out.str());
}
template <class... Parts>
[[noreturn]] void fail_value(const Parts&... parts) {
    fail(ErrorKind::Value, parts...);
}
template <class... Parts>
[[noreturn]] void fail_type(const Parts&... parts) {
    fail(ErrorKind::Type, parts...);
}
template <class... Parts>
[[noreturn]] void fail_index(const Parts&... parts) {
    fail(ErrorKind::Index, parts...);
}
template <class... Parts>
[[noreturn]] void fail_state(const Parts&... parts) {
    fail(ErrorKind::State, parts...);
}

// check(condition, parts...) raises a ValueError with these parts if the condition does not hold.
template <class... Parts>
inline void check(bool ok, const Parts&... parts) {
    if (!ok) [[unlikely]]
        fail(ErrorKind::Value, parts...);
}

}  // namespace fb
