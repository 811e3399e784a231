// Ops as Python callables. One vectorcall entry serves every op: it binds the arguments to the signatures in order,
// runs the op, and stores or wraps what comes back.
#include <map>
#include <memory>

#include "bindings/autocast.h"
#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/python.h"
#include "ops/common.h"
#include "ops/dispatch.h"

namespace fb::py {

struct Overload {
    const OpOverload* op;  // in the op table, or made here for a composite
    const Signature& signature;
    unsigned flags;
    PyObject* python;               // composite, or nullptr
    PyTypeObject* named = nullptr;  // result type of a named result
    std::unique_ptr<OpOverload> own;
};

struct OpHandle {
    std::string name;          // with namespace: linalg.solve
    std::string short_name;    // solve
    std::string inplace_name;  // solve_
    std::string doc;
    std::vector<std::unique_ptr<Overload>> overloads;
    unsigned flags = 0;
    Cast cast = Cast::None;       // under autocast
    PyObject* callables[3] = {};  // function, method, in-place method: one object for all names of the op
};

namespace {

// Operators are functions that also take a number on the left: 2 - x.
enum class Mode { Function, Method, Inplace, Operator };

struct PyOp {
    PyObject_HEAD vectorcallfunc vectorcall;
    OpHandle* handle;
    Mode mode;
};

PyTypeObject *function_type = nullptr, *method_type = nullptr;
std::map<std::string, std::unique_ptr<OpHandle>>& handles() {
    static auto* all = new std::map<std::string, std::unique_ptr<OpHandle>>;
    return *all;
}
PyObject* out_name = nullptr;
PyObject* return_types = nullptr;  // dict: name → struct sequence type

// NumPy's and the array API's spellings of our argument names.
const std::pair<const char*, const char*> spellings[] = {
    {"axis", "dim"}, {"axes", "dims"}, {"axis", "dims"}, {"dims", "dim"},   {"keepdims", "keepdim"}, {"x", "input"},
    {"x1", "input"}, {"x2", "other"},  {"a", "input"},   {"self", "input"}, {"shape", "size"},       {"size", "shape"}};

struct Binding {
    PyObject* raw[Args::max_args];
    Dims spread_values;
    PyObject* out = nullptr;
};

// Why a call does not fit; only filled when somebody wants to read it.
struct Misfit {
    std::string* text;
    bool say(const std::string& s) {
        if (text) *text = s;
        return false;
    }
};

std::string type_name(PyObject* o) { return Py_TYPE(o)->tp_name; }

int find_param(const Signature& sig, PyObject* name) {
    int n = static_cast<int>(sig.params.size());
    for (int i = 0; i < n; i++) {
        if (sig.params[i].interned == name) return i;
    }
    for (int i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(name, sig.params[i].name.c_str()) == 0) return i;
    }
    for (auto [spelling, ours] : spellings) {
        if (PyUnicode_CompareWithASCIIString(name, spelling) != 0) continue;
        for (int i = 0; i < n; i++) {
            if (sig.params[i].name == ours) return i;
        }
    }
    return -1;
}

Param make_operand_param() {
    Param p;
    p.type = ArgType::Operand;
    return p;
}
const Param operand_param = make_operand_param();

bool bind(const Overload& o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Args& a, Binding& b,
          Misfit misfit, bool is_operator = false) {
    const Signature& sig = o.signature;
    int n = static_cast<int>(sig.params.size());
    for (int i = 0; i < n; i++) b.raw[i] = nullptr;
    int spread_at = -1;
    Py_ssize_t used = nargs;
    for (int i = 0; i < sig.positional; i++) {
        if (!sig.params[i].spread || i >= nargs) continue;
        bool sequence = PyTuple_Check(args[i]) || PyList_Check(args[i]);
        bool collects = sig.params[i].type == ArgType::TensorList
                            ? is_tensor(args[i])
                            : !sequence && !(nargs == i + 1 && (is_tensor(args[i]) || args[i] == Py_None));
        if (collects) {
            spread_at = i;
            used = i;
        }
        break;
    }
    if (used > sig.positional) {
        return misfit.say("takes at most " + std::to_string(sig.positional) + " positional arguments, got " +
                          std::to_string(nargs));
    }
    for (Py_ssize_t i = 0; i < used; i++) b.raw[i] = args[i];
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t k = 0; k < nkw; k++) {
        PyObject* key = PyTuple_GET_ITEM(kwnames, k);
        PyObject* value = args[nargs + k];
        if ((o.flags & OUT) && (key == out_name || PyUnicode_Compare(key, out_name) == 0)) {
            b.out = value == Py_None ? nullptr : value;
            continue;
        }
        int i = find_param(sig, key);
        if (i < 0) return misfit.say("got an unexpected keyword argument '" + std::string(PyUnicode_AsUTF8(key)) + "'");
        if (b.raw[i] || i == spread_at)
            return misfit.say("got multiple values for argument '" + sig.params[i].name + "'");
        b.raw[i] = value;
    }
    for (int i = 0; i < n; i++) {
        const Param& p = sig.params[i];
        if (i == spread_at) {
            if (p.type == ArgType::TensorList) {
                std::vector<Tensor> list;
                for (Py_ssize_t k = i; k < nargs; k++) {
                    if (!is_tensor(args[k]))
                        return misfit.say("argument '" + p.name + "' must be tensors, got " + type_name(args[k]));
                    list.push_back(tensor_of(args[k]));
                }
                a.values[i] = std::move(list);
                continue;
            }
            Dims dims;
            for (Py_ssize_t k = i; k < nargs; k++) {
                int64_t v;
                if (!int_of(args[k], v))
                    return misfit.say("argument '" + p.name + "' must be ints, got " + type_name(args[k]));
                dims.push_back(v);
            }
            a.values[i] = std::move(dims);
            continue;
        }
        if (!b.raw[i]) {
            if (!p.has_default) return misfit.say("missing required argument '" + p.name + "'");
            a.values[i] = p.default_value;
            continue;
        }
        if (!convert_arg(b.raw[i], is_operator && p.type == ArgType::Tensor ? operand_param : p, a.values[i])) {
            return misfit.say("argument '" + p.name + "' must be " + p.type_text + (p.optional ? " (or None)" : "") +
                              ", not " + type_name(b.raw[i]));
        }
    }
    return true;
}

