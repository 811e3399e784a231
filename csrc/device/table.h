// The contract between ops and devices. A family of primitives is a plain struct of function pointers; there is one per
// device type, and an op uses that of its output's device: device::sorting(out).sort(…). Primitives get tensors that
// the op has checked and allocated. A backend fills in its families with Provide; see ARCHITECTURE.md, "Devices".
#pragma once
#include <array>
#include <utility>

#include "tensor/tensor.h"

namespace fb::device {

// Raises "not implemented on device …", for a primitive or an optional function that the device lacks.
[[noreturn]] void fail_absent(Device device);
// For functions that return values read from elements, which meta tensors do not have.
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

// The entry of a device that lacks the primitive: raises an error.
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
// The entry of the meta device: computes nothing.
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

// A family with the same entry in all places.
template <class Family, class Entry>
constexpr Family filled(Entry entry) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
        return Family{(static_cast<void>(i), entry)...};
    }(std::make_index_sequence<sizeof(Family) / sizeof(Primitive<void>)>());
}

// Optional functions of a family (Family::optional) are null where a device lacks them; the op then uses primitives.
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

// A backend declares an object of this type at namespace scope to provide its entries.
template <class Family>
struct Provide {
    Provide(DeviceType type, const Family& family) { families<Family>[static_cast<size_t>(type)] = family; }
};

}  // namespace fb::device
