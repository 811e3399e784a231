// Helpers around the C API: owned references, error translation, and the types of this package.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "base/wording.h"
#include "bindings/interpreter.h"
#include "ops/table/registry.h"
#include "tensor/tensor.h"

namespace fb::py {

// An owned reference.
class Owned {
  public:
    Owned() = default;
    explicit Owned(PyObject* p) : p_(p) {}
    Owned(Owned&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(p_, other.p_);
        return *this;
    }
    ~Owned() {
        try {
            Py_XDECREF(p_);
        } catch (abi::__forced_unwind&) {
            sleep_forever();
        }
    }
    static Owned borrow(PyObject* p) { return Owned(Py_XNewRef(p)); }
    PyObject* get() const { return p_; }
    PyObject* release() { return std::exchange(p_, nullptr); }
    explicit operator bool() const { return p_; }

  private:
    PyObject* p_ = nullptr;
};

// Thrown when a Python exception is already set.
struct PythonError {};

inline PyObject* ok(PyObject* p) {
    if (!p) throw PythonError{};
    return p;
}
inline void ok(int status) {
    if (status < 0) throw PythonError{};
}
// Truth value of an object; its __bool__ may raise.
inline bool truth(PyObject* o) {
    int answer = PyObject_IsTrue(o);
    ok(answer);
    return answer == 1;
}

// Turns the C++ exception in flight into a Python one.
void translate_exception();

// guarded([&] { … return PyObject*; }) for the body of a C API entry point.
template <class F>
PyObject* guarded(F&& f) {
    try {
        return f();
    } catch (abi::__forced_unwind&) {
        sleep_forever();
    } catch (...) {
        translate_exception();
        return nullptr;
    }
}
template <class F>
int guarded_int(F&& f) {
    try {
        return f();
    } catch (abi::__forced_unwind&) {
        sleep_forever();
    } catch (...) {
        translate_exception();
        return -1;
    }
}

// ---- types ----------------------------------------------------------------------------------------------------------

struct PyTensor {
    PyObject_HEAD TensorImpl* impl;
    PyObject* dict;
    PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;
extern PyTypeObject* dtype_type;
extern PyTypeObject* device_type;
extern PyTypeObject* generator_type;
extern PyTypeObject* size_type;  // flambeau.Size, a tuple
// Exception classes by ErrorKind, set from flambeau.errors.
extern PyObject* error_classes[8];

inline bool is_tensor(PyObject* o) { return Py_IS_TYPE(o, tensor_type) || PyObject_TypeCheck(o, tensor_type); }
[[noreturn]] void not_a_tensor(PyObject* o);
// Raises for other objects: a value returned by Python code may have the wrong type, whatever isinstance() says.
inline Tensor tensor_of(PyObject* o) {
    if (!is_tensor(o)) not_a_tensor(o);
    return Tensor(Ref<TensorImpl>(reinterpret_cast<PyTensor*>(o)->impl));
}
// For code that reads strides or memory.
inline Tensor settled(PyObject* o) {
    Tensor t = tensor_of(o);
    settle(t);
    return t;
}
// The tensor on the CPU, copied if necessary, for code that reads elements in C++.
Tensor on_cpu(const Tensor& t);
inline Tensor readable(PyObject* o) {
    Tensor t = settled(o);
    check_readable(t);
    return t.device().type == DeviceType::CPU ? t : on_cpu(t);
}
// For code that exposes the memory itself.
inline Tensor host_memory(PyObject* o) {
    Tensor t = settled(o);
    check_readable(t);
    if (t.device().type != DeviceType::CPU) [[unlikely]]
        fail_type("can't convert ", to_string(t.device()),
                  " device type tensor to numpy: other libraries cannot see its memory. Use Tensor.cpu() to copy the "
                  "tensor to host memory first");
    return t;
}
// New reference; the same object for the same tensor while the object lives.
PyObject* wrap(const Tensor& t);
// A new object of `type`, a subclass of Tensor, with the same tensor data.
PyObject* wrap_as(const Tensor& t, PyTypeObject* type);

PyObject* wrap(DType dtype);
PyObject* wrap(Device device);
PyObject* wrap(const Ref<Generator>& generator);
PyObject* wrap(const Scalar& value);
PyObject* wrap_size(const Dims& shape);
PyObject* wrap_tuple(const Dims& values);
bool is_dtype(PyObject* o);
DType dtype_of(PyObject* o);
Device device_of(PyObject* o);  // a device object
Ref<Generator> generator_of(PyObject* o);

// Converts a Python number (NumPy scalars included) to Scalar; false if it is not one. Never accepts str, bytes or
// tensors.
bool scalar_of(PyObject* o, Scalar& out);
bool is_numpy_array(PyObject* o);

void add_types(PyObject* module);
void add_size(PyObject* module);
void add_tensor_type(PyObject* module);
void add_ops(PyObject* module);
void add_construct(PyObject* module);
void add_system(PyObject* module);
void add_profile(PyObject* module);
void add_autocast(PyObject* module);
void add_exchange(PyObject* module);
void add_autograd(PyObject* module);

// Calls a registered op by name with Python arguments (borrowed); used by the operators.
struct OpHandle;
OpHandle* find_op(const char* name);
// Hands a call to the class of `who`, a tensor of a class with __flambeau_dispatch__(op name, arguments).
PyObject* hand_over(PyObject* who, const std::string& name,
                    const std::vector<std::pair<const char*, PyObject*>>& arguments);
PyObject* hand_over(PyObject* who, const std::string& name, const Owned& arguments);
PyObject* call_op(OpHandle* op, bool inplace, PyObject* const* args, Py_ssize_t count, PyObject* kwnames = nullptr);

}  // namespace fb::py
