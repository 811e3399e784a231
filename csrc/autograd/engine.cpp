#include "autograd/engine.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/saved.h"
#include "base/exclusive.h"
#include "base/profile.h"

namespace fb {
namespace {

thread_local int depth = 0;
thread_local bool partial = false;
thread_local std::vector<std::function<void()>> final_calls;
struct DepthScope {
    DepthScope() { depth++; }
    ~DepthScope() {
        if (!--depth) final_calls.clear();
    }
};

std::string described(const Node& node) {
    std::string place = describe_location(node.where), text = node.name();
    if (!place.empty()) text += " (recorded at " + place + ")";
    if (node.scope) text += " in " + *node.scope;
    return text;
}

// Whether no one else can see a tensor: its memory may be added to in place.
bool is_ours(const Tensor& t) {
    return t.impl()->use_count() == 1 && t.storage_ref()->use_count() == 1 && !t.impl()->pyobj && !t.impl()->base &&
           !t.impl()->functorial && t.is_contiguous() && !t.storage().read_only();
}

class Run {
  public:
    explicit Run(const BackwardTask& task) : task_(task), captured_(task.inputs.size()) {
        for (size_t i = 0; i < task.inputs.size(); i++) captures_[task.inputs[i].node.get()].push_back(i);
        if (!task.inputs.empty()) find_needed();
        running = this;
    }
    ~Run() { running = outer_; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    static thread_local Run* running;
    uint64_t id() const { return id_; }
    Run* outer() const { return outer_; }
    // Whether gradients may reach the node.
    bool reaches(Node* node) {
        if (!task_.inputs.empty()) return wanted(node);
        if (reachable_.empty()) find_reachable();
        return reachable_.contains(node);
    }

    std::vector<Tensor> go() {
        for (size_t i = 0; i < task_.roots.size(); i++) {
            if (Tensor g = task_.gradients[i])
                send(task_.roots[i], std::move(g),
                     "backward: the gradient of output " + std::to_string(i) + " has shape ");
        }
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), earlier);
            Ref<Node> node = std::move(heap_.back());
            heap_.pop_back();
            auto it = pending_.find(node.get());
            Gradients gradients = std::move(it->second);
            pending_.erase(it);
            visit(*node, std::move(gradients));
            let_changes_in();
        }
        return std::move(captured_);
    }

  private:
    static bool earlier(const Ref<Node>& a, const Ref<Node>& b) { return a->sequence < b->sequence; }

    // Finds the nodes that lead to a wanted input, depth first with an explicit stack.
    void find_needed() {
        std::unordered_set<Node*> seen;
        struct Frame {
            Node* node;
            size_t next;
        };
        std::vector<Frame> stack;
        auto enter = [&](Node* node) {
            if (node && seen.insert(node).second) stack.push_back({node, 0});
        };
        for (const Edge& root : task_.roots) {
            enter(root.node.get());
            while (!stack.empty()) {
                Frame& top = stack.back();
                if (top.next < top.node->next.size()) {
                    enter(top.node->next[top.next++].node.get());
                    continue;
                }
                for (const Edge& edge : top.node->next) {
                    Node* n = edge.node.get();
                    if (n && (needed_.contains(n) || captures_.contains(n))) {
                        needed_.insert(top.node);
                        break;
                    }
                }
                stack.pop_back();
            }
        }
    }

    void find_reachable() {
        std::vector<Node*> left;
        auto enter = [&](const Edge& edge) {
            if (edge.node && reachable_.insert(edge.node.get()).second) left.push_back(edge.node.get());
        };
        for (const Edge& root : task_.roots) enter(root);
        while (!left.empty()) {
            Node* node = left.back();
            left.pop_back();
            for (const Edge& edge : node->next) enter(edge);
        }
    }

    bool wanted(Node* node) const { return task_.inputs.empty() || needed_.contains(node) || captures_.contains(node); }

