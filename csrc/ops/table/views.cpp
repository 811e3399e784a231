#include "ops/table/views.h"

#include "device/index.h"
#include "ops/shape/create.h"
#include "ops/shape/shape.h"
#include "ops/table/common.h"
#include "ops/table/dispatch.h"

namespace fb {
namespace {

// Arguments 1..: base_shape, base_strides, base_offset, base_dtype, shape, strides, offset, dtype.
struct Geometry {
    const Dims &base_shape, &base_strides;
    int64_t base_offset;
    DType base_dtype;
    const Dims &shape, &strides;
    int64_t offset;
    DType dtype;
};
#define GEOMETRY                                                                                                \
    "int[] base_shape, int[] base_strides, int base_offset, dtype base_dtype, int[] shape, int[] strides, int " \
    "offset, "                                                                                                  \
    "dtype dtype"
template <class From>
Geometry geometry(const From& from) {
    return {from.dims(1), from.dims(2), from.integer(3), from.dtype_at(4),
            from.dims(5), from.dims(6), from.integer(7), from.dtype_at(8)};
}
struct FromCall {
    const GradCall& c;
    const Dims& dims(int i) const { return c.dims(i); }
    int64_t integer(int i) const { return c.integer(i); }
    DType dtype_at(int i) const { return std::get<DType>(c.value(i)); }
};
struct FromArgs {
    const Args& a;
    const Dims& dims(int i) const { return a.dims(i); }
    int64_t integer(int i) const { return a.integer(i); }
    DType dtype_at(int i) const { return std::get<DType>(a.values[i]); }
};

// The memory of a base and its view, copied: `flat` holds the elements at the positions given by their strides.
struct Layout {
    Tensor flat;
    Tensor base;  // the base's shape over `flat`
    int64_t low;  // first element of the storage that `flat` covers
};

// The first element in memory, and one past the last.
std::pair<int64_t, int64_t> reach(const Dims& shape, const Dims& strides, int64_t offset) {
    int64_t low = offset, high = offset;
    for (int64_t d = 0; d < shape.size(); d++) {
        check(shape[d] >= 0, "sizes must not be negative, got ", shape);
        int64_t way = checked_mul(shape[d] - 1, strides[d], "the extent of the view");
        int64_t& end = way < 0 ? low : high;
        check(!__builtin_add_overflow(end, way, &end), "the extent of strides ", strides, " does not fit in 64 bits");
    }
    return {low, high + 1};
}
// For the base and the view together, in elements of the base: a view by as_strided may exceed its base.
std::pair<int64_t, int64_t> reach(const Geometry& g) {
    auto [low, high] = reach(g.base_shape, g.base_strides, g.base_offset);
    auto [first, last] = reach(g.shape, g.strides, g.offset);
    int64_t own = itemsize(g.dtype), base = itemsize(g.base_dtype);
    first = first * own / base;
    last = (last * own + base - 1) / base;
    bool shown = checked_numel(g.shape) > 0;
    if (!checked_numel(g.base_shape)) low = shown ? first : 0, high = shown ? last : 0;
    else if (shown) low = std::min(low, first), high = std::max(high, last);
    // A rounded start keeps views of another item size aligned.
    return {low - low % 16, high};
}

Layout lay_out(const Geometry& g, Device device) {
    auto [low, high] = reach(g);
    Layout layout;
    layout.flat = zeros({high - low}, g.base_dtype, device);
    layout.base = make_view(layout.flat.storage_ref(), g.base_dtype, g.base_shape, g.base_strides, g.base_offset - low);
    check(!may_overlap_itself(layout.base), "the base of this view refers to one memory location more than once");
    layout.low = low;
    return layout;
}

Tensor view_in(const Layout& layout, const Geometry& g) {
    // The offset of `flat`'s start, in elements of the view's dtype.
    int64_t start = layout.low * itemsize(g.base_dtype) / itemsize(g.dtype);
    return make_view(layout.flat.storage_ref(), g.dtype, g.shape, g.strides, g.offset - start);
}

// One of the three ops below, with arguments 1 to 8.
Tensor call_geometry(const char* name, const Tensor& t, const Small<Value, 1>& values) {
    const OpOverload& op = op_entry(name).overloads.front();
    Args a(9);
    a.values[0] = t;
    for (size_t i = 0; i < 8; i++) a.values[i + 1] = values[i];
    OpScope scope(op.entry->name.c_str());
    return std::get<Tensor>(invoke(op, a));
}
Var call_geometry(const char* name, const GradCall& c) {
    Small<Value, 1> values;
    for (int i = 1; i < 9; i++) values.push_back(c.value(i));
    return call_geometry(name, c.g().tensor, values);
}

Small<Value, 1> geometry_values(const Tensor& base, const Tensor& view) {
    Small<Value, 1> values;
    for (const Tensor* t : {&base, &view}) {
        values.push_back(t->shape());
        values.push_back(t->strides());
        values.push_back(Scalar(t->offset()));
        values.push_back(t->dtype());
    }
    return values;
}

// A change of a part: the part's gradient goes through the change, the rest bypasses it.
class ViewChange final : public Node {
  public:
    ViewChange(const Tensor& base, const Tensor& view, const Ref<Node>& change)
        : change_(change), geometry_(geometry_values(base, view)) {
        add_output(base);
        next.push_back(gradient_edge(base));
        for (size_t i = 1; i < change->next.size(); i++) next.push_back(change->next[i]);
        renumber();
    }
    Gradients apply(Gradients&& gradients) override {
        Tensor g = std::move(gradients[0]);
        Gradients part;
        part.push_back(call_geometry("_view_read", g, geometry_));
        Gradients inner = change_->apply(std::move(part));
        Gradients results(next.size());
        for (size_t i = 1; i < inner.size(); i++) results[i] = std::move(inner[i]);
        if (!next[0].node) return results;
        results[0] = call_geometry("_view_erase", g, geometry_);
        if (inner.size() && inner[0]) {
            Var rest = results[0], back = call_geometry("_view_write", inner[0], geometry_);
            results[0] = (rest + back).tensor;
        }
        return results;
    }
    std::string name() const override { return "CopySlices"; }
    void release_saved() override { change_->release_saved(); }

