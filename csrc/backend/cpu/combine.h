// Combining two elements in the scattering ops: assignment copies bytes, everything else computes in the element's
// dtype.
#pragma once
#include <cmath>

#include "base/bool.h"
#include "device/index.h"

namespace fb::cpu {

using device::Combine;

template <Combine M, class T>
inline T combine(T old, T value) {
    if constexpr (M == Combine::Assign) {
        return value;
    } else if constexpr (is_half_type<T>) {
        return T(combine<M>(static_cast<float>(old), static_cast<float>(value)));
    } else if constexpr (M == Combine::Add) {
        if constexpr (std::is_same_v<T, Bool>) return old || value;
        else if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                                  static_cast<std::make_unsigned_t<T>>(value));
        else return old + value;
    } else if constexpr (M == Combine::Multiply) {
        if constexpr (std::is_same_v<T, Bool>) return old && value;
        else if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(value));
        else return old * value;
    } else if constexpr (M == Combine::Max) {
        if constexpr (std::is_same_v<T, Bool>) return old || value;
        else if constexpr (std::is_floating_point_v<T>)
            return old != old ? old : value != value ? value : std::max(old, value);
        else return std::max(old, value);
    } else {
        if constexpr (std::is_same_v<T, Bool>) return old && value;
        else if constexpr (std::is_floating_point_v<T>)
            return old != old ? old : value != value ? value : std::min(old, value);
        else return std::min(old, value);
    }
}

template <Combine M>
using CombineTag = std::integral_constant<Combine, M>;

// f(TypeTag<T>, CombineTag<M>): assignment by item size, addition and multiplication for all dtypes, the others for
// real ones. T is the stored type: Bool for bool.
template <class F>
void dispatch_combine(Combine how, DType dtype, F&& f) {
    auto as_stored = [&](auto tag, auto m) { f(TypeTag<Stored<typename decltype(tag)::type>>{}, m); };
    switch (how) {
        case Combine::Assign:
            dispatch_size(dtype, [&](auto tag) { f(tag, CombineTag<Combine::Assign>{}); });
            break;
        case Combine::Add:
            dispatch_all(dtype, [&](auto tag) { as_stored(tag, CombineTag<Combine::Add>{}); });
            break;
        case Combine::Multiply:
            dispatch_all(dtype, [&](auto tag) { as_stored(tag, CombineTag<Combine::Multiply>{}); });
            break;
        case Combine::Max:
            dispatch_real(dtype, [&](auto tag) { as_stored(tag, CombineTag<Combine::Max>{}); });
            break;
        case Combine::Min:
            dispatch_real(dtype, [&](auto tag) { as_stored(tag, CombineTag<Combine::Min>{}); });
            break;
    }
}

}  // namespace fb::cpu
