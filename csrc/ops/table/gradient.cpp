// Gradient formulas: their table, their view of a recorded call, and the ops they use.
#include "ops/table/gradient.h"

#include "ops/order/reduce.h"
#include "ops/shape/create.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"
#include "ops/table/elementwise.h"

namespace fb {

void (*call_python_gradient)(void*, GradCall&) = nullptr;

std::deque<Gradient>& gradient_table() {
    static std::deque<Gradient> table;
    return table;
}

RegisterGradient::RegisterGradient(const char* keys, std::initializer_list<uint32_t> uses, GradFn fn) {
    std::string text = keys;
    for (size_t start = 0; start <= text.size();) {
        size_t end = std::min(text.find('|', start), text.size());
        gradient_table().push_back({text.substr(start, end - start), uses, fn, nullptr});
        start = end + 1;
    }
}

void link_gradient(const Gradient& gradient) {
    size_t open = gradient.key.find('(');
    OpEntry& entry = op_entry(gradient.key.substr(0, open));
    bool found = false;
    for (OpOverload& o : entry.overloads) {
        if (open != std::string::npos && !o.text.starts_with(gradient.key)) continue;
        o.gradient = &gradient;
        found = true;
    }
    if (!found) fail_state("there is a gradient for '", gradient.key, "', but no such op");
}

// ---- the context of a formula ---------------------------------------------------------------------------------------

static uint32_t slot_of(const OpNode& node, int arg, int k) {
    return node.first[static_cast<size_t>(node.op.place[arg])] + static_cast<uint32_t>(k);
}

bool GradCall::has(int result) const { return gradients_[result].defined(); }
Var GradCall::g(int result) const {
    if (has(result)) return gradients_[result];
    return zeros_of(out_shape(result), out_dtype(result), node_.outputs[result].device);
}
int GradCall::count(int arg) const {
    auto at = static_cast<size_t>(node_.op.place[arg]);
    return static_cast<int>(node_.first[at + 1] - node_.first[at]);
}
bool GradCall::needs(int arg, int k) const {
    if (k >= count(arg)) return false;
    uint32_t slot = slot_of(node_, arg, k);
    return node_.next[slot].node && (slot >= 64 || (wanted_inputs >> slot & 1));
}
bool GradCall::needs(int arg) const {
    for (int k = 0; k < count(arg); k++) {
        if (needs(arg, k)) return true;
    }
    return false;
}
Var GradCall::in(int arg, int k) const {
    uint32_t slot = slot_of(node_, arg, k);
    const Saved& saved = node_.slots[slot].saved;
    if (!saved.defined())
        fail_state("the formula reads argument '", node_.op.signature.params[arg].name, "', which it does not declare");
    return saved.unpack(node_.next[slot], node_.slots[slot],
                        "the argument '" + node_.op.signature.params[arg].name + "'", node_.op.entry->name,
                        node_.where);
}
Var GradCall::out(int result) const {
    if (static_cast<size_t>(result) >= node_.results.size() || !node_.results[result].defined())
        fail_state("the formula reads result ", result, ", which it does not declare");
    // Indices have no gradient: results computed from them alone must not require one.
    Edge edge;
    if (DType type = out_dtype(result); differentiable(type))
        edge = {Ref<Node>(const_cast<OpNode*>(&node_)), static_cast<uint32_t>(result)};
    return node_.results[result].unpack(edge, node_.outputs[result], "the result", node_.op.entry->name, node_.where);
}
static bool is_tensor_param(const OpOverload& op, int arg) {
    ArgType type = op.signature.params[arg].type;
    return type == ArgType::Tensor || type == ArgType::Operand || type == ArgType::TensorList;
}
bool GradCall::given(int arg) const {
    if (is_tensor_param(node_.op, arg)) return count(arg) > 0;
    return !std::holds_alternative<std::monostate>(value(arg));
}
const Dims& GradCall::shape(int arg, int k) const { return node_.slots[slot_of(node_, arg, k)].shape; }
Device GradCall::device() const { return node_.outputs.size() ? node_.outputs[0].device : cpu_device; }
DType GradCall::dtype(int arg, int k) const { return node_.slots[slot_of(node_, arg, k)].dtype; }
const Dims& GradCall::out_shape(int result) const { return node_.outputs[result].shape; }
DType GradCall::out_dtype(int result) const { return node_.outputs[result].dtype; }
const Value& GradCall::value(int arg) const { return node_.others[static_cast<size_t>(node_.op.place[arg])]; }

bool GradCall::leave_gate() const {
    auto* maker = dynamic_cast<OpNode*>(node_.next[0].node.get());
    if (!maker || !(maker->op.flags & GATED) || node_.next[0].output != 0) return false;
    // A half value may have been rounded to zero.
    bool exact = out_dtype() == DType::F32 || out_dtype() == DType::F64;
    bool unseen = maker->use_count() == 1 && !maker->hooks && !node_.hooks && !grad_enabled() && !grad_modes.anomaly;
    if (exact && unseen) gated_nodes.push_back(maker);
    return exact && unseen;
}
bool GradCall::gated() const { return std::find(gated_nodes.begin(), gated_nodes.end(), &node_) != gated_nodes.end(); }

void GradCall::set(int arg, int k, const Var& gradient) {
    if (!needs(arg, k) || !gradient.defined()) return;
    const OpNode::Slot& slot = node_.slots[slot_of(node_, arg, k)];
    Var g = gradient;
    if (g.shape() != slot.shape) g = sum_to(g, slot.shape);
    if (g.dtype() != slot.dtype) g = cast(g, slot.dtype);
    if (g.device() != slot.device) [[unlikely]]
        g = on_device(g, slot.device);
    results_[slot_of(node_, arg, k)] = std::move(g.tensor);
}

// ---- differentiable ops ---------------------------------------------------------------------------------------------

Var::Var(double number) : tensor(scalar_tensor(Scalar(number), DType::F64, true)) {}
Var::Var(int number) : tensor(scalar_tensor(Scalar(number), DType::I64, true)) {}
Var::Var(const Scalar& number)
    : tensor(scalar_tensor(number,
                           number.kind == Kind::Floating  ? DType::F64
                           : number.kind == Kind::Complex ? DType::C128
                                                          : fb::dtype_of(number),
                           true)) {}

namespace call_detail {

Given::Given(const std::vector<Var>& list) : kind(Kind::Tensors) {
    std::vector<Tensor> tensors;
    for (const Var& v : list) tensors.push_back(v.tensor);
    value = std::move(tensors);
}

static bool fits(const Given& g, const Param& p) {
    switch (g.kind) {
        case Given::Kind::None:
            return p.optional;
        case Given::Kind::Tensor:
            return p.type == ArgType::Operand || p.type == ArgType::Tensor;
        case Given::Kind::Tensors:
            return p.type == ArgType::TensorList;
        case Given::Kind::Number:
            return p.type == ArgType::Operand || p.type == ArgType::Scalar || p.type == ArgType::Float ||
                   ((p.type == ArgType::Int || p.type == ArgType::IntList || p.type == ArgType::MemoryFormat) &&
                    std::get<Scalar>(g.value).is_integral());
        case Given::Kind::Bool:
            return p.type == ArgType::Bool;
        case Given::Kind::Dims:
            return p.type == ArgType::IntList;
        case Given::Kind::Text:
            return p.type == ArgType::Str;
        case Given::Kind::DType:
            return p.type == ArgType::DType;
        case Given::Kind::Device:
            return p.type == ArgType::Device;
    }
    return false;
}

const OpOverload& choose(const char* name, const Given* args, size_t count) {
    OpEntry* entry = &op_entry(name);
    if (!entry->alias_of.empty()) entry = &op_entry(entry->alias_of);
    for (const OpOverload& o : entry->overloads) {
        const auto& params = o.signature.params;
        bool ok = count <= params.size();
        for (size_t i = 0; ok && i < params.size(); i++)
            ok = i < count ? fits(args[i], params[i]) : params[i].has_default;
        if (ok) return o;
    }
    fail_state("a gradient formula calls '", name, "' with arguments that fit no overload");
}

Value invoke_given(const OpOverload& op, Given* args, size_t count) {
    const auto& params = op.signature.params;
    Args a(op.signature.size());
    for (size_t i = 0; i < params.size(); i++) {
        if (i >= count) {
            a.values[i] = params[i].default_value;
        } else if (args[i].kind == Given::Kind::Number && params[i].type == ArgType::Operand) {
            a.values[i] = Var(std::get<Scalar>(args[i].value)).tensor;
        } else if (args[i].kind == Given::Kind::Number && params[i].type == ArgType::IntList) {
            a.values[i] = Dims{std::get<Scalar>(args[i].value).i};
        } else {
            a.values[i] = std::move(args[i].value);
        }
    }
    OpScope scope(composite_op ? composite_op : op.entry->name.c_str());
    return invoke(op, a);
}

}  // namespace call_detail

// Two Python numbers give another one, in double; as tensors they would be promoted to the default dtype.
template <call_detail::Name name>
static Var arithmetic(const Var& x, const Var& y) {
    if (!x.tensor.is_wrapped_number() || !y.tensor.is_wrapped_number()) return call<name>(x, y);
    Var result = call<name>(detached(x), detached(y));
    result.tensor.impl()->wrapped_number = true;
    return result;
}
Var operator+(const Var& x, const Var& y) { return arithmetic<"add">(x, y); }
Var operator-(const Var& x, const Var& y) { return arithmetic<"sub">(x, y); }
Var operator*(const Var& x, const Var& y) { return arithmetic<"mul">(x, y); }
Var operator/(const Var& x, const Var& y) { return arithmetic<"div">(x, y); }
Var operator-(const Var& x) { return call<"neg">(x); }
Var operator>(const Var& x, const Var& y) { return call<"gt">(x, y); }
Var operator<(const Var& x, const Var& y) { return call<"lt">(x, y); }
Var operator>=(const Var& x, const Var& y) { return call<"ge">(x, y); }
Var operator<=(const Var& x, const Var& y) { return call<"le">(x, y); }
Var operator==(const Var& x, const Var& y) { return call<"eq">(x, y); }

Var conj(const Var& x) { return is_complex(x.dtype()) ? call<"conj">(x) : x; }
Var sum_to(const Var& x, const Dims& shape) { return x.shape() == shape ? x : call<"_sum_to">(x, shape); }
Var cast(const Var& x, DType dtype) { return x.dtype() == dtype ? x : call<"_cast">(x, dtype); }
Var zeros_like(const Var& x) { return zeros(x.shape(), x.dtype(), x.tensor.device()); }
Var ones_like(const Var& x) { return full(x.shape(), Scalar(1), x.dtype(), x.tensor.device()); }
Var zeros_of(const Dims& shape, DType dtype, Device device) { return zeros(shape, dtype, device); }
Var full_of(const Dims& shape, const Scalar& value, DType dtype, Device device) {
    return full(shape, value, dtype, device);
}
Var on_device(const Var& x, Device device) { return x.device() == device ? x : call<"_to_device">(x, device); }
bool is_true(const Var& condition) { return has_values(condition.tensor) && item(condition.tensor).i != 0; }
Var detached(const Var& x) {
    const Tensor& t = x.tensor;
    return make_view(t.storage_ref(), t.dtype(), t.shape(), t.strides(), t.offset());
}
Var masked(const Var& x, const Var& mask) {
    return x.shape() == mask.shape() ? call<"_masked">(x, mask) : masked_fill(x, logical_not(mask), 0);
}

// ---- ops that only formulas use -------------------------------------------------------------------------------------

OP("_sum_to(Tensor input, int[] size) -> Tensor", 0) {
    const Tensor& t = a.tensor(0);
    const Dims& size = a.dims(1);
    int64_t extra = t.dim() - size.size();
    check(extra >= 0, "a gradient of shape ", t.shape(), " cannot be summed to shape ", size);
    Dims over;
    for (int64_t d = 0; d < t.dim(); d++) {
        if (d < extra) over.push_back(d);
        else if (size[d - extra] == 1 && t.shape()[d] != 1) over.push_back(d);
        else
            check(size[d - extra] == t.shape()[d], "a gradient of shape ", t.shape(), " cannot be summed to shape ",
                  size);
    }
    Tensor sum = over.empty() ? t : fb::sum(t, over, true, t.dtype());
    return sum.shape() == size ? sum : reshape(sum, size);
}
GRAD("_sum_to") { c.set(0, expand(c.g(), c.shape(0))); }

OP("_cast(Tensor input, dtype dtype) -> Tensor", 0) {
    DType dtype = std::get<DType>(a.values[1]);
    const Tensor& t = a.tensor(0);
    if (is_complex(t.dtype()) && !is_complex(dtype)) {
        Dims strides = t.strides();
        for (int64_t& s : strides) s *= 2;
        Tensor re = make_view(t.storage_ref(), real_of(t.dtype()), t.shape(), strides, t.offset() * 2);
        return re.dtype() == dtype ? clone(re) : to_dtype(re, dtype);
    }
    return to_dtype(t, dtype);
}
GRAD("_cast") { c.set(0, c.g()); }

OP("_to_device(Tensor input, device device) -> Tensor", METHOD | MIXED | ELEMENTWISE,
   R"(The tensor on another device; the work behind to().

Example:
    >>> fb.ones(2)._to_device(fb.device("cpu"))
    tensor([1., 1.])
)") {
    return to_device(a.tensor(0), std::get<Device>(a.values[1]));
}
GRAD("_to_device") { c.set(0, c.g()); }

}  // namespace fb
