#include "ops/views.h"

#include "ops/common.h"
#include "ops/dispatch.h"

namespace fb {
namespace {

// The memory of a base, laid out anew: `flat` holds its elements where the base's strides put them.
struct Layout {
    Tensor flat;
    Tensor base;  // the base's shape over `flat`
    int64_t low;  // first element of the storage that `flat` stands for
};

Layout lay_out(const Dims& shape, const Dims& strides, int64_t offset, DType dtype) {
    int64_t low = offset, high = offset;
    for (int64_t d = 0; d < shape.size(); d++) {
        int64_t reach = std::max<int64_t>(shape[d] - 1, 0) * strides[d];
        (reach < 0 ? low : high) += reach;
    }
    // An even start keeps complex views of real memory aligned.
    low -= low % 2;
    Layout layout;
    layout.flat = zeros({checked_numel(shape) ? high - low + 1 : 0}, dtype);
    layout.base = make_view(layout.flat.storage_ref(), dtype, shape, strides, offset - low);
    check(!may_overlap_itself(layout.base), "the base of this view refers to one memory location more than once");
    layout.low = low;
    return layout;
}

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
struct FromArgs {
    const Args& a;
    const Dims& dims(int i) const { return a.dims(i); }
    int64_t integer(int i) const { return a.integer(i); }
    DType dtype_at(int i) const { return std::get<DType>(a.values[i]); }
};

Tensor view_in(const Layout& layout, const Geometry& g) {
    // The offset of `flat`'s start, in elements of the view's dtype.
    int64_t start = layout.low * itemsize(g.base_dtype) / itemsize(g.dtype);
    return make_view(layout.flat.storage_ref(), g.dtype, g.shape, g.strides, g.offset - start);
}

Value with_geometry(const char* name, const Tensor& t, const GradCall& c) {
    const OpOverload& op = op_entry(name).overloads.front();
    Args a;
    a.count = 9;
    a.values[0] = t;
    for (int i = 1; i < 9; i++) a.values[i] = c.value(i);
    OpScope scope(op.entry->name.c_str());
    return invoke(op, a);
}

Value call_geometry(const char* name, const Tensor& t, const Small<Value, 1>& values) {
    const OpOverload& op = op_entry(name).overloads.front();
    Args a;
    a.count = 9;
    a.values[0] = t;
    for (size_t i = 0; i < 8; i++) a.values[i + 1] = values[i];
    OpScope scope(op.entry->name.c_str());
    return invoke(op, a);
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

// A change of a part: the part's gradient goes through the change, the rest passes by.
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
        part.push_back(std::get<Tensor>(call_geometry("_view_read", g, geometry_)));
        Gradients inner = change_->apply(std::move(part));
        Gradients results(next.size());
        for (size_t i = 1; i < inner.size(); i++) results[i] = std::move(inner[i]);
        if (!next[0].node) return results;
        results[0] = std::get<Tensor>(call_geometry("_view_erase", g, geometry_));
        if (inner.size() && inner[0]) {
            Var rest = results[0], back = std::get<Tensor>(call_geometry("_view_write", inner[0], geometry_));
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

// The part of a base that a view shows, as a tensor of its own.
OP("_view_read(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    Geometry g = geometry(FromArgs{a});
    Layout layout = lay_out(g.base_shape, g.base_strides, g.base_offset, g.base_dtype);
    copy_into(layout.base, a.tensor(0));
    return clone(view_in(layout, g));
}
GRAD("_view_read") { c.set(0, Var(std::get<Tensor>(with_geometry("_view_write", c.g().tensor, c)))); }

// Zeros in the shape of the base with a view's part put in its place; added up where the view overlaps itself.
OP("_view_write(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    Geometry g = geometry(FromArgs{a});
    Layout layout = lay_out(g.base_shape, g.base_strides, g.base_offset, g.base_dtype);
    Tensor view = view_in(layout, g);
    if (!may_overlap_itself(view)) {
        copy_into(view, a.tensor(0));
    } else {
        check(g.dtype == g.base_dtype, "gradients of overlapping views of another dtype are not supported");
        Tensor from = contiguous(a.tensor(0));
        dispatch_all(g.dtype, [&](auto tag) {
            using T = typename decltype(tag)::type;
            const T* source = from.data<T>();
            T* start = view.data<T>();
            Dims at(g.shape.size(), 0);
            for (int64_t i = 0; i < from.numel(); i++) {
                int64_t place = 0;
                for (int64_t d = 0; d < at.size(); d++) place += at[d] * g.strides[d];
                start[place] = T(start[place] + source[i]);
                for (int64_t d = at.size() - 1; d >= 0 && ++at[d] == g.shape[d]; d--) at[d] = 0;
            }
        });
    }
    return contiguous(layout.base);
}
GRAD("_view_write") { c.set(0, Var(std::get<Tensor>(with_geometry("_view_read", c.g().tensor, c)))); }

// A base's values with zero where the view is.
OP("_view_erase(Tensor input, " GEOMETRY ") -> Tensor", 0) {
    Geometry g = geometry(FromArgs{a});
    Layout layout = lay_out(g.base_shape, g.base_strides, g.base_offset, g.base_dtype);
    copy_into(layout.base, a.tensor(0));
    fill(view_in(layout, g), Scalar(0));
    return contiguous(layout.base);
}
GRAD("_view_erase") { c.set(0, Var(std::get<Tensor>(with_geometry("_view_erase", c.g().tensor, c)))); }

Ref<Node> view_node(const Tensor& base, const Tensor& view) {
    auto node = make_ref<OpNode>(op_entry("_view_read").overloads.front());
    OpNode::Slot slot;
    slot.shape = base.shape();
    slot.dtype = base.dtype();
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
