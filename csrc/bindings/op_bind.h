// Binds the arguments of a call to a signature of an op.
#pragma once
#include <string>

#include "bindings/op.h"

namespace fb::py {

struct Binding {
    PyObject* raw[Args::max_args];
    Dims spread_values;
    PyObject* out = nullptr;
};

// Why a call does not fit a signature; only recorded when requested.
struct Misfit {
    std::string* text;
    int first = 0;  // the parameter that counts as the first for the caller: a method's own tensor is not counted
    // why() makes the text; called only when requested.
    template <class F>
    bool say(F&& why) {
        if (text) *text = why();
        return false;
    }
};

// Whether the arguments fit the overload; then `a` has their values, and `b` the objects they came from.
bool bind(const Overload& o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Args& a, Binding& b,
          Misfit misfit, bool is_operator = false);

// The class of an object, and for a list or tuple also the classes of its items.
std::string type_name(PyObject* o);
std::string contents(PyObject* o);

}  // namespace fb::py
