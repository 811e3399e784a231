// Calling an op from Python: binds the arguments to the signatures in order, runs the op, and stores or wraps the
// results.
#include "bindings/op.h"

#include <mutex>
#include <set>

#include "base/profile.h"
#include "base/wording.h"
#include "bindings/autograd.h"
#include "bindings/convert.h"
#include "bindings/items.h"
#include "bindings/op_bind.h"
#include "bindings/override.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"
#include "ops/table/out_rules.h"

namespace fb::py {

namespace {

// A parsed argument for Python; the caller's own objects are passed on.
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
    return Owned(ok(in_python<PyObject_Vectorcall>(o.python, argv.data(), argv.size() - names, kwnames.get())));
}

std::vector<Tensor> out_tensors(PyObject* out, size_t expected, const char* name) {
    std::vector<Tensor> list;
    if (is_tensor(out)) list.push_back(tensor_of(out));
    else if (is_tuple_or_list(out)) {
        for (PyObject* o : Items(out)) list.push_back(expect_tensor(o, "every item of out"));
    } else fail_type("out must be a tensor or a tuple of tensors, got ", type_name(out));
    if (list.size() != expected) fail_type("out needs ", expected, " tensor(s), got ", list.size(), " for ", name);
    return list;
}

PyObject* wrap_result(const Overload& o, const Value& value) {
    if (const Tensor* t = std::get_if<Tensor>(&value); t && *t) return ok(wrap(*t));
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
        if (o.named) {
            Owned result(ok(PyStructSequence_New(o.named)));
            for (size_t i = 0; i < list->size(); i++)
                PyStructSequence_SetItem(result.get(), static_cast<Py_ssize_t>(i), wrap_value((*list)[i]));
            return result.release();
        }
        Owned tuple(wrap_value(value));
        return o.signature.result == Signature::Result::List ? ok(in_python<PySequence_List>(tuple.get()))
                                                             : tuple.release();
    }
    return wrap_value(value);
}

void check_count(Py_ssize_t got, size_t expected) {
    if (static_cast<size_t>(got) != expected) fail_state("the op returned ", got, " results, expected ", expected);
}

// The composite running on this thread: errors of the ops it calls carry its name, the one the user called.
thread_local const char* composite_name = nullptr;
struct CompositeScope {
    const char* previous = composite_name;
    explicit CompositeScope(const char* name) {
        if (!previous) composite_name = name;
    }
    ~CompositeScope() { composite_name = previous; }
};

// The Python object among the arguments whose class handles op calls, if there is one.
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

// {name: value} of all arguments.
Owned arguments_of(const Overload& o, const Args& a, const Binding& b) {
    Owned dict(ok(PyDict_New()));
    for (int i = 0; i < a.count; i++) {
        Owned value = argument_object(o, a, b, i);
        ok(PyDict_SetItemString(dict.get(), o.signature.params[i].name.c_str(), value.get()));
    }
    if (b.out) ok(PyDict_SetItemString(dict.get(), "out", b.out));
    return dict;
}

// Inside vmap, ops that draw numbers follow the innermost level even when none of their arguments is batched.
thread_local bool draws_in_vmap = false;

PyObject* give_away(PyObject* who, const Overload& o, Mode mode, const Args& a, const Binding& b, OpHandle* h) {
    const std::string name = mode == Mode::Inplace ? h->name + "_" : h->name;
    if (who) return hand_over(who, name, arguments_of(o, a, b));
    Owned module(ok(in_python<PyImport_ImportModule>("flambeau.func._batching.randomness")));
    return ok(in_python<PyObject_CallMethod>(module.get(), "draw", "sO", name.c_str(), arguments_of(o, a, b).get()));
}

// Stores a composite's result in the caller's tensor.
void store(const Tensor& to, bool inplace, const Tensor& result) {
    if (!should_record({to, result})) {
        if (inplace && grad_enabled()) check_inplace(to);
        else check_not_inference(to);
        return store_output(to, inplace, result);
    }
    if (!inplace)
        fail_state(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires "
            "grad; drop out=, or call it under no_grad()");
    check_output(to, inplace, result.shape(), result.dtype());
    call<"copy_">(Var(to), Var(result));
}