// A parsed argument for Python; objects the caller gave are passed on as they are.
Owned argument_object(const Overload& o, const Args& a, const Binding& b, int i) {
    const Param& p = o.signature.params[i];
    bool keep = b.raw[i] && p.type != ArgType::IntList && p.type != ArgType::DType && p.type != ArgType::Device &&
                p.type != ArgType::Bool && p.type != ArgType::Int;
    if (keep) return Owned::borrow(b.raw[i]);
    if (std::holds_alternative<Dims>(a.values[i])) return Owned(wrap_tuple(a.dims(i)));
    if (std::holds_alternative<Tensor>(a.values[i]) && a.tensor(i).is_wrapped_number())
        return Owned(wrap(fb::item(a.tensor(i))));
    return Owned(wrap_value(a.values[i]));
}

// Calls a composite with the parsed arguments.
Owned call_python(const Overload& o, const Args& a, const Binding& b) {
    std::vector<Owned> made;
    std::vector<PyObject*> argv;
    int n = static_cast<int>(o.signature.params.size()), names = 0;
    std::vector<PyObject*> kw;
    for (int i = 0; i < n; i++) {
        const Param& p = o.signature.params[i];
        made.push_back(argument_object(o, a, b, i));
        argv.push_back(made.back().get());
        if (p.keyword_only) {
            kw.push_back(static_cast<PyObject*>(p.interned));
            names++;
        }
    }
    Owned kwnames;
    if (names) {
        kwnames = Owned(ok(PyTuple_New(names)));
        for (int i = 0; i < names; i++) PyTuple_SET_ITEM(kwnames.get(), i, Py_NewRef(kw[i]));
    }
    return Owned(ok(PyObject_Vectorcall(o.python, argv.data(), argv.size() - names, kwnames.get())));
}

