// CPU fallback for primitives without a kernel: the memory they access is copied to the host and back. The template
// derives such an entry for every member of a family from its type.
#pragma once
#include <bit>
#include <tuple>

#include "backend/gpu/driver.h"
#include "device/attention.h"
#include "device/index.h"
#include "device/normalization.h"
#include "device/optimizer.h"
#include "device/quantized.h"
#include "device/sort.h"
#include "device/table.h"

namespace fb::gpu {

// Calls f(tensor) for the tensors in an argument or result of a primitive.
template <class F>
void each_tensor(Tensor& t, F f) {
    if (t) f(t);
}
template <class F>
void each_tensor(device::Attention& p, F f) {
    for (Tensor* t : {&p.q, &p.k, &p.v, &p.mask}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::Affine& p, F f) {
    for (Tensor* t : {&p.weight, &p.bias}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::Statistics& p, F f) {
    for (Tensor* t : {&p.mean, &p.rstd}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::Running& p, F f) {
    for (Tensor* t : {&p.mean, &p.variance}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::NormGradients& p, F f) {
    for (Tensor* t : {&p.input, &p.weight, &p.bias}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::OptimizerRows& rows, F f) {
    for (device::OptimizerRow& row : rows) {
        for (Tensor& t : row.columns) each_tensor(t, f);
    }
}
template <class F>
void each_tensor(device::QuantWeight& p, F f) {
    for (Tensor* t : {&p.data, &p.scale, &p.zero}) each_tensor(*t, f);
}
template <class F>
void each_tensor(device::Distinct& p, F f) {
    for (Tensor* t : {&p.values, &p.inverse, &p.counts}) each_tensor(*t, f);
}

template <class T>
concept HasTensors = requires(T& value) { each_tensor(value, [](Tensor&) {}); };

// A copy on the host of the device memory used by the tensors of one call, for the duration of the call.
class Mirror {
  public:
    // `whole`: the primitive accesses more than its tensors show, since they come with offsets into memory.
    explicit Mirror(bool whole = false) : whole_(whole) {}
    void note(const Tensor& t);  // must be called for every tensor first
    void fetch();
    Tensor on_host(const Tensor& t) const;
    Tensor on_device(const Tensor& t) const;  // a result that was created on the host
    // Copies everything back, since it is not known what was written.
    void give_back();

  private:
    struct Part {
        const Storage* storage;
        int64_t low, high;  // range of bytes used
        Ref<Storage> host;
    };
    bool whole_;
    std::vector<Part> parts_;
    std::optional<Device> device_;
};

// An argument during the call: tensors are replaced by copies, everything else is passed on.
template <class A>
using Held = std::conditional_t<HasTensors<std::remove_cvref_t<A>>, std::remove_cvref_t<A>, A>;

template <class R, class... A>
R run_on_host(bool whole, R (*primitive)(A...), A... args) {
    std::tuple<Held<A>...> held(static_cast<A>(args)...);
    Mirror mirror(whole);
    auto each = [&](auto f) {
        std::apply(
            [&](auto&... arg) {
                auto look = [&](auto& one) {
                    if constexpr (HasTensors<std::remove_cvref_t<decltype(one)>>)
                        if constexpr (!std::is_const_v<std::remove_reference_t<decltype(one)>>) each_tensor(one, f);
                };
                (look(arg), ...);
            },
            held);
    };
    each([&](Tensor& t) { mirror.note(t); });
    mirror.fetch();
    each([&](Tensor& t) { t = mirror.on_host(t); });
    auto call = [&](auto&... arg) -> R { return primitive(static_cast<A>(arg)...); };
    if constexpr (std::is_void_v<R>) {
        std::apply(call, held);
        mirror.give_back();
    } else {
        R result = std::apply(call, held);
        mirror.give_back();
        if constexpr (HasTensors<R>) each_tensor(result, [&](Tensor& t) { t = mirror.on_device(t); });
        return result;
    }
}

// Member `at` of a family.
template <class Family, size_t at>
struct Fallback {
    template <class R, class... A>
    static R call(A... args) {
        using Members = std::array<void (*)(), sizeof(Family) / sizeof(void (*)())>;
        Members members = std::bit_cast<Members>(device::families<Family>[static_cast<size_t>(DeviceType::CPU)]);
        constexpr bool whole = std::is_same_v<Family, device::Indexing>;
        return run_on_host<R, A...>(whole, reinterpret_cast<R (*)(A...)>(members[at]), static_cast<A>(args)...);
    }
    template <class R, class... A>
    constexpr operator device::Primitive<R, A...>() const {
        return call<R, A...>;
    }
};
template <class Family>
constexpr Family fallbacks() {
    return []<size_t... at>(std::index_sequence<at...>) {
        return Family{Fallback<Family, at>{}...};
    }(std::make_index_sequence<sizeof(Family) / sizeof(void (*)())>());
}

}  // namespace fb::gpu