// For the duration of a call with out=: whether it must have the dtype of the result.
struct ExactOut {
    bool previous = exact_out;
    ExactOut(const std::string& name, const Overload& o) {
        exact_out = takes_exact_out(name) || (!o.python && takes_exact_out(o.op->entry->name));
    }
    ~ExactOut() { exact_out = previous; }
    ExactOut(const ExactOut&) = delete;
    ExactOut& operator=(const ExactOut&) = delete;
};

// The tensors given as out=, and their shapes: a resize that hides elements from the caller deserves a warning.
class Outs {
  public:
    std::vector<Tensor> tensors;

    void remember() {
        for (const Tensor& t : tensors) before_.push_back(t.shape());
    }
    // Ops that create tensors resize without a warning, as in PyTorch.
    void warn_if_resized(bool creates) const {
        for (size_t i = 0; i < tensors.size() && !creates; i++) {
            const Dims &was = before_[i], &is = tensors[i].shape();
            if (was == is || checked_numel(was) == 0) continue;
            std::ostringstream text;
            text << "An output with one or more elements was resized since it had shape " << was
                 << ", which does not match the required output shape " << is
                 << ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless "
                    "they "
                    "have zero elements; give out= that shape, or empty it first with resize_(0)";
            if (PyErr_WarnEx(PyExc_UserWarning, text.str().c_str(), 1) < 0) throw PythonError{};
        }
    }

  private:
    std::vector<Dims> before_;
};

// ---- the stages of a call -------------------------------------------------------------------------------------------

// A call whose arguments are bound.
struct Call {
    OpHandle* h;
    const Overload& o;
    Mode mode;
    Args& a;
    Binding& b;

    bool inplace() const { return mode == Mode::Inplace; }
    // Whether the result is stored in an existing tensor.
    bool stores() const { return inplace() || b.out; }
};

// Calls that are handled by the class of an argument or by vmap; nullptr for all others.
PyObject* handed_over(const Call& c) {
    if (!c.o.python) {
        if (PyObject* who = taker(c.a, c.b)) return give_away(who, c.o, c.mode, c.a, c.b, c.h);
    }
    if (c.o.draws && draws_in_vmap) return give_away(nullptr, c.o, c.mode, c.a, c.b, c.h);
    return nullptr;
}

