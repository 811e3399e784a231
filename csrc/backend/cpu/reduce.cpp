#include "device/reduce.h"

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

const device::Provide<device::Reducing> provided(DeviceType::CPU, {.reduce = reduce,
                                                                   .extreme_along = extreme_along,
                                                                   .absolute_power = absolute_power,
                                                                   .take_root = take_root});

}  // namespace
}  // namespace fb::cpu
