// How two elements meet in the scattering ops: assignment moves bytes, everything else computes in the element's dtype.
#pragma once
#include <cmath>

#include "base/bool.h"
#include "device/index.h"

namespace fb::cpu {

using device::Meet;

template <Meet M, class T>
inline T meet(T old, T value) {
    if constexpr (M == Meet::Assign) {
        return value;
    } else if constexpr (is_half_type<T>) {
        return T(meet<M>(static_cast<float>(old), static_cast<float>(value)));
    } else if constexpr (M == Meet::Add) {
        if constexpr (std::is_same_v<T, Bool>) return old || value;
        else if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                                  static_cast<std::make_unsigned_t<T>>(value));
        else return old + value;
    } else if constexpr (M == Meet::Multiply) {
        if constexpr (std::is_same_v<T, Bool>) return old && value;
        else if constexpr (std::is_integral_v<T>)
            return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(value));
        else return old * value;
    } else if constexpr (M == Meet::Max) {
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

template <Meet M>
using MeetTag = std::integral_constant<Meet, M>;

// f(TypeTag<T>, MeetTag<M>): assignment by item size, addition and multiplication for all dtypes, the others for real
// ones. T is the stored type: Bool for bool.
template <class F>
void dispatch_meet(Meet how, DType dtype, F&& f) {
    auto as_stored = [&](auto tag, auto m) { f(TypeTag<Stored<typename decltype(tag)::type>>{}, m); };
    switch (how) {
        case Meet::Assign:
            dispatch_size(dtype, [&](auto tag) { f(tag, MeetTag<Meet::Assign>{}); });
            break;
        case Meet::Add:
            dispatch_all(dtype, [&](auto tag) { as_stored(tag, MeetTag<Meet::Add>{}); });
            break;
        case Meet::Multiply:
            dispatch_all(dtype, [&](auto tag) { as_stored(tag, MeetTag<Meet::Multiply>{}); });
            break;
        case Meet::Max:
            dispatch_real(dtype, [&](auto tag) { as_stored(tag, MeetTag<Meet::Max>{}); });
            break;
        case Meet::Min:
            dispatch_real(dtype, [&](auto tag) { as_stored(tag, MeetTag<Meet::Min>{}); });
            break;
    }
}

}  // namespace fb::cpu
