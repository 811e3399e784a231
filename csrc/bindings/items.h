// Reading the items of tuples, lists, sequences and dictionaries. Only this header uses the C API that gives out
// borrowed items (tests/repo/test_layers.py sees to that).
//
// Note [Borrowed items]: nearly every conversion of a Python object can run the user's code (__index__, __float__,
// __len__, __getitem__, a finaliser), which may empty the list that the object came from. So
//  - Items owns what it gives out and does not change: for loops that convert;
//  - all_items and any_item read the list anew at each step: for questions that run no Python code, such as a look at
//    the type.
#pragma once
#include "bindings/python.h"

namespace fb::py {

inline bool is_tuple_or_list(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }

// The items of a sequence, as they were at one moment. A tuple cannot change and is only held; anything else is copied.
class Items {
  public:
    explicit Items(PyObject* sequence)
        : tuple_(PyTuple_Check(sequence) ? Owned::borrow(sequence) : Owned(ok(in_python<PySequence_Tuple>(sequence)))) {
    }
    Py_ssize_t size() const { return PyTuple_GET_SIZE(tuple_.get()); }
    // Borrowed from this object.
    PyObject* operator[](Py_ssize_t i) const { return PyTuple_GET_ITEM(tuple_.get(), i); }
    PyObject* const* begin() const { return &PyTuple_GET_ITEM(tuple_.get(), 0); }
    PyObject* const* end() const { return begin() + size(); }

  private:
    Owned tuple_;
};

// How many items a tuple or list holds at this moment, whatever the __len__ of a subclass says.
inline Py_ssize_t count_items(PyObject* sequence) { return PySequence_Fast_GET_SIZE(sequence); }

// Whether `f` holds for every item of a tuple or list; `f` must not run Python code.
template <class F>
bool all_items(PyObject* sequence, F f) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
        if (!f(PySequence_Fast_GET_ITEM(sequence, i))) return false;
    }
    return true;
}
template <class F>
bool any_item(PyObject* sequence, F f) {
    return !all_items(sequence, [&](PyObject* item) { return !f(item); });
}

// The value under a key; empty when there is none.
inline Owned find_item(PyObject* dict, const char* key) {
    Owned name(ok(PyUnicode_FromString(key)));
    Owned value = Owned::borrow(PyDict_GetItemWithError(dict, name.get()));
    if (!value && PyErr_Occurred()) throw PythonError{};
    return value;
}

// The characters of a str, which it owns; raises for what UTF-8 cannot hold.
inline const char* text_of(PyObject* o) {
    const char* text = PyUnicode_AsUTF8(o);
    if (!text) throw PythonError{};
    return text;
}

// For arguments declared as any object that must be a tensor.
inline Tensor expect_tensor(PyObject* o, const char* what) {
    if (!is_tensor(o)) fail_type(what, " must be a tensor, got ", Py_TYPE(o)->tp_name);
    return tensor_of(o);
}

}  // namespace fb::py