// Takes the tensors of out= from the caller.
void take_outs(const Call& c, Outs& given, bool recorded) {
    const Signature& signature = c.o.signature;
    size_t expected = signature.result == Signature::Result::Named ? signature.fields.size() : 1;
    given.tensors = out_tensors(c.b.out, expected, c.h->short_name.c_str());
    given.remember();
    for (const Tensor& t : given.tensors)
        if (grad_enabled() && requires_grad(t.impl()) &&
            (c.o.python || !constant(*c.o.op) || c.o.op->requires_grad >= 0))
            fail_state(
                "functions with out=... arguments don't support automatic differentiation, but one of the "
                "arguments requires grad: out; detach() it, or call it under no_grad()");
    if (given.tensors.size() == 1) c.a.out = given.tensors[0];
    else if (recorded && !c.o.python)
        fail_state(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad; drop out=, or call it under no_grad()");
}

// A composite's results are returned as they are, unless they are stored in existing tensors; a plain tuple of a
// composite with named results is converted to the named type.
PyObject* named_result(const Overload& o, Owned result) {
    if (!o.named || !PyTuple_CheckExact(result.get())) return result.release();
    Items items(result.get());
    check_count(items.size(), o.signature.fields.size());
    Owned named(ok(PyStructSequence_New(o.named)));
    for (Py_ssize_t i = 0; i < items.size(); i++) PyStructSequence_SetItem(named.get(), i, Py_NewRef(items[i]));
    return named.release();
}
Owned compute_composite(const Call& c, const char* name) {
    CompositeScope composite(name);
    ProfileScope profile(ProfileEvent::Op, [&] { return c.h->name; }, [&] { return shapes_of(c.a); });
    return call_python(c.o, c.a, c.b);
}
Value tensors_in(const Owned& result) {
    if (is_tensor(result.get())) return tensor_of(result.get());
    std::vector<Tensor> list;
    for (PyObject* one : Items(result.get())) list.push_back(expect_tensor(one, "every result of an op with out="));
    return list;
}

// Long work releases the interpreter lock; for short work that would cost more than it gains.
bool is_long(const Args& a) {
    bool large = false;
    for (int i = 0; i < a.count && !large; i++) {
        if (const Tensor* t = std::get_if<Tensor>(&a.values[i])) large = *t && t->numel() >= 16384;
        else if (const auto* l = std::get_if<std::vector<Tensor>>(&a.values[i]))
            large = !l->empty() && (*l)[0].numel() >= 4096;
        else if (const auto* d = std::get_if<Object>(&a.values[i]); d && d->ptr)
            return false;  // the op will access a Python object: keep the lock
    }
    return large;
}
Value compute_in_core(const Call& c) {
    std::optional<UnlockedOp> unlocked;
    if (is_long(c.a)) unlocked.emplace();
    return invoke(*c.o.op, c.a);
}

// Stores a composite's result in the caller's tensor; ops of the core have written there already.
void store_composed(const Call& c, const Value& value) {
    if (!c.o.python && !(c.o.op->flags & COMPOSITE)) return;
    if (const Tensor* t = std::get_if<Tensor>(&value); t && !t->is_same(c.a.out)) store(c.a.out, c.inplace(), *t);
}
// Stores several results in several tensors of out=.
void store_all(const Call& c, const std::vector<Tensor>& outs, const std::vector<Tensor>& results) {
    check_count(static_cast<Py_ssize_t>(results.size()), outs.size());
    for (size_t i = 0; i < outs.size(); i++) {
        for (size_t j = 0; j < i; j++)
            check(!share_memory(outs[i], outs[j]), "the tensors given as out overlap in memory");
        for (int k = 0; k < c.a.count; k++) {
            const Tensor* in = std::get_if<Tensor>(&c.a.values[k]);
            check(!in || !*in || !in->is_same(outs[i]) || outs[i].shape() == results[i].shape(),
                  "unsupported operation: out= is an input of another shape than the result; clone() it first");
        }
        bool wider = !c.o.python && (c.o.op->flags & WIDER) && can_cast(results[i].dtype(), outs[i].dtype());
        if (outs[i].dtype() == results[i].dtype() || wider) continue;
        if (!c.o.python && (c.o.op->flags & WIDER))
            fail_cast(results[i].dtype(), outs[i].dtype(), c.o.signature.fields[i].c_str());
        fail_type(OutDType{results[i].dtype(), outs[i].dtype()}, ": out for '", c.o.signature.fields[i],
                  "' must be of dtype ", results[i].dtype());
    }
    for (size_t i = 0; i < outs.size(); i++) {
        if (!outs[i].is_same(results[i])) store(outs[i], false, results[i]);
    }
}

// Computes a call whose arguments are bound: hand over, cast, prepare out=, compute, store, wrap.
PyObject* compute(const Call& c, PyObject* const* args) {
    const char* name = c.inplace() ? c.h->inplace_name.c_str() : c.h->name.c_str();
    OpScope scope(composite_name ? composite_name : name);
    if (PyObject* result = handed_over(c)) return result;
    bool recorded = grad_enabled() && any_requires_grad(c.a);
    if (recorded || c.stores() || c.o.op->mutates || profiling.load(std::memory_order_relaxed))
        current_location = here();
    std::optional<AutocastOff> without;
    if (autocast.on && c.h->cast != Cast::None && !c.stores()) {
        cast_arguments(c.h->cast, c.a, [&](int i) { c.b.raw[i] = nullptr; });
        without.emplace();
    }
    Outs given;
    std::optional<ExactOut> exact;
    if (c.inplace()) {
        c.a.out = c.a.tensor(0);
        c.a.inplace = true;
    } else if (c.b.out) {
        take_outs(c, given, recorded);
        exact.emplace(c.h->name, c.o);
    }
    Value value;
    if (c.o.python) {
        Owned result = compute_composite(c, name);
        if (!c.stores()) return named_result(c.o, std::move(result));
        value = tensors_in(result);
    } else value = compute_in_core(c);
    if (!c.stores()) return wrap_result(c.o, value);
    if (c.inplace()) {
        store_composed(c, value);
        return Py_NewRef(c.b.raw[0] ? c.b.raw[0] : args[0]);
    }
    bool one = given.tensors.size() == 1;
    if (one) store_composed(c, value);
    else store_all(c, given.tensors, std::get<std::vector<Tensor>>(value));
    given.warn_if_resized(c.o.device_at >= 0);
    return one ? Py_NewRef(c.b.out) : wrap_result(c.o, Value(given.tensors));
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
        bind(*o, args, nargs, kwnames, a, b, Misfit{&why, mode == Mode::Function ? 0 : 1});
        if (PyErr_Occurred()) throw PythonError{};
        text += "\n    " + o->signature.text + "\n        " + why;
        last = why;
        tried++;
    }
    std::string got;
    auto add = [&](const std::string& one) { got.append(got.empty() ? "" : ", ").append(one); };
    for (Py_ssize_t i = mode == Mode::Function ? 0 : 1; i < nargs; i++) add(contents(args[i]));
    if (kwnames) {
        Items names(kwnames);
        for (Py_ssize_t i = 0; i < names.size(); i++)
            add(std::string(text_of(names[i])).append("=").append(contents(args[nargs + i])));
    }
    if (tried == 1) text = last + "; expected " + text.substr(5, text.find("\n        ") - 5);
    else text = "but expected one of:" + text;
    text = "received an invalid combination of arguments - got (" + got + "); " + text;
    PyErr_SetString(PyExc_TypeError, (name + ": " + text).c_str());
    throw PythonError{};
}

}  // namespace