    void send(const Edge& edge, Tensor gradient, const std::string& from) {
        Node* node = edge.node.get();
        if (!node || !wanted(node)) return;
        if (gradient.impl()->functorial) grad_modes.handed_over = true;
        if (!fits(edge, gradient)) {
            Node::Output expected = node->expected(edge.output, gradient);
            if (gradient.device() != expected.device && gradient.dim())
                fail_state("an invalid gradient of shape ", gradient.shape(), " - expected device ",
                           to_string(expected.device), " but got ", to_string(gradient.device()),
                           "; it belongs to a tensor made by ", described(*node));
            try {
                gradient = graph_ops.fit(gradient, expected);
            } catch (const Error&) {
                fail_state(from, gradient.shape(), " (", gradient.dtype(), ") but expected shape compatible with ",
                           expected.shape, " (", expected.dtype, "), that of the tensor it belongs to, made by ",
                           described(*node));
            }
        }
        auto [it, fresh] = pending_.try_emplace(node);
        if (fresh) {
            it->second.resize(node->outputs.size());
            heap_.push_back(edge.node);
            std::push_heap(heap_.begin(), heap_.end(), earlier);
        }
        Tensor& sum = it->second[edge.output];
        if (!sum) sum = std::move(gradient);
        else if (grad_enabled()) sum = graph_ops.add(sum, gradient);
        else if (grad_modes.handed_over) sum = graph_ops.add(sum, gradient);
        else if (is_ours(sum)) graph_ops.add_into(sum, gradient);
        else if (is_ours(gradient)) {
            graph_ops.add_into(gradient, sum);
            sum = std::move(gradient);
        } else sum = graph_ops.add(sum, gradient);
    }

    static void call_hooks(NodeHooks& hooks, Gradients& gradients) {
        auto tensor = hooks.tensor;  // a copy: a hook may remove itself
        for (auto& entry : tensor) {
            if (!gradients[entry.output]) continue;
            Gradients one;
            one.push_back(gradients[entry.output]);
            entry.hook->call(one, nullptr);
            gradients[entry.output] = std::move(one[0]);
        }
        for (auto& [output, kept] : hooks.retained) {
            if (!gradients[output]) continue;
            Tensor sum = kept->get();
            kept->set(sum ? graph_ops.add(sum, gradients[output]) : graph_ops.clone(gradients[output]));
        }
    }

    void visit(Node& node, Gradients&& gradients) {
        if (node.hooks) call_hooks(*node.hooks, gradients);
        if (node.accumulates) {
            GradMeta* meta = grad_meta(static_cast<AccumulateGrad&>(node).leaf.impl());
            if (meta && meta->hooks) call_hooks(*meta->hooks, gradients);
        }
        if (!task_.inputs.empty()) {
            auto found = captures_.find(&node);
            if (found != captures_.end() && !task_.accumulate) {
                for (size_t i : found->second) captured_[i] = gradients[task_.inputs[i].output];
            }
            // backward() runs the nodes of its inputs, hooks included; grad() stops before them.
            if (!needed_.contains(&node) && !(task_.accumulate && found != captures_.end())) return;
        }
        bool any = false;
        for (const Tensor& g : gradients) any |= g.defined();
        if (!any) return;
        if (node.hooks) {
            auto before = node.hooks->before;
            for (auto& entry : before) entry.hook->call(gradients, nullptr);
        }
        Gradients given;
        if (node.hooks && !node.hooks->after.empty()) given = gradients;
        Gradients results = apply(node, std::move(gradients));
        if (node.hooks) {
            auto after = node.hooks->after;
            for (auto& entry : after) entry.hook->call(results, &given);
        }
        if (!task_.keep_graph) node.release_saved();
        for (size_t i = 0; i < node.next.size() && i < results.size(); i++) {
            if (!results[i] || !node.next[i].node) continue;
            if (grad_modes.anomaly && graph_ops.has_nan(results[i])) {
                fail_state("Function '", node.name(), "' returned nan values in its ", i, "th output: backward of ",
                           described(node), " returned NaN in the gradient of its input ", i,
                           " (detect_anomaly is on)");
            }
            send(node.next[i], std::move(results[i]), Name{&node, i});
        }
    }

    static bool fits(const Edge& edge, const Tensor& gradient) {
        const Node& node = *edge.node;
        if (node.accumulates) {
            const Tensor& leaf = static_cast<const AccumulateGrad&>(node).leaf;
            return gradient.shape() == leaf.shape() && gradient.device() == leaf.device() &&
                   gradient.dtype() == grad_dtype(leaf).value_or(gradient.dtype());
        }
        const Node::Output& expected = node.outputs[edge.output];
        return gradient.shape() == expected.shape && gradient.dtype() == expected.dtype &&
               gradient.device() == expected.device;
    }

