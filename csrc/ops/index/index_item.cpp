// Three operations that are each other's gradients: reading x[items], writing values to [items] of zeros, and erasing
// [items].
#include "ops/index/index_item.h"

#include "autograd/saved.h"
#include "ops/table/dispatch.h"

namespace fb {
namespace {

// Index tensors are saved like everything else that backward needs: changing them in between is an error.
class KeptItems {
  public:
    explicit KeptItems(const std::vector<IndexItem>& items) : items_(items) {
        for (IndexItem& item : items_) {
            if (item.type != IndexItem::Type::Tensor) continue;
            indices_.push_back(
                {{item.indices.shape(), item.indices.dtype(), item.indices.device()}, Saved(item.indices, false)});
            item.indices = Tensor();
            advanced_ = true;
        }
    }
    std::vector<IndexItem> get(const char* op, Location where) const {
        std::vector<IndexItem> items = items_;
        size_t next = 0;
        for (IndexItem& item : items) {
            if (item.type != IndexItem::Type::Tensor) continue;
            const auto& [expected, saved] = indices_[next++];
            item.indices = saved.unpack({}, expected, "an index", op, where);
        }
        return items;
    }
    bool advanced() const { return advanced_; }

  private:
    std::vector<IndexItem> items_;
    std::vector<std::pair<Saved::Expected, Saved>> indices_;
    bool advanced_ = false;
};

bool has_advanced(const std::vector<IndexItem>& items) {
    for (const IndexItem& item : items) {
        if (item.type == IndexItem::Type::Tensor || item.type == IndexItem::Type::Bool) return true;
    }
    return false;
}

Tensor putitem(const Tensor& g, const Dims& shape, const std::vector<IndexItem>& items);
Tensor eraseitem(const Tensor& g, const std::vector<IndexItem>& items);

struct GetNode final : Node {
    GetNode(const std::vector<IndexItem>& i, const Dims& s) : items(i), shape(s) {}
    Gradients apply(Gradients&& gradients) override {
        Gradients results(1);
        results[0] = putitem(gradients[0], shape, items.get("index", where));
        return results;
    }
    std::string name() const override { return "IndexBackward0"; }
    KeptItems items;
    Dims shape;
};
struct PutNode final : Node {
    explicit PutNode(const std::vector<IndexItem>& i) : items(i) {}
    Gradients apply(Gradients&& gradients) override {
        Gradients results(1);
        results[0] = getitem(gradients[0], items.get("index", where));
        return results;
    }
    std::string name() const override { return "IndexPutBackward0"; }
    KeptItems items;
};
struct EraseNode final : Node {
    explicit EraseNode(const std::vector<IndexItem>& i) : items(i) {}
    Gradients apply(Gradients&& gradients) override {
        Gradients results(1);
        results[0] = eraseitem(gradients[0], items.get("index", where));
        return results;
    }
    std::string name() const override { return "IndexEraseBackward0"; }
    KeptItems items;
};
struct SetNode final : Node {
    SetNode(const std::vector<IndexItem>& i, const Tensor& value)
        : items(i), value_shape(value.shape()), value_dtype(value.dtype()) {}
    Gradients apply(Gradients&& gradients) override {
        Gradients results(2);
        std::vector<IndexItem> index = items.get("index_put", where);
        if (next[0].node) results[0] = eraseitem(gradients[0], index);
        if (next[1].node) {
            Var part = getitem(gradients[0], index);
            // The value may have had more leading dimensions of size one than its target.
            Dims shape = value_shape;
            while (shape.size() > part.dim() && shape[0] == 1) shape.erase(0);
            part = cast(sum_to(part, shape), value_dtype);
            results[1] = (shape == value_shape ? part : reshape(part, value_shape)).tensor;
        }
        return results;
    }
    std::string name() const override { return "IndexPutBackward0"; }
    KeptItems items;
    Dims value_shape;
    DType value_dtype;
};

template <class N>
Tensor recorded(const Ref<N>& node, const Tensor& from, const Tensor& result) {
    node->next.push_back(gradient_edge(from));
    node->renumber();
    node->add_output(result);
    set_history(result, Ref<Node>(node.get()), 0);
    return result;
}

Tensor putitem(const Tensor& g, const Dims& shape, const std::vector<IndexItem>& items) {
    Tensor result = zeros(shape, g.dtype(), g.device());
    if (has_advanced(items)) index_add_to(result, items, g);
    else index_set(result, items, g);
    return should_record({g}) ? recorded(make_ref<PutNode>(items), g, result) : result;
}

Tensor eraseitem(const Tensor& g, const std::vector<IndexItem>& items) {
    Tensor result = clone(g);
    index_set(result, items, scalar_tensor(Scalar(0), g.dtype()));
    return should_record({g}) ? recorded(make_ref<EraseNode>(items), g, result) : result;
}

// Index tensors on the CPU are moved to the device of the indexed tensor.
bool on_other_device(const Tensor& t, const std::vector<IndexItem>& items) {
    if (!other_devices.load(std::memory_order_relaxed)) return false;
    for (const IndexItem& item : items) {
        if (item.type == IndexItem::Type::Tensor && item.indices.device() != t.device()) return true;
    }
    return false;
}
std::vector<IndexItem> moved(const Tensor& t, const std::vector<IndexItem>& items) {
    std::vector<IndexItem> result = items;
    for (IndexItem& item : result) {
        if (item.type != IndexItem::Type::Tensor || item.indices.device() == t.device()) continue;
        if (item.indices.device().type != DeviceType::CPU)
            fail_state("indices should be either on cpu or on the same device as the indexed tensor (",
                       to_string(t.device()), "), but they are on ", to_string(item.indices.device()));
        if (item.indices.dim()) item.indices = to_device(item.indices, t.device());
    }
    return result;
}

}  // namespace

Tensor getitem(const Tensor& t, const std::vector<IndexItem>& given) {
    bool move = on_other_device(t, given);
    const std::vector<IndexItem>& items = move ? moved(t, given) : given;
    Tensor result = index_get(t, items);
    if (should_record({t})) {
        TensorImpl* base = result.impl()->base.get();
        if (base && base != t.impl() && base != t.impl()->base.get()) result.impl()->base = nullptr;
        return differentiable(t.dtype()) ? recorded(make_ref<GetNode>(items, t.shape()), t, result) : result;
    }
    if (!grad_enabled() && !result.is_same(t)) {
        result.impl()->plain_view = static_cast<bool>(result.impl()->base);
    }
    return result;
}

void setitem(const Tensor& t, const std::vector<IndexItem>& given, const Tensor& from) {
    Tensor value = from.device() == t.device() ? from : on_device(Var(from), t.device()).tensor;
    bool move = on_other_device(t, given);
    const std::vector<IndexItem>& items = move ? moved(t, given) : given;
    if (grad_enabled()) check_inplace(t);
    else check_not_inference(t);
    if (!should_record({t, value}) || !differentiable(t.dtype())) return index_set(t, items, value);
    auto node = make_ref<SetNode>(items, value);
    node->next.push_back(gradient_edge(t));
    node->next.push_back(gradient_edge(value));
    node->renumber();
    node->add_output(t);
    // A value that shares the written memory is copied first.
    index_set(t, items, value);
    rebase_history(t, Ref<Node>(node.get()));
}

}  // namespace fb