PyObject* call(OpHandle* h, Mode mode, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        Py_ssize_t given = nargs + (kwnames ? PyTuple_Size(kwnames) : 0);
        if (overridden(args, given)) return give_to_class(h, mode, args, nargs, kwnames);
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
            if (fits) return compute({h, *o, mode, a, b}, args);
        }
        no_match(h, mode, wanted, args, nargs, kwnames);
    });
}

PyObject* set_draws_in_vmap(PyObject*, PyObject* on) {
    return guarded([&]() -> PyObject* {
        draws_in_vmap = truth(on);
        Py_RETURN_NONE;
    });
}

const char* kept(const char* name) {
    static Mutex lock;
    static auto* names = new std::set<std::string>;
    std::lock_guard guard(lock);
    return names->insert(name).first->c_str();
}

// call_as(name, function, *args): errors of the ops that the function calls carry the name, also those that a device
// reports later.
PyObject* call_as(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return guarded([&]() -> PyObject* {
        check(count >= 2, "call_as: expected a name and a function");
        CompositeScope scope(kept(text_of(args[0])));
        return ok(in_python<PyObject_Vectorcall>(args[1], args + 2, static_cast<size_t>(count - 2), nullptr));
    });
}

// An op of a gradient formula, handed to the class of one of its tensors like a call from Python.
static Value hand_over_from_core(const OpOverload& op, Args& a, const Tensor& taker) {
    Lock lock;
    Owned who(ok(wrap(taker))), dict(ok(PyDict_New()));
    for (int i = 0; i < a.count; i++) {
        const Value& v = a.values[i];
        const Tensor* t = std::get_if<Tensor>(&v);
        Owned value(t && *t && t->is_wrapped_number() ? wrap(fb::item(*t))
                    : std::holds_alternative<Dims>(v) ? wrap_tuple(std::get<Dims>(v))
                                                      : wrap_value(v));
        ok(PyDict_SetItemString(dict.get(), op.signature.params[static_cast<size_t>(i)].name.c_str(), value.get()));
    }
    Owned result(hand_over(who.get(), a.inplace ? op.entry->name + "_" : op.entry->name, dict));
    if (is_tensor(result.get())) return tensor_of(result.get());
    std::vector<Tensor> list;
    for (PyObject* item : Items(result.get())) list.push_back(is_tensor(item) ? tensor_of(item) : Tensor());
    return list;
}
[[maybe_unused]] static const bool hand_over_ready = (hand_over_op = hand_over_from_core, true);

PyObject* hand_over(PyObject* who, const std::string& name, const Owned& arguments) {
    Owned method(
        ok(in_python<PyObject_GetAttrString>(reinterpret_cast<PyObject*>(Py_TYPE(who)), "__flambeau_dispatch__")));
    return ok(in_python<PyObject_CallFunction>(method.get(), "sO", name.c_str(), arguments.get()));
}

PyObject* hand_over(PyObject* who, const std::string& name,
                    const std::vector<std::pair<const char*, PyObject*>>& arguments) {
    Owned dict(ok(PyDict_New()));
    for (auto& [key, value] : arguments) ok(PyDict_SetItemString(dict.get(), key, value));
    return hand_over(who, name, dict);
}

}  // namespace fb::py
