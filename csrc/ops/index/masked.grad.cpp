// Elements kept where a condition holds, zeros elsewhere: what the gradients of relu, clamp and their like are made of.
#include "ops/pointwise/elementwise.h"
#include "ops/table/gradient.h"

namespace fb {
namespace {

template <class T>
void masked_tile(char** data, int64_t n, const void*) {
    T* __restrict y = reinterpret_cast<T*>(data[0]);
    const T* x = reinterpret_cast<const T*>(data[1]);
    const Bool* mask = reinterpret_cast<const Bool*>(data[2]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = mask[i] ? x[i] : T(0);
}

// As in PyTorch, NaN in the result lets the gradient through.
struct ReluGradient {
    template <class T>
    static T f(T g, T y) {
        return y <= T(0) ? T(0) : g;
    }
};

}  // namespace

OP("_masked(Tensor input, Tensor mask) -> Tensor", FREE) {
    const Tensor &x = a.tensor(0), &mask = a.tensor(1);
    check(mask.dtype() == DType::Bool && mask.shape() == x.shape(), "expected a bool mask of shape ", x.shape(),
          ", got ", mask.dtype(), " of shape ", mask.shape());
    return dispatch_size(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        return ew::launch(a, {x, mask}, x.dtype(), x.dtype(), {x.dtype(), DType::Bool}, masked_tile<T>, nullptr, 1);
    });
}
GRAD("_masked", IN(1)) { c.set(0, masked(c.g(), c.in(1))); }

// The gradient of relu, from that of its result and the result.
OP("_relu_gradient(Tensor grad, Tensor result) -> Tensor", FREE) {
    static const ew::Kernels kernels = ew::binary_kernels<ReluGradient, ew::F>();
    return ew::binary(a, a.tensor(0), a.tensor(1), kernels, ew::Result::Same, 1);
}
GRAD("_relu_gradient", IN(1), CONST) { c.set(0, call<"_relu_gradient">(c.g(), c.in(1))); }

}  // namespace fb
