// The ops used by the graph: sums, copies, and checking for NaN.
#include "device/move.h"
#include "device/reduce.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"
#include "ops/table/views.h"

namespace fb {
namespace {

// Sparse plus dense is dense; classes that handle op calls implement dense + sparse only.
Tensor add(const Tensor& x, const Tensor& y) {
    bool swap = x.impl()->functorial && !y.impl()->functorial;
    return (swap ? Var(y) + Var(x) : Var(x) + Var(y)).tensor;
}

void add_into(const Tensor& to, const Tensor& from) {
    static const OpOverload& op = op_entry("add").overloads.front();
    Args a(op.signature.size());
    a.values[0] = to;
    a.values[1] = from;
    for (int i = 2; i < a.count; i++) a.values[i] = op.signature.params[i].default_value;
    a.out = to;
    a.inplace = true;
    OpScope scope("add_");
    Value value = op.fn(a);
    if (const Tensor* t = std::get_if<Tensor>(&value); t && !t->is_same(to)) store_output(to, true, *t);
}

Tensor copy(const Tensor& t) {
    if (!grad_enabled() && !t.impl()->functorial) return is_dense(t) ? clone(t) : contiguous(t);
    return clone(Var(t)).tensor;
}

Tensor copy_as(const Tensor& t, const Dims& strides) {
    Tensor result = empty_strided(t.shape(), strides, t.dtype(), t.device());
    copy_into(result, t);
    return result;
}

Tensor fit(const Tensor& gradient, const Node::Output& expected) {
    OpScope scope(nullptr);
    return on_device(cast(sum_to(gradient, expected.shape), expected.dtype), expected.device).tensor;
}

device::Summary count_bad(const Tensor& t) {
    bool readable = t.numel() && !t.impl()->functorial && has_values(t);
    if (!differentiable(t.dtype()) || !readable) return {};
    Tensor flat = contiguous(to_dtype(t, value_dtype(t.dtype())));
    return device::reducing(flat).summarise(flat);
}
bool has_nan(const Tensor& t) { return count_bad(t).nan > 0; }

// "(3, 4) float32, 1.5 to 9, 0 NaN, 2 inf".
std::string statistics(const Tensor& t) {
    std::ostringstream text;
    text << t.shape() << " " << t.dtype();
    if (!differentiable(t.dtype()) || is_complex(t.dtype()) || !t.numel()) return text.str();
    device::Summary s = count_bad(to_dtype(t, DType::F64));
    if (s.finite) text << ", min " << s.low << ", max " << s.high << ", mean " << s.sum / static_cast<double>(s.finite);
    text << ", " << s.nan << " NaN, " << s.infinite << " inf";
    return text.str();
}

[[maybe_unused]] const bool ready = [] {
    graph_ops = {add, add_into, copy, copy_as, fit, view_node, has_nan};
    copy_elements = move_elements;
    return true;
}();

}  // namespace

void check_finite(const OpOverload& op, const Args& a, const Value& value) {
    auto look = [&](const Tensor& t, size_t i) {
        device::Summary bad = count_bad(t);
        if (!bad.nan && (!bad.infinite || grad_modes.allow_inf)) return;
        std::ostringstream text;
        std::string place = describe_location(current_location);
        text << "the first " << (bad.nan ? "NaN" : "inf") << " appears in result " << i << " of " << op.entry->name;
        if (!place.empty()) text << " at " << place;
        if (module_path) text << " in " << *module_path;
        text << " (detect_anomaly is on); result: " << statistics(t);
        for (int k = 0; k < a.count; k++) {
            const std::string& name = op.signature.params[k].name;
            if (const Tensor* in = std::get_if<Tensor>(&a.values[k]); in && *in)
                text << "; " << name << ": " << statistics(*in);
            if (const auto* list = std::get_if<std::vector<Tensor>>(&a.values[k])) {
                for (size_t n = 0; n < list->size(); n++)
                    text << "; " << name << "[" << n << "]: " << statistics((*list)[n]);
            }
        }
        fail_state(text.str());
    };
    // Ops that only allocate or reinterpret memory compute nothing.
    if (op.entry->name.starts_with("empty") || op.entry->name.starts_with("new_empty")) return;
    if (const Tensor* t = std::get_if<Tensor>(&value)) {
        if (*t) look(*t, 0);
    } else if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
        for (size_t i = 0; i < list->size(); i++) look((*list)[i], i);
    }
}

}  // namespace fb
