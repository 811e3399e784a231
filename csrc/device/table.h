// The contract between ops and devices. A family of primitives is a plain struct of function pointers; there is one per
// device type, and an op takes the one of its output's device: device::sorting(out).sort(…). Primitives get tensors
// that the op has checked and allocated. A backend fills in its families with Provide; see ARCHITECTURE.md, "Devices".
#pragma once
#include <array>
#include <utility>

#include "tensor/tensor.h"

namespace fb::device {

// "not implemented on device …": a primitive or an optional function that the device lacks.
[[noreturn]] void fail_absent(Device device);
// For functions that give back what they read from elements: meta tensors have none.
[[noreturn]] void fail_without_values();

// The device of the first tensor among the arguments of a primitive.
template <class... A>
Device device_among(const A&... args) {
    const Tensor* first = nullptr;
    auto look = [&](const auto& a) {
        if constexpr (std::is_same_v<std::decay_t<decltype(a)>, Tensor>) {
            if (!first && a.defined()) first = &a;
        }
    };
    (look(args), ...);
    return first ? first->device() : Device{};
}

template <class R, class... A>
using Primitive = R (*)(A...);

// What stands for every primitive of a device that has no backend, or not that one.
struct Absent {
    template <class R, class... A>
    static R call(A... args) {
        fail_absent(device_among(args...));
    }
    template <class R, class... A>
    constexpr operator Primitive<R, A...>() const {
        return call<R, A...>;
    }
};
// What stands for every primitive of the meta device: nothing is computed.
struct Nothing {
    template <class R, class... A>
    static R call(A...) {
        if constexpr (!std::is_void_v<R>) fail_without_values();
    }
    template <class R, class... A>
    constexpr operator Primitive<R, A...>() const {
        return call<R, A...>;
    }
};

// A family with the same entry everywhere.
template <class Family, class Entry>
constexpr Family filled(Entry entry) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
        return Family{(static_cast<void>(i), entry)...};
    }(std::make_index_sequence<sizeof(Family) / sizeof(Primitive<void>)>());
}

// Functions that a device may lack (Family::optional) are null there, and the op computes with primitives instead.
template <class Family>
concept Optional = requires { requires Family::optional; };

template <class Family>
constexpr std::array<Family, device_types> initial_families() {
    std::array<Family, device_types> families{};
    if constexpr (!Optional<Family>) families.fill(filled<Family>(Absent{}));
    families[static_cast<size_t>(DeviceType::Meta)] = filled<Family>(Nothing{});
    return families;
}
template <class Family>
constinit inline std::array<Family, device_types> families = initial_families<Family>();

template <class Family>
inline const Family& on(Device device) {
    return families<Family>[static_cast<size_t>(device.type)];
}

// An object of this type at namespace scope is how a backend says what it has.
template <class Family>
struct Provide {
    Provide(DeviceType type, const Family& family) { families<Family>[static_cast<size_t>(type)] = family; }
};

}  // namespace fb::device