std::vector<Tensor> out_tensors(PyObject* out, size_t expected, const char* name) {
    std::vector<Tensor> list;
    if (is_tensor(out)) list.push_back(tensor_of(out));
    else if (PyTuple_Check(out) || PyList_Check(out)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); i++) {
            PyObject* o = PySequence_Fast_GET_ITEM(out, i);
            if (!is_tensor(o)) fail_type("out must hold tensors, got ", type_name(o));
            list.push_back(tensor_of(o));
        }
    } else fail_type("out must be a tensor or a tuple of tensors, got ", type_name(out));
    if (list.size() != expected) fail_type("out needs ", expected, " tensor(s), got ", list.size(), " for ", name);
    return list;
}

PyObject* wrap_result(const Overload& o, const Value& value) {
    if (const Tensor* t = std::get_if<Tensor>(&value)) return wrap_value(*t);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
        if (o.named) {
            Owned result(ok(PyStructSequence_New(o.named)));
            for (size_t i = 0; i < list->size(); i++)
                PyStructSequence_SetItem(result.get(), static_cast<Py_ssize_t>(i), wrap_value((*list)[i]));
            return result.release();
        }
        Owned tuple(wrap_value(value));
        return o.signature.result == Signature::Result::List ? ok(PySequence_List(tuple.get())) : tuple.release();
    }
    return wrap_value(value);
}

// The composite that runs on this thread: errors of the ops it is made of carry its name, the one the user called.
thread_local const char* composite_name = nullptr;
struct CompositeScope {
    const char* previous = composite_name;
    explicit CompositeScope(const char* name) {
        if (!previous) composite_name = name;
    }
    ~CompositeScope() { composite_name = previous; }
};

// The Python object among the arguments whose class takes over op calls, if there is one.
PyObject* taker(const Args& a, const Binding& b) {
    auto object_of = [](const Tensor& t) {
        return t && t.impl()->functorial ? static_cast<PyObject*>(t.impl()->pyobj) : nullptr;
    };
    for (int i = 0; i < a.count; i++) {
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) {
            if (PyObject* o = object_of(*t)) return o;
        } else if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[i])) {
            for (const Tensor& t : *list) {
                if (PyObject* o = object_of(t)) return o;
            }
        }
    }
    return b.out && is_tensor(b.out) ? object_of(tensor_of(b.out)) : nullptr;
}

PyObject* give_away(PyObject* who, const Overload& o, Mode mode, const Args& a, const Binding& b, OpHandle* h) {
    std::vector<Owned> made;
    std::vector<std::pair<const char*, PyObject*>> arguments;
    for (int i = 0; i < a.count; i++) {
        made.push_back(argument_object(o, a, b, i));
        arguments.emplace_back(o.signature.params[i].name.c_str(), made.back().get());
    }
    if (b.out) arguments.emplace_back("out", b.out);
    return hand_over(who, mode == Mode::Inplace ? h->name + "_" : h->name, arguments);
}

// A result computed by a composite, put where the caller wants it.
void store(const Tensor& to, bool inplace, const Tensor& result) {
    if (!should_record({to, result})) {
        if (inplace && grad_enabled()) check_inplace(to);
        return store_output(to, inplace, result);
    }
    if (!inplace)
        fail_state(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires "
            "grad; leave out= away, or call it under no_grad()");
    check_output(to, inplace, result.shape(), result.dtype());
    call<"copy_">(Var(to), Var(result));
}