  private:
    Ref<Node> change_;
    Small<Value, 1> geometry_;
};

}  // namespace

// The part of a base that a view covers, as a separate tensor.
OP("_view_read(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    Geometry g = geometry(FromArgs{a});
    Layout layout = lay_out(g, a.tensor(0).device());
    copy_into(layout.base, a.tensor(0));
    return clone(view_in(layout, g));
}
GRAD("_view_read") { c.set(0, call_geometry("_view_write", c)); }

// Zeros in the shape of the base, with a view's part in its place; accumulated if the view overlaps itself.
static Tensor view_written(const Tensor& part, Geometry g) {
    if (is_storage(g.dtype) && g.dtype == g.base_dtype) {
        DType dtype = g.dtype;
        g.dtype = g.base_dtype = value_dtype(dtype);
        return to_dtype(view_written(to_dtype(part, g.dtype), g), dtype);
    }
    Layout layout = lay_out(g, part.device());
    Tensor view = view_in(layout, g);
    if (!may_overlap_itself(view)) {
        copy_into(view, part);
    } else {
        check(g.dtype == g.base_dtype, "gradients of overlapping views of another dtype are not supported");
        device::indexing(view).add_overlapping(view, contiguous(part));
    }
    return contiguous(layout.base);
}
OP("_view_write(Tensor input, " GEOMETRY ") -> Tensor", 0) { return view_written(a.tensor(0), geometry(FromArgs{a})); }
GRAD("_view_write") { c.set(0, call_geometry("_view_read", c)); }

// A base's values with zeros in place of the view.
OP("_view_erase(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    Geometry g = geometry(FromArgs{a});
    Layout layout = lay_out(g, a.tensor(0).device());
    copy_into(layout.base, a.tensor(0));
    fill(view_in(layout, g), Scalar(0));
    return contiguous(layout.base);
}
GRAD("_view_erase") { c.set(0, call_geometry("_view_erase", c)); }

// as_strided with everything its gradient needs.
OP("_as_strided(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    return as_strided(a.tensor(0), a.dims(5), a.dims(6), a.integer(7));
}
OP("_as_strided_(Tensor input, " GEOMETRY ") -> Tensor", METHOD, R"(The work behind as_strided_().

Args:
    base_shape: the shape as it is.
    base_strides: the strides as they are.
    base_offset: the first element as it is.
    base_dtype: the dtype.
    shape: the new shape.
    strides: the new strides.
    offset: the new first element.
    dtype: the dtype.
)") {
    return become(a.tensor(0), as_strided(a.tensor(0), a.dims(5), a.dims(6), a.integer(7)));
}

