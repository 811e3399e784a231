// The arguments of a call of an op, bound to one of its signatures.
#pragma once
#include <string>

#include "bindings/op.h"

namespace fb::py {

struct Binding {
    PyObject* raw[Args::max_args];
    Dims spread_values;
    PyObject* out = nullptr;
};

// Why a call does not fit; only filled when somebody wants to read it.
struct Misfit {
    std::string* text;
    int first = 0;  // the parameter that a caller counts as the first: a method's own tensor is not counted
    // why() is the text; it is made only where somebody asks.
    template <class F>
    bool say(F&& why) {
        if (text) *text = why();
        return false;
    }
};

// Whether the arguments fit the overload; then `a` has their values, and `b` the objects that stand for them.
bool bind(const Overload& o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Args& a, Binding& b,
          Misfit misfit, bool is_operator = false);

// The class of an object, and with that of a list or tuple the classes of what is in it.
std::string type_name(PyObject* o);
std::string contents(PyObject* o);

}  // namespace fb::py