PyObject* run(OpHandle* h, const Overload& o, Mode mode, Args& a, Binding& b, PyObject* const* args) {
    const char* name = mode == Mode::Inplace ? h->inplace_name.c_str() : h->name.c_str();
    OpScope scope(composite_name ? composite_name : name);
    if (!o.python) {
        if (PyObject* who = taker(a, b)) return give_away(who, o, mode, a, b, h);
    }
    bool recorded = grad_enabled() && any_requires_grad(a);
    if (recorded || mode == Mode::Inplace || b.out || o.op->mutates) current_location = here();
    std::optional<AutocastOff> without;
    if (autocast.on && h->cast != Cast::None && mode != Mode::Inplace && !b.out) {
        cast_arguments(h->cast, a, [&](int i) { b.raw[i] = nullptr; });
        without.emplace();
    }
    std::vector<Tensor> outs;
    if (mode == Mode::Inplace) {
        a.out = a.tensor(0);
        a.inplace = true;
    } else if (b.out) {
        outs = out_tensors(b.out, o.signature.result == Signature::Result::Named ? o.signature.fields.size() : 1,
                           h->short_name.c_str());
        if (outs.size() == 1) a.out = outs[0];
        else if (recorded && !o.python)
            fail_state(
                "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad; leave out= away, or call it under no_grad()");
    }
    Value value;
    if (o.python) {
        CompositeScope composite(name);
        Owned result = call_python(o, a, b);
        if (mode != Mode::Inplace && !b.out) {
            // A plain tuple of a composite with named results becomes the named one.
            if (o.named && PyTuple_CheckExact(result.get())) {
                Owned named(ok(PyStructSequence_New(o.named)));
                for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); i++)
                    PyStructSequence_SetItem(named.get(), i, Py_NewRef(PyTuple_GET_ITEM(result.get(), i)));
                return named.release();
            }
            return result.release();
        }
        if (is_tensor(result.get())) value = tensor_of(result.get());
        else {
            std::vector<Tensor> list;
            Owned sequence(ok(PySequence_Fast(result.get(), "a composite with out= must return tensors")));
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); i++)
                list.push_back(tensor_of(PySequence_Fast_GET_ITEM(sequence.get(), i)));
            value = std::move(list);
        }
    } else {
        // Long work leaves the interpreter to other threads; for short work that would cost more than it gives.
        bool large = false;
        for (int i = 0; i < a.count && !large; i++) {
            if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) large = *t && t->numel() >= 16384;
            else if (const auto* l = std::get_if<std::vector<Tensor>>(&a.values[i]))
                large = !l->empty() && (*l)[0].numel() >= 4096;
            else if (const auto* d = std::get_if<Object>(&a.values[i]); d && d->ptr) {
                large = false;
                break;  // the op will look at a Python object: keep the lock
            }
        }
        struct Unlock {
            PyThreadState* state;
            explicit Unlock(bool on) : state(on ? PyEval_SaveThread() : nullptr) {}
            ~Unlock() {
                if (state) PyEval_RestoreThread(state);
            }
        } unlock(large);
        value = invoke(*o.op, a);
    }
    if (mode == Mode::Inplace) {
        if (o.python) {
            if (const Tensor* t = std::get_if<Tensor>(&value); t && !t->is_same(a.out)) store(a.out, true, *t);
        }
        return Py_NewRef(b.raw[0] ? b.raw[0] : args[0]);
    }
    if (outs.size() == 1) {
        if (o.python) {
            if (const Tensor* t = std::get_if<Tensor>(&value); t && !t->is_same(a.out)) store(a.out, false, *t);
        }
        return Py_NewRef(b.out);
    }
    if (outs.size() > 1) {
        const auto& results = std::get<std::vector<Tensor>>(value);
        for (size_t i = 0; i < outs.size(); i++) {
            for (size_t j = 0; j < i; j++)
                check(!share_memory(outs[i], outs[j]), "the tensors given as out overlap in memory");
        }
        for (size_t i = 0; i < outs.size(); i++) {
            if (!outs[i].is_same(results[i])) store(outs[i], false, results[i]);
        }
        return wrap_result(o, Value(outs));
    }
    return wrap_result(o, value);
}

[[noreturn]] void no_match(OpHandle* h, Mode mode, unsigned wanted, PyObject* const* args, Py_ssize_t nargs,
                           PyObject* kwnames) {
    const std::string& name = mode == Mode::Inplace ? h->inplace_name : h->name;
    std::string text, last;
    int tried = 0;
    for (auto& o : h->overloads) {
        if (!(o->flags & wanted)) continue;
        Args a(o->signature.size());
        Binding b;
        std::string why;
        bind(*o, args, nargs, kwnames, a, b, Misfit{&why});
        if (PyErr_Occurred()) throw PythonError{};
        text += "\n    " + o->signature.text + "\n        " + why;
        last = why;
        tried++;
    }
    if (tried == 1) text = last + "; expected " + text.substr(5, text.find("\n        ") - 5);
    else text = "the arguments fit none of these:" + text;
    PyErr_SetString(PyExc_TypeError, (name + ": " + text).c_str());
    throw PythonError{};
}

