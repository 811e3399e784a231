#include "backend/cpu/onednn.h"

#include <cstring>
#include <dnnl.hpp>
#include <list>
#include <unordered_map>

#include "base/fork.h"
#include "base/parallel.h"
#include "base/pool.h"

namespace fb::cpu {
namespace {

using dnnl::memory;
using Desc = memory::desc;

dnnl::engine& engine() {
    static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return *e;
}

// One problem, ready to run: the primitive and the layouts it wants.
struct Plan {
    dnnl::primitive primitive;
    Desc weight, scratchpad;
    std::shared_ptr<dnnl::reorder> weight_in, weight_out;
};

constexpr size_t most_plans = 1024, most_kept_kernels = 2048;

// The plans used last; a training step of a large network has a few hundred.
class Cache {
  public:
    template <class Make>
    std::shared_ptr<Plan> get(const std::string& key, Make make) {
        {
            std::lock_guard lock(mutex_);
            if (auto it = plans_.find(key); it != plans_.end()) {
                order_.splice(order_.begin(), order_, it->second.second);
                return it->second.first;
            }
        }
        std::shared_ptr<Plan> plan, oldest;
        {
            // oneDNN has locks of its own, which a fork must not find taken.
            std::lock_guard lock(making_);
            plan = std::make_shared<Plan>(make());
        }
        {
            std::lock_guard lock(mutex_);
            if (plans_.contains(key)) return plans_[key].first;
            order_.push_front(key);
            plans_[key] = {plan, order_.begin()};
            if (plans_.size() > most_plans) {
                auto last = plans_.find(order_.back());
                oldest = std::move(last->second.first);
                plans_.erase(last);
                order_.pop_back();
            }
        }
        if (oldest) {
            std::lock_guard lock(making_);
            oldest.reset();
        }
        return plan;
    }
    size_t size() {
        std::lock_guard lock(mutex_);
        return plans_.size();
    }

  private:
    Mutex mutex_, making_;
    std::list<std::string> order_;
    std::unordered_map<std::string, std::pair<std::shared_ptr<Plan>, std::list<std::string>::iterator>> plans_;
};
Cache& cache() {
    static auto* c = new Cache;
    return *c;
}

// oneDNN keeps the code of its "brgemm" kernels, some 20 kB for each new shape, until the process ends (its version 3.2
// does, whatever the capacity of its cache). Programs use a few hundred shapes. One whose shapes never end gets the
// next best implementation after this many: that one's memory is freed with the plan.
std::atomic<size_t> kept_kernels{0};
template <class PrimitiveDesc>
void choose_implementation(PrimitiveDesc& pd) {
    auto keeps_code = [&] { return std::strstr(pd.impl_info_str(), "brg") != nullptr; };
    if (!keeps_code()) return;
    if (kept_kernels.fetch_add(1) < most_kept_kernels) return;
    kept_kernels = most_kept_kernels;
    while (keeps_code() && pd.next_impl()) {
    }
}

std::string key_of(char kind, const ConvShape& s, DType dtype, bool bias) {
    std::string key{kind, dtype == DType::F32 ? 'f' : 'b'};
    key.append(reinterpret_cast<const char*>(&s), sizeof s);
    key += bias ? 'b' : '-';
    int threads = num_threads();
    key.append(reinterpret_cast<const char*>(&threads), sizeof threads);
    return key;
}

// The last `spatial` of three numbers behind the given ones.
memory::dims with_spatial(std::initializer_list<int64_t> first, const int64_t (&values)[3], int64_t spatial) {
    memory::dims d(first);
    for (int64_t i = 3 - spatial; i < 3; i++) d.push_back(values[i]);
    return d;
}

struct Layouts {
    memory::dims x, w, b, y, stride, low, high, dilation;
    Desc x_desc, y_desc, w_any, w_plain, b_desc;
    Layouts(const ConvShape& s, DType dtype) {
        x = with_spatial({s.batch, s.in_channels}, s.in, s.spatial);
        y = with_spatial({s.batch, s.out_channels}, s.out, s.spatial);
        w = s.groups > 1 ? with_spatial({s.groups, s.out_channels / s.groups, s.per_group()}, s.kernel, s.spatial)
                         : with_spatial({s.out_channels, s.in_channels}, s.kernel, s.spatial);
        b = {s.out_channels};
        for (int64_t i = 3 - s.spatial; i < 3; i++) {
            stride.push_back(s.stride[i]);
            low.push_back(s.padding[i]);
            dilation.push_back(s.dilation[i] - 1);
            // What the last window needs beyond the input.
            int64_t reach = (s.out[i] - 1) * s.stride[i] + s.dilation[i] * (s.kernel[i] - 1) + 1;
            high.push_back(reach - s.in[i] - s.padding[i]);
        }
        using tag = memory::format_tag;
        tag last = s.spatial == 1 ? tag::nwc : s.spatial == 2 ? tag::nhwc : tag::ndhwc;
        memory::dims strides(w.size(), 1);
        for (int64_t i = static_cast<int64_t>(w.size()) - 2; i >= 0; i--)
            strides[static_cast<size_t>(i)] = strides[static_cast<size_t>(i + 1)] * w[static_cast<size_t>(i + 1)];
        auto type = dtype == DType::F32 ? memory::data_type::f32 : memory::data_type::bf16;
        x_desc = Desc(x, type, last);
        y_desc = Desc(y, type, last);
        w_any = Desc(w, type, tag::any);
        w_plain = Desc(w, type, strides);
        b_desc = Desc(b, type, tag::x);
    }
};

dnnl::primitive_attr attributes() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Layouts& l, bool bias) {
    return {engine(),
            dnnl::prop_kind::forward_training,
            dnnl::algorithm::convolution_direct,
            l.x_desc,
            l.w_any,
            bias ? l.b_desc : Desc(),
            l.y_desc,
            l.stride,
            l.dilation,
            l.low,
            l.high,
            attributes()};
}

Tensor bytes_for(const Desc& d) { return empty({static_cast<int64_t>(d.get_size())}, DType::U8, cpu_device); }

// Executes the plan with our memory; converts weights on the way in or out.
void execute(const Plan& plan, const Layouts& l, std::unordered_map<int, memory> args, int weight_arg,
             const Tensor& weight) {
    dnnl::stream stream(engine());
    memory plain(l.w_plain, engine(), weight.raw());
    Tensor packed;
    memory used = plain;
    if (plan.weight != l.w_plain) {
        packed = bytes_for(plan.weight);
        used = memory(plan.weight, engine(), packed.raw());
    }
    if (plan.weight_in) plan.weight_in->execute(stream, plain, used);
    args[weight_arg] = used;
    Tensor scratch = bytes_for(plan.scratchpad);
    args[DNNL_ARG_SCRATCHPAD] = memory(plan.scratchpad, engine(), scratch.raw());
    plan.primitive.execute(stream, args);
    if (plan.weight_out) plan.weight_out->execute(stream, used, plain);
    stream.wait();
    pool::rethrow_team_error();
}

memory at(const Desc& d, const Tensor& t) { return memory(d, engine(), t.raw()); }

template <class F>
void guarded(F f) {
    try {
        f();
    } catch (const dnnl::error& e) {
        fail_state("oneDNN: ", e.what());
    }
}

}  // namespace