// Elements of an input that share memory share the gradient of that memory evenly.
static Var spread_evenly(const GradCall& c, const Geometry& g) {
    auto [low, high] = reach(g);
    Tensor places = arange(high - low, DType::I64, c.device());
    auto seen = [&](const Dims& shape, const Dims& strides, int64_t offset) {
        Tensor indices = make_view(places.storage_ref(), DType::I64, shape, strides, offset - low);
        return Var(reshape(indices, {indices.numel()}));
    };
    Var base = seen(g.base_shape, g.base_strides, g.base_offset), view = seen(g.shape, g.strides, g.offset);
    Var none = zeros_of({high - low}, g.base_dtype, c.device());
    Var sums = index_add(none, 0, view, reshape(c.g(), Dims{view.numel()}));
    Var sharers = index_add(none, 0, base, full_of({base.numel()}, Scalar(1), g.base_dtype, c.device()));
    return reshape(index_select(sums / masked_fill(sharers, sharers == 0, 1), 0, base), g.base_shape);
}
GRAD("_as_strided|_as_strided_") {
    Geometry g = geometry(FromCall{c});
    auto [low, high] = reach(g);
    Tensor flat = empty({high - low}, g.base_dtype, c.device());
    if (may_overlap_itself(view_of(flat, g.base_shape, g.base_strides, g.base_offset - low)))
        c.set(0, spread_evenly(c, g));
    else c.set(0, call_geometry("_view_write", c));
}

Tensor recorded_as_strided(const Tensor& t, const Dims& size, const Dims& stride, std::optional<int64_t> offset) {
    Tensor view = as_strided(t, size, stride, offset);
    if (!should_record({t})) return view;
    return call_geometry("_as_strided", t, geometry_values(t, view));
}

Tensor recorded_as_strided_scatter(const Tensor& t, const Tensor& part, const Tensor& source) {
    Small<Value, 1> values = geometry_values(t, part);
    Var rest = call_geometry("_view_erase", t, values);
    Var written = call_geometry("_view_write", source, values);
    return (rest + written).tensor;
}

Ref<Node> view_node(const Tensor& base, const Tensor& view) {
    auto node = make_ref<OpNode>(op_entry("_view_read").overloads.front());
    OpNode::Slot slot;
    slot.shape = base.shape();
    slot.dtype = base.dtype();
    slot.device = base.device();
    node->slots.push_back(std::move(slot));
    node->first.push_back(0);
    node->first.push_back(1);
    node->others = geometry_values(base, view);
    node->next.push_back(gradient_edge(base));
    node->renumber();
    node->add_output(view);
    return Ref<Node>(node.get());
}

Ref<Node> change_of_view(const Tensor& base, const Tensor& view, const Ref<Node>& change) {
    return Ref<Node>(make_ref<ViewChange>(base, view, change).get());
}

}  // namespace fb