PyObject* call(OpHandle* h, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        unsigned wanted = mode == Mode::Method ? METHOD : mode == Mode::Inplace ? INPLACE : FUNCTION;
        for (auto& o : h->overloads) {
            if (!(o->flags & wanted)) continue;
            Args a(o->signature.size());
            Binding b;
            bool fits;
            {
                OpScope scope(h->name.c_str());
                fits = bind(*o, args, nargs, kwnames, a, b, Misfit{nullptr}, mode == Mode::Operator);
            }
            if (fits) return run(h, *o, mode, a, b, args);
        }
        no_match(h, mode, wanted, args, nargs, kwnames);
    });
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return call(op->handle, op->mode, args, PyVectorcall_NARGS(nargsf), kwnames);
}

// ---- the two types: functions do not bind when stored in a class, methods do
// -----------------------------------------

const std::string& name_of(PyOp* op) {
    return op->mode == Mode::Inplace ? op->handle->inplace_name : op->handle->short_name;
}

PyObject* op_repr(PyObject* self) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return PyUnicode_FromFormat("<flambeau %s %s>", op->mode == Mode::Function ? "function" : "method",
                                name_of(op).c_str());
}
PyObject* op_name(PyObject* self, void*) {
    return PyUnicode_FromString(name_of(reinterpret_cast<PyOp*>(self)).c_str());
}
PyObject* op_qualname(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    return PyUnicode_FromString(((op->mode == Mode::Function ? "" : "Tensor.") + name_of(op)).c_str());
}
PyObject* op_module(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    size_t dot = op->handle->name.rfind('.');
    return PyUnicode_FromString(dot == std::string::npos || op->mode != Mode::Function
                                    ? "flambeau"
                                    : ("flambeau." + op->handle->name.substr(0, dot)).c_str());
}
PyObject* op_signatures(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    unsigned wanted = op->mode == Mode::Function ? FUNCTION : op->mode == Mode::Method ? METHOD : INPLACE;
    Owned list(PyList_New(0));
    for (auto& o : op->handle->overloads) {
        if (!(o->flags & wanted)) continue;
        Owned text(PyUnicode_FromString(o->signature.text.c_str()));
        PyList_Append(list.get(), text.get());
    }
    return PyList_AsTuple(list.get());
}
PyObject* op_doc(PyObject* self, void*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    std::string text;
    for (auto& o : op->handle->overloads) text += o->signature.text + "\n";
    return PyUnicode_FromString((text + "\n" + op->handle->doc).c_str());
}
PyObject* op_reduce(PyObject* self, PyObject*) {
    PyOp* op = reinterpret_cast<PyOp*>(self);
    if (op->mode == Mode::Function) return op_name(self, nullptr);
    Owned builtins(PyImport_ImportModule("builtins"));
    Owned get(PyObject_GetAttrString(builtins.get(), "getattr"));
    return Py_BuildValue("O(Os)", get.get(), tensor_type, name_of(op).c_str());
}
PyObject* op_get(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}
void op_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyGetSetDef op_getset[] = {
    {"__name__", op_name, nullptr, nullptr, nullptr},         {"__qualname__", op_qualname, nullptr, nullptr, nullptr},
    {"__module__", op_module, nullptr, nullptr, nullptr},     {"__doc__", op_doc, nullptr, nullptr, nullptr},
    {"signatures", op_signatures, nullptr, nullptr, nullptr}, {}};
PyMethodDef op_methods[] = {{"__reduce__", op_reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr}, {}};

