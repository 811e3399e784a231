#include "device/reduce.h"

#include <cmath>
#include <limits>

#include "backend/cpu/reduce.h"

namespace fb::cpu {
namespace {

using device::Reduction;

ReduceKernel kernel_of(Reduction how, DType read) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    switch (how) {
        case Reduction::Sum:
            return sum_kernel(read);
        case Reduction::NanSum:
            return nansum_kernel(read);
        case Reduction::Mean:
            return mean_kernel(read);
        case Reduction::Product:
            return prod_kernel(read);
        case Reduction::Count:
            return count_kernel(read);
        case Reduction::Any:
            return truth_kernel(read, false);
        case Reduction::All:
            return truth_kernel(read, true);
        case Reduction::Largest:
            return extreme_kernel(read, true);
        case Reduction::Smallest:
            return extreme_kernel(read, false);
        case Reduction::Extremes:
            return aminmax_kernel(read);
        case Reduction::Moments:
            return moments_kernel(read);
        case Reduction::NonZeros:
            return norm_kernel(read, 0);
        case Reduction::Absolutes:
            return norm_kernel(read, 1);
        case Reduction::Euclidean:
            return norm_kernel(read, 2);
        case Reduction::LargestAbsolute:
            return norm_kernel(read, inf);
        case Reduction::SmallestAbsolute:
            return norm_kernel(read, -inf);
        case Reduction::LogSumExp:
            return logsumexp_kernel(read);
    }
    __builtin_unreachable();
}

void reduce(Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
            const double* numbers) {
    run_reduce(kernel_of(how, read), in, reduced, outs, numbers);
}

void complex_logsumexp(const Tensor& rows, const Tensor& out) {
    int64_t count = out.numel(), n = count ? rows.numel() / count : 0;
    const c128* x = rows.data<c128>();
    for (int64_t i = 0; i < count; i++, x += n) {
        double top = -std::numeric_limits<double>::infinity();
        for (int64_t k = 0; k < n; k++) top = std::max(top, x[k].real());
        if (!std::isfinite(top)) top = 0;
        c128 total = 0;
        for (int64_t k = 0; k < n; k++) total += std::exp(x[k] - top);
        out.data<c128>()[i] = std::log(total) + top;
    }
}

void sum_in_order(const Tensor& in, const Tensor& out) {
    dispatch_compute(in.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        using Sum = std::conditional_t<is_complex_type<T>, c128,
                                       std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>>;
        Sum sum{};
        for (int64_t i = 0; i < in.numel(); i++) sum += Sum(in.data<T>()[i]);
        *out.data<T>() = T(sum);
    });
}

device::Summary summarise(const Tensor& in) {
    device::Summary s;
    s.low = std::numeric_limits<double>::infinity();
    s.high = -s.low;
    s.sum = 0;
    DType part = real_of(in.dtype());
    int64_t n = in.numel() * (part == in.dtype() ? 1 : 2);
    dispatch<float, double>(part, "a floating point or complex dtype", [&](auto tag) {
        const auto* p = in.data<typename decltype(tag)::type>();
        for (int64_t i = 0; i < n; i++) {
            double x = static_cast<double>(p[i]);
            s.nan += std::isnan(x);
            s.infinite += std::isinf(x);
            if (!std::isfinite(x)) continue;
            s.low = std::min(s.low, x);
            s.high = std::max(s.high, x);
            s.sum += x;
            s.finite++;
        }
    });
    return s;
}

const device::Provide<device::Reducing> provided(DeviceType::CPU, {.reduce = reduce,
                                                                   .extreme_along = extreme_along,
                                                                   .absolute_power = absolute_power,
                                                                   .take_root = take_root,
                                                                   .complex_logsumexp = complex_logsumexp,
                                                                   .sum_in_order = sum_in_order,
                                                                   .summarise = summarise});

}  // namespace
}  // namespace fb::cpu
