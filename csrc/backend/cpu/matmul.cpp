// Products as primitives: those of gemm.cpp, and simpler ones.
#include "device/matmul.h"

#include "backend/cpu/distance.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/loops.h"
#include "base/bool.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

bool gemm_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias) {
    int64_t m = out.size(0), n = out.size(1), k = b.size(0);
    bool row = bias.dim() == 1 && bias.numel() == n && bias.is_contiguous() && k > 0;
    if (row && is_half(out.dtype())) return half_gemm_bias(out, a, b, bias), true;
    bool together = row && m > 1 && n > 1 && (out.dtype() == DType::F32 || out.dtype() == DType::F64) &&
                    !direct_gemm_fits(out.dtype(), n, k, b.strides()[1]);
    if (!together) return false;
    large_gemm({out.dtype(), m, n, k, a.raw(), a.strides()[0], a.strides()[1], b.raw(), b.strides()[0], b.strides()[1],
                out.raw(), n, Scalar(1), Scalar(0), bias.raw()});
    return true;
}

void outer(const Tensor& out, const Tensor& left, const Tensor& right) {
    DType dtype = out.dtype();
    bool plain = out.strides()[1] == 1 && right.strides()[0] == 1;
    if (!plain || (dtype != DType::F32 && dtype != DType::F64))
        return gemm(out, unsqueeze(left, 1), unsqueeze(right, 0));
    dispatch<float, double>(dtype, "float32 or float64", [&](auto tag) {
        using T = typename decltype(tag)::type;
        int64_t n = right.numel();
        parallel_for(left.numel(), std::max<int64_t>(1, parallel_grain / std::max<int64_t>(1, n)),
                     [&](int64_t begin, int64_t end) {
                         const T* __restrict row = right.data<T>();
                         for (int64_t i = begin; i < end; i++) {
                             T factor = left.data<T>()[i * left.strides()[0]];
                             T* __restrict to = out.data<T>() + i * out.strides()[0];
#pragma omp simd
                             for (int64_t j = 0; j < n; j++) to[j] = factor * row[j];
                         }
                     });
    });
}

void add_outer_half(const Tensor& out, const Tensor& start, const Tensor& left, const Tensor& right, const Scalar& beta,
                    const Scalar& alpha) {
    const Dims& shape = out.shape();
    dispatch<Half, BFloat16>(out.dtype(), "float16 or bfloat16", [&](auto tag) {
        using T = typename decltype(tag)::type;
        float b = beta.to<T>(), a = alpha.to<T>();
        for (int64_t i = 0; i < shape[0]; i++) {
            float factor = T(a * left.data<T>()[i]);
            const T *from = start.data<T>() + i * shape[1], *row = right.data<T>();
            T* to = out.data<T>() + i * shape[1];
            for (int64_t j = 0; j < shape[1]; j++)
                to[j] = T((b == 0 ? 0.0f : float(T(b * from[j]))) + float(T(factor * row[j])));
        }
    });
}

template <class T>
void multiply_tile(char** data, int64_t n, const void*) {
    T* out = reinterpret_cast<T*>(data[0]);
    const Stored<T>*x = reinterpret_cast<const Stored<T>*>(data[1]), *y = reinterpret_cast<const Stored<T>*>(data[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        if constexpr (std::is_integral_v<T>)
            out[i] = static_cast<T>(static_cast<uint64_t>(x[i]) * static_cast<uint64_t>(y[i]));
        else out[i] = x[i] * y[i];
    }
}

// out = x * y with broadcasting.
void multiply(const Tensor& out, const Tensor& x, const Tensor& y) {
    if (out.numel() == 0) return;
    LoopPlan plan;
    const Tensor* operands[] = {&out, &x, &y};
    make_plan(plan, out.shape(), operands, 3);
    DType compute = compute_dtype(out.dtype()), types[] = {compute, compute, compute};
    dispatch_compute(
        compute, [&](auto tag) { run_tiles(plan, types, 1, multiply_tile<typename decltype(tag)::type>, nullptr); });
}

const device::Provide<device::Multiplying> provided(DeviceType::CPU, {.gemm = gemm,
                                                                      .gemm_bias = gemm_bias,
                                                                      .dot = dot,
                                                                      .outer = outer,
                                                                      .add_outer_half = add_outer_half,
                                                                      .multiply = multiply,
                                                                      .distances = distances,
                                                                      .pair_distances = pair_distances,
                                                                      .distance_slopes = distance_slopes});

}  // namespace
}  // namespace fb::cpu