PyTypeObject* make_op_type(const char* name, bool method) {
    std::vector<PyType_Slot> slots = {{Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                                      {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                                      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                      {Py_tp_getset, op_getset},
                                      {Py_tp_methods, op_methods},
                                      {Py_tp_members, op_members}};
    if (method) slots.push_back({Py_tp_descr_get, reinterpret_cast<void*>(op_get)});
    slots.push_back({0, nullptr});
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                     (method ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0u);
    PyType_Spec spec = {name, sizeof(PyOp), 0, flags, slots.data()};
    return reinterpret_cast<PyTypeObject*>(ok(PyType_FromSpec(&spec)));
}

Owned make_op(OpHandle* handle, Mode mode) {
    PyTypeObject* type = mode == Mode::Function ? function_type : method_type;
    PyOp* op = reinterpret_cast<PyOp*>(ok(type->tp_alloc(type, 0)));
    op->vectorcall = op_vectorcall;
    op->handle = handle;
    op->mode = mode;
    return Owned(reinterpret_cast<PyObject*>(op));
}

PyTypeObject* make_named_type(const Signature& sig) {
    auto* fields = new std::vector<PyStructSequence_Field>;
    for (const std::string& field : sig.fields) fields->push_back({strdup(field.c_str()), nullptr});
    fields->push_back({nullptr, nullptr});
    std::string short_name = sig.name.substr(sig.name.rfind('.') + 1);
    PyStructSequence_Desc desc = {strdup(("flambeau.return_types." + short_name).c_str()), nullptr, fields->data(),
                                  static_cast<int>(sig.fields.size())};
    PyTypeObject* type = PyStructSequence_NewType(&desc);
    if (!type) throw PythonError{};
    PyDict_SetItemString(
        return_types, sig.name.find('.') == std::string::npos ? short_name.c_str() : ("linalg_" + short_name).c_str(),
        reinterpret_cast<PyObject*>(type));
    return type;
}

void add_overload(OpHandle& handle, const OpOverload& source, PyObject* python) {
    std::unique_ptr<OpOverload> own;
    if (python) {
        own = std::make_unique<OpOverload>(source);
        own->signature = parse_signature(own->text);
    }
    const OpOverload* op = python ? own.get() : &source;
    auto o = std::make_unique<Overload>(op, op->signature, source.flags, python, nullptr, std::move(own));
    for (const Param& p : o->signature.params) p.interned = ok(PyUnicode_InternFromString(p.name.c_str()));
    if (o->signature.result == Signature::Result::Named) {
        // Overloads with the same fields share one type: instances must compare and pickle alike.
        for (auto& other : handle.overloads) {
            if (other->named && other->signature.fields == o->signature.fields) o->named = other->named;
        }
        if (!o->named) o->named = make_named_type(o->signature);
    }
    handle.flags |= o->flags;
    handle.overloads.push_back(std::move(o));
}

OpHandle& handle_for(const std::string& name) {
    auto& slot = handles()[name];
    if (!slot) {
        slot = std::make_unique<OpHandle>();
        slot->name = name;
        slot->short_name = name.substr(name.rfind('.') + 1);
        slot->inplace_name = slot->short_name + "_";
    }
    return *slot;
}

// Puts the op's callables under `name` into the namespace dictionaries: {"": {…}, "linalg": {…}} and the Tensor type.
void publish(PyObject* namespaces, OpHandle& handle, const std::string& name) {
    size_t dot = name.rfind('.');
    std::string space = dot == std::string::npos ? "" : name.substr(0, dot),
                short_name = name.substr(dot == std::string::npos ? 0 : dot + 1);
    PyObject* dict = PyDict_GetItemString(namespaces, space.c_str());
    Owned fresh;
    if (!dict) {
        fresh = Owned(ok(PyDict_New()));
        dict = fresh.get();
        ok(PyDict_SetItemString(namespaces, space.c_str(), dict));
    }
    auto callable = [&](Mode mode) {
        PyObject*& made = handle.callables[static_cast<int>(mode)];
        if (!made) made = make_op(&handle, mode).release();
        return made;
    };
    if (handle.flags & FUNCTION) ok(PyDict_SetItemString(dict, short_name.c_str(), callable(Mode::Function)));
    if (!space.empty()) return;  // special.expit is no method
    PyObject* type = reinterpret_cast<PyObject*>(tensor_type);
    if (handle.flags & METHOD) ok(PyObject_SetAttrString(type, short_name.c_str(), callable(Mode::Method)));
    if (handle.flags & INPLACE) {
        ok(PyObject_SetAttrString(type, (short_name + "_").c_str(), callable(Mode::Inplace)));
        if (handle.flags & FUNCTION)
            ok(PyDict_SetItemString(dict, (short_name + "_").c_str(), callable(Mode::Inplace)));
    }
}

PyObject* namespaces_ = nullptr;

// _C.define(signature, flags, function, doc): a composite written in Python.
PyObject* define(PyObject*, PyObject* args) {
    const char *signature, *doc;
    unsigned flags;
    PyObject* function;
    if (!PyArg_ParseTuple(args, "sIOs", &signature, &flags, &function, &doc)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::string text = signature;
        std::string name = text.substr(0, text.find('('));
        OpHandle& handle = handle_for(name);
        OpOverload source;
        source.text = text;
        source.flags = flags;
        add_overload(handle, source, Py_NewRef(function));
        if (*doc) handle.doc = doc;
        publish(namespaces_, handle, name);
        Py_RETURN_NONE;
    });
}

PyObject* define_alias(PyObject*, PyObject* args) {
    const char *name, *target;
    if (!PyArg_ParseTuple(args, "ss", &name, &target)) return nullptr;
    return guarded([&]() -> PyObject* {
        auto it = handles().find(target);
        if (it == handles().end()) fail_state("alias '", name, "' of an unknown op '", target, "'");
        publish(namespaces_, *it->second, name);
        Py_RETURN_NONE;
    });
}

// _C.registry(): {name: (signatures, flags, doc)} of every op.
PyObject* registry(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        Owned dict(ok(PyDict_New()));
        for (auto& [name, handle] : handles()) {
            if (!(handle->flags & (FUNCTION | METHOD | INPLACE))) continue;  // only gradient formulas use it
            Owned list(ok(PyList_New(0)));
            for (auto& o : handle->overloads) {
                Owned row(Py_BuildValue("sIO", o->signature.text.c_str(), o->flags, o->python ? Py_True : Py_False));
                ok(PyList_Append(list.get(), row.get()));
            }
            Owned entry(Py_BuildValue("Os", list.get(), handle->doc.c_str()));
            ok(PyDict_SetItemString(dict.get(), name.c_str(), entry.get()));
        }
        return dict.release();
    });
}

