// Binding the arguments of a call to a signature: positions, keywords in several spellings, spread lists, conversion,
// and the reasons why a call does not fit.
#include "bindings/op_bind.h"

#include "bindings/convert.h"
#include "bindings/items.h"

namespace fb::py {

std::string type_name(PyObject* o) {
    std::string name = Py_TYPE(o)->tp_name;
    return name.substr(name.rfind('.') + 1);
}

std::string contents(PyObject* o) {
    std::string text = type_name(o);
    if (!is_tuple_or_list(o)) return text;
    const char* separator = " of ";
    std::string last;
    int count = 0;
    all_items(o, [&](PyObject* one) {
        std::string item = type_name(one);
        if (item != last) text += separator + item, separator = ", ";
        last = item;
        return ++count < 8;
    });
    return text;
}

namespace {

// NumPy's and the array API's spellings of our argument names.
const std::pair<const char*, const char*> spellings[] = {
    {"axis", "dim"}, {"axes", "dims"}, {"axis", "dims"}, {"dims", "dim"},   {"keepdims", "keepdim"}, {"x", "input"},
    {"x1", "input"}, {"x2", "other"},  {"a", "input"},   {"self", "input"}, {"shape", "size"},       {"size", "shape"}};

// The expected kind of argument, for an error: "dtype (or None), say flambeau.float32".
std::string described(const Param& p) {
    std::string text = p.type_text.substr(p.type_text.find_first_not_of('*'));
    if (p.optional && text.back() == '?') text.pop_back();
    if (text == "Tensor[]") text = "tuple of Tensors";
    if (text == "int[]") text = "tuple of ints";
    if (p.optional) text += " (or None)";
    if (p.type == ArgType::DType) text += ", say flambeau.float32";
    return text;
}

// Why a value does not fit a parameter, in PyTorch's words.
std::string refusal(const Param& p, int place, bool positional, PyObject* value) {
    std::string where = "argument '" + p.name + "'";
    if (positional) where += " (position " + std::to_string(place + 1) + ")";
    std::string text = where + " must be " + described(p) + ", not " + contents(value);
    if (p.type == ArgType::TensorList && is_tuple_or_list(value)) {
        int place = 0;
        all_items(value, [&](PyObject* item) {
            if (is_tensor(item)) return ++place, true;
            text =
                "expected Tensor as element " + std::to_string(place) + " in " + where + ", but got " + type_name(item);
            return false;
        });
    }
    return text;
}

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

}  // namespace

bool bind(const Overload& o, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Args& a, Binding& b,
          Misfit misfit, bool is_operator) {
    const Signature& sig = o.signature;
    int n = static_cast<int>(sig.params.size());
    for (int i = 0; i < n; i++) b.raw[i] = nullptr;
    int spread_at = -1;
    Py_ssize_t used = nargs;
    for (int i = 0; i < sig.positional; i++) {
        if (!sig.params[i].spread || i >= nargs) continue;
        bool sequence = is_tuple_or_list(args[i]);
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
        return misfit.say([&] {
            return "takes at most " + std::to_string(sig.positional) + " positional arguments, got " +
                   std::to_string(nargs);
        });
    }
    for (Py_ssize_t i = 0; i < used; i++) b.raw[i] = args[i];
    PyObject* const* values = args + nargs;
    auto bind_keyword = [&](PyObject* key) {
        PyObject* value = *values++;
        if ((o.flags & OUT) && (PyUnicode_CompareWithASCIIString(key, "out") == 0)) {
            b.out = value == Py_None ? nullptr : value;
            return true;
        }
        int i = find_param(sig, key);
        if (i < 0)
            return misfit.say([&] { return "got an unexpected keyword argument '" + std::string(text_of(key)) + "'"; });
        if (b.raw[i] || i == spread_at)
            return misfit.say([&] { return "got multiple values for argument '" + sig.params[i].name + "'"; });
        b.raw[i] = value;
        return true;
    };
    if (kwnames && !all_items(kwnames, bind_keyword)) return false;
    for (int i = 0; i < n; i++) {
        const Param& p = sig.params[i];
        if (i == spread_at) {
            if (p.type == ArgType::TensorList) {
                std::vector<Tensor> list;
                for (Py_ssize_t k = i; k < nargs; k++) {
                    if (!is_tensor(args[k]))
                        return misfit.say(
                            [&] { return "argument '" + p.name + "' must be tensors, got " + type_name(args[k]); });
                    list.push_back(tensor_of(args[k]));
                }
                a.values[i] = std::move(list);
                continue;
            }
            Dims dims;
            for (Py_ssize_t k = i; k < nargs; k++) {
                int64_t v;
                if (!int_of(args[k], v))
                    return misfit.say(
                        [&] { return "argument '" + p.name + "' must be ints, got " + type_name(args[k]); });
                dims.push_back(v);
            }
            a.values[i] = std::move(dims);
            continue;
        }
        if (!b.raw[i]) {
            if (p.spread && p.type == ArgType::TensorList) {
                a.values[i] = std::vector<Tensor>();  // no tensors after a star are an empty list
                continue;
            }
            if (!p.has_default) return misfit.say([&] { return "missing required argument '" + p.name + "'"; });
            a.values[i] = p.default_value;
            continue;
        }
        if (!convert_arg(b.raw[i], is_operator && p.type == ArgType::Tensor ? operand_param : p, a.values[i])) {
            return misfit.say([&] { return refusal(p, i - misfit.first, i < used, b.raw[i]); });
        }
    }
    return true;
}

}  // namespace fb::py
