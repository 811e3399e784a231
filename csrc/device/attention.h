// softmax(query · keyᵀ · scale + mask) · value, without storing the scores.
#pragma once
#include "device/table.h"

namespace fb::device {

// Arguments have shape (N, H, length, features), any real floating dtype, and contiguous features; key and value may
// have fewer heads, each shared by several heads of query. The mask, of shape (N, H, length, source) with any strides,
// is undefined, bool or of the dtype q computes in.
struct Attention {
    Tensor q, k, v, mask;
    bool causal;
    double scale;
    int64_t batch, heads, key_heads, length, source, features, value_features;

    int64_t shared() const { return heads / key_heads; }
    // Number of keys visible to the queries before `end`.
    int64_t visible(int64_t end) const { return causal ? std::min(source, end) : source; }
};

struct Attending {
    // output: zero-initialised. logsumexp: contiguous (N, H, length), of the dtype q computes in.
    void (*forward)(const Attention& p, const Tensor& output, const Tensor& logsumexp);
    // dq, dk, dv: zero-initialised. Features are contiguous in all.
    void (*backward)(const Attention& p, const Tensor& grad, const Tensor& output, const Tensor& logsumexp,
                     const Tensor& dq, const Tensor& dk, const Tensor& dv);
};
inline const Attending& attending(const Tensor& on) { return device::on<Attending>(on.device()); }

}  // namespace fb::device