    // The text is built only when needed.
    struct Name {
        const Node* node;
        size_t input;
        operator std::string() const {
            return "Function " + node->name() + " returned an invalid gradient at index " + std::to_string(input) +
                   " - got ";
        }
    };
    void send(const Edge& edge, Tensor gradient, const Name& from) {
        bool good = fits(edge, gradient);
        send(edge, std::move(gradient), good ? std::string() : std::string(from));
    }

    Gradients apply(Node& node, Gradients&& gradients) {
        uint64_t mask = ~uint64_t(0);
        for (size_t i = 0; !task_.inputs.empty() && i < node.next.size() && i < 64; i++) {
            if (!wanted(node.next[i].node.get())) mask &= ~(uint64_t(1) << i);
        }
        struct Mask {
            uint64_t previous;
            explicit Mask(uint64_t now) : previous(std::exchange(wanted_inputs, now)) {}
            ~Mask() { wanted_inputs = previous; }
        } scope(mask);
        ProfileScope profile(ProfileEvent::Backward, [&] { return node.name(); }, [] { return std::string(); });
        Location previous = std::exchange(current_location, node.where);
        struct Restore {
            Location value;
            ~Restore() { current_location = value; }
        } restore{previous};
        try {
            return node.apply(std::move(gradients));
        } catch (const Error& e) {
            std::string text = e.what();
            if (text.starts_with("backward of ")) throw;
            throw Error(e.kind(), "backward of " + described(node) + ": " + text);
        }
    }

    const BackwardTask& task_;
    std::vector<Ref<Node>> heap_;
    std::unordered_map<Node*, Gradients> pending_;
    std::unordered_map<Node*, std::vector<size_t>> captures_;
    std::unordered_set<Node*> needed_;
    std::unordered_set<Node*> reachable_;  // filled on demand
    std::vector<Tensor> captured_;
    Run* const outer_ = running;  // the enclosing backward
    const uint64_t id_ = next_id.fetch_add(1, std::memory_order_relaxed);
    static std::atomic<uint64_t> next_id;
};
thread_local Run* Run::running = nullptr;
std::atomic<uint64_t> Run::next_id{1};

}  // namespace

std::vector<uint64_t> running_backwards() {
    std::vector<uint64_t> ids;
    for (Run* run = Run::running; run; run = run->outer()) ids.push_back(run->id());
    return ids;
}
bool backward_reaches(const Edge& edge) { return Run::running && edge.node && Run::running->reaches(edge.node.get()); }

thread_local uint64_t wanted_inputs = ~uint64_t(0);

std::vector<Tensor> run_backward(const BackwardTask& task) {
    DepthScope scope;
    GradScope grad(task.create_graph);
    struct HandedOver {
        bool previous = std::exchange(grad_modes.handed_over, false);
        ~HandedOver() { grad_modes.handed_over = previous; }
    } handed_over;
    struct Gates {  // the gates of an enclosing backward do not count here
        std::vector<const Node*> outer = std::exchange(gated_nodes, {});
        ~Gates() { gated_nodes = std::move(outer); }
    } gates;
    struct Packing {  // hooks that an unpack hook leaves behind are removed at the end of the backward
        size_t count = saved_hooks.size();
        ~Packing() {
            while (saved_hooks.size() > count) saved_hooks.pop_back();
        }
    } packing;
    struct Partial {
        bool previous;
        ~Partial() { partial = previous; }
    } part{std::exchange(partial, !task.inputs.empty())};
    std::vector<Tensor> results = Run(task).go();
    // A callback may queue another one.
    for (size_t i = 0; depth == 1 && i < final_calls.size(); i++) {
        std::function<void()> call = final_calls[i];
        call();
    }
    return results;
}

bool in_backward() { return depth > 0; }
bool in_partial_backward() { return partial; }
void after_backward(std::function<void()> call) { final_calls.push_back(std::move(call)); }

}  // namespace fb
