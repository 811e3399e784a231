// Pooling: windows over up to three spatial dimensions, and the kernels that reduce them.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace fb {

// A window along one dimension: positions begin, begin + step, … below end, and how many it counts for in an average.
struct Span {
    int64_t begin, end, count;
};

// Missing dimensions have size 1 and come first.
struct PoolShape {
    int64_t batch = 1, channels = 1;
    int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    int64_t step[3] = {1, 1, 1};  // dilation
    std::vector<Span> spans[3];
    // Along the last dimension window i begins at i * stride - padding and has kernel taps; stride 0: irregular.
    int64_t stride = 0, padding = 0, kernel = 0;
    double divisor = 0;  // of averages, instead of what the windows count; 0: none
    bool last = false;   // channels-last in memory

    int64_t pixels() const { return in[0] * in[1] * in[2]; }
    int64_t places() const { return out[0] * out[1] * out[2]; }
};

namespace cpu {

// All tensors in the order that the shape names; float32, float64 or int64. Indices (int32 or int64, may be undefined)
// are positions in a plane.
void max_pool(const PoolShape& s, const Tensor& y, const Tensor& indices, const Tensor& x);
void avg_pool(const PoolShape& s, const Tensor& y, const Tensor& x);
void avg_pool_gradient(const PoolShape& s, const Tensor& gx, const Tensor& g);
// Windows of `kernel` that begin where starts[3] (of out sizes, for each plane) say; row-major only.
void irregular_max_pool(const PoolShape& s, const int64_t (&kernel)[3], const std::vector<int32_t> (&starts)[3],
                        const Tensor& y, const Tensor& indices, const Tensor& x);
// big[indices] += small (big is zeroed first), or = when not `add`; small = big[indices]. Every index is checked.
void pool_scatter(const PoolShape& s, const Tensor& big, const Tensor& small, const Tensor& indices, bool add);
void pool_gather(const PoolShape& s, const Tensor& small, const Tensor& big, const Tensor& indices);

}  // namespace cpu
}  // namespace fb