void onednn_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
    guarded([&] {
        Layouts l(s, weight.dtype());
        auto plan = cache().get(key_of('f', s, x.dtype(), bias.defined()), [&] {
            auto pd = forward_desc(l, bias.defined());
            choose_implementation(pd);
            Plan p{dnnl::convolution_forward(pd), pd.weights_desc(), pd.scratchpad_desc(), nullptr, nullptr};
            if (p.weight != l.w_plain)
                p.weight_in = std::make_shared<dnnl::reorder>(
                    dnnl::reorder::primitive_desc(engine(), l.w_plain, engine(), p.weight));
            return p;
        });
        std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, at(l.x_desc, x)}, {DNNL_ARG_DST, at(l.y_desc, y)}};
        if (bias) args[DNNL_ARG_BIAS] = at(l.b_desc, bias);
        execute(*plan, l, std::move(args), DNNL_ARG_WEIGHTS, weight);
    });
}

void onednn_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& weight) {
    guarded([&] {
        Layouts l(s, weight.dtype());
        auto plan = cache().get(key_of('i', s, gy.dtype(), false), [&] {
            auto hint = forward_desc(l, false);
            dnnl::convolution_backward_data::primitive_desc pd(engine(), dnnl::algorithm::convolution_direct, l.x_desc,
                                                               l.w_any, l.y_desc, l.stride, l.dilation, l.low, l.high,
                                                               hint, attributes());
            choose_implementation(pd);
            Plan p{dnnl::convolution_backward_data(pd), pd.weights_desc(), pd.scratchpad_desc(), nullptr, nullptr};
            if (p.weight != l.w_plain)
                p.weight_in = std::make_shared<dnnl::reorder>(
                    dnnl::reorder::primitive_desc(engine(), l.w_plain, engine(), p.weight));
            return p;
        });
        execute(*plan, l, {{DNNL_ARG_DIFF_SRC, at(l.x_desc, gx)}, {DNNL_ARG_DIFF_DST, at(l.y_desc, gy)}},
                DNNL_ARG_WEIGHTS, weight);
    });
}

void onednn_backward_weight(const ConvShape& s, const Tensor& gweight, const Tensor& gy, const Tensor& x) {
    guarded([&] {
        Layouts l(s, x.dtype());
        auto plan = cache().get(key_of('w', s, x.dtype(), false), [&] {
            auto hint = forward_desc(l, false);
            dnnl::convolution_backward_weights::primitive_desc pd(engine(), dnnl::algorithm::convolution_direct,
                                                                  l.x_desc, l.w_any, Desc(), l.y_desc, l.stride,
                                                                  l.dilation, l.low, l.high, hint, attributes());
            choose_implementation(pd);
            Plan p{dnnl::convolution_backward_weights(pd), pd.diff_weights_desc(), pd.scratchpad_desc(), nullptr,
                   nullptr};
            if (p.weight != l.w_plain)
                p.weight_out = std::make_shared<dnnl::reorder>(
                    dnnl::reorder::primitive_desc(engine(), p.weight, engine(), l.w_plain));
            return p;
        });
        execute(*plan, l, {{DNNL_ARG_SRC, at(l.x_desc, x)}, {DNNL_ARG_DIFF_DST, at(l.y_desc, gy)}},
                DNNL_ARG_DIFF_WEIGHTS, gweight);
    });
}

ConvPlans conv_plans() { return {cache().size(), most_plans, kept_kernels, most_kept_kernels}; }

std::string onednn_version() {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace fb::cpu
