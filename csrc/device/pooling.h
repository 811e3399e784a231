// Pooling over windows of up to three spatial dimensions.
#pragma once
#include "device/table.h"

namespace fb::device {

// A window along one dimension: positions begin, begin + step, … below end, and its count in an average.
struct Span {
    int64_t begin, end, count;
};

// The windows of one dimension. The caller controls their number, so they are in memory of the allocator, which raises
// an out-of-memory error when there are too many.
class Spans {
  public:
    void resize(int64_t n) {
        memory_ = empty({n, 3}, DType::I64, cpu_device);
        begin_ = memory_.data<Span>();
        end_ = begin_ + n;
    }
    Span& operator[](int64_t i) { return begin_[i]; }
    const Span& operator[](int64_t i) const { return begin_[i]; }
    const Span* begin() const { return begin_; }
    const Span* end() const { return end_; }

  private:
    Tensor memory_;
    Span *begin_ = nullptr, *end_ = nullptr;
};

// Missing dimensions have size 1 and come first.
struct PoolingShape {
    int64_t batch = 1, channels = 1;
    int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    int64_t step[3] = {1, 1, 1};  // dilation
    Spans spans[3];
    // Along the last dimension window i begins at i * stride - padding and has `kernel` taps; stride 0: irregular.
    int64_t stride = 0, padding = 0, kernel = 0;
    double divisor = 0;  // of averages, instead of the windows' counts; 0: none
    bool last = false;   // channels-last in memory

    int64_t pixels() const { return in[0] * in[1] * in[2]; }
    int64_t places() const { return out[0] * out[1] * out[2]; }
};

// All tensors are contiguous in the order that the shape names; float32, float64 or int64. Indices (int32 or int64, may
// be undefined) are positions in a plane.
struct Pooling {
    void (*max)(const PoolingShape& s, const Tensor& y, const Tensor& indices, const Tensor& x);
    void (*average)(const PoolingShape& s, const Tensor& y, const Tensor& x);
    void (*average_gradient)(const PoolingShape& s, const Tensor& gx, const Tensor& g);
    // Row-major planes, each with its own windows of size `kernel`, placed by random numbers in [0, 1): one row of
    // `samples` per plane, with a number per spatial dimension.
    void (*fractional_max)(const PoolingShape& s, const int64_t (&kernel)[3], int64_t spatial, const Tensor& samples,
                           const Tensor& y, const Tensor& indices, const Tensor& x);
    // big[indices] += small (big is zeroed first), or = without `add`; small = big[indices]. Every index is checked.
    void (*scatter)(const PoolingShape& s, const Tensor& big, const Tensor& small, const Tensor& indices, bool add);
    void (*gather)(const PoolingShape& s, const Tensor& small, const Tensor& big, const Tensor& indices);
};
inline const Pooling& pooling(const Tensor& on) { return device::on<Pooling>(on.device()); }

}  // namespace fb::device