PyMethodDef functions[] = {
    {"define", define, METH_VARARGS, "define(signature, flags, function, doc): registers a composite op."},
    {"define_alias", define_alias, METH_VARARGS, "define_alias(name, target): another name for an op."},
    {"registry", registry, METH_NOARGS, "registry(): every op's signatures, flags and doc."},
    {}};

}  // namespace

PyObject* hand_over(PyObject* who, const std::string& name,
                    const std::vector<std::pair<const char*, PyObject*>>& arguments) {
    Owned dict(ok(PyDict_New()));
    for (auto& [key, value] : arguments) ok(PyDict_SetItemString(dict.get(), key, value));
    Owned method(ok(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(who)), "__flambeau_dispatch__")));
    return ok(PyObject_CallFunction(method.get(), "sO", name.c_str(), dict.get()));
}

OpHandle* find_op(const char* name) {
    auto it = handles().find(name);
    return it == handles().end() ? nullptr : it->second.get();
}

void set_cast(const char* op, Cast how) {
    if (OpHandle* handle = find_op(op)) handle->cast = how;
}

PyObject* call_op(OpHandle* op, bool inplace, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    return call(op, inplace ? Mode::Inplace : Mode::Operator, args, count, kwnames);
}

void add_ops(PyObject* module) {
    out_name = ok(PyUnicode_InternFromString("out"));
    return_types = ok(PyDict_New());
    function_type = make_op_type("flambeau._C.OpFunction", false);
    method_type = make_op_type("flambeau._C.OpMethod", true);
    namespaces_ = ok(PyDict_New());
    link_ops();
    for (OpEntry& entry : op_table()) {
        if (!entry.alias_of.empty()) continue;
        OpHandle& handle = handle_for(entry.name);
        handle.doc = entry.doc;
        for (const OpOverload& o : entry.overloads) add_overload(handle, o, nullptr);
        publish(namespaces_, handle, entry.name);
    }
    for (OpEntry& entry : op_table()) {
        if (entry.alias_of.empty()) continue;
        auto it = handles().find(entry.alias_of);
        if (it == handles().end()) fail_state("alias '", entry.name, "' of an unknown op '", entry.alias_of, "'");
        publish(namespaces_, *it->second, entry.name);
    }
    ok(PyModule_AddObjectRef(module, "namespaces", namespaces_));
    ok(PyModule_AddObjectRef(module, "return_types", return_types));
    ok(PyModule_AddFunctions(module, functions));
}

}  // namespace fb::py
