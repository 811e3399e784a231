// What accelerators have: kernels where there are some, and for all else the CPU.
#include "backend/gpu/families.h"

#include "backend/gpu/fallback.h"
#include "device/convolution.h"
#include "device/count.h"
#include "device/create.h"
#include "device/index.h"
#include "device/linalg.h"
#include "device/losses.h"
#include "device/pooling.h"
#include "device/random.h"
#include "device/recurrent.h"
#include "device/scan.h"

namespace fb::gpu {
namespace {

using namespace device;

// Pointers to tensors do not say how many there are: these are written out.
void run(const Formula& formula, DType common, const Tensor& out, const Tensor* const* in, const Numbers* numbers,
         double cost) {
    if (run_loop(formula, common, out, in, numbers)) return;
    Mirror mirror;
    mirror.note(out);
    for (int i = 0; i < formula.inputs; i++) mirror.note(*in[i]);
    mirror.fetch();
    Tensor inputs[3];
    const Tensor* pointers[3];
    for (int i = 0; i < formula.inputs; i++) {
        inputs[i] = mirror.on_host(*in[i]);
        pointers[i] = &inputs[i];
    }
    Tensor result = mirror.on_host(out);
    looping(result).run(formula, common, result, pointers, numbers, cost);
    mirror.give_back();
}

void reduce(Reduction how, DType read, const Tensor& in, const Dims& reduced, const Tensor* outs,
            const double* numbers) {
    if (run_reduction(how, read, in, reduced, outs, numbers)) return;
    int count = how == Reduction::Extremes || how == Reduction::Moments ? 2 : 1;
    Mirror mirror;
    mirror.note(in);
    for (int i = 0; i < count; i++) {
        if (outs[i]) mirror.note(outs[i]);
    }
    mirror.fetch();
    Tensor results[2], from = mirror.on_host(in);
    for (int i = 0; i < count; i++) {
        if (outs[i]) results[i] = mirror.on_host(outs[i]);
    }
    reducing(from).reduce(how, read, from, reduced, results, numbers);
    mirror.give_back();
}

void join(const Tensor& to, const std::vector<Part>& parts, int64_t dim) {
    for (const Part& part : parts) {
        Dims shape = to.shape();
        shape[dim] = part.tensor->shape()[dim];
        if (part.tensor->numel())
            moving(to).copy(view_of(to, shape, to.strides(), to.offset() + part.start * to.strides()[dim]),
                            *part.tensor);
    }
}

void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    if (run_product(c, a, b, alpha, beta)) return;
    run_on_host<void, const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&>(
        false, on<Multiplying>(cpu_device).gemm, c, a, b, alpha, beta);
}

Looping with_kernels(Looping all) {
    all.run = run;
    return all;
}
Reducing with_kernels(Reducing all) {
    all.reduce = reduce;
    return all;
}
Moving with_kernels(Moving all) {
    all.copy = copy;
    all.fill = fill;
    all.write = write;
    all.copy_flipped = copy;
    all.join = join;
    return all;
}
Multiplying with_kernels(Multiplying all) {
    all.gemm = gemm;
    return all;
}
template <class Family>
constexpr Family with_kernels(Family all) {
    return all;
}

template <class... Family>
bool provide(DeviceType type) {
    (static_cast<void>(Provide<Family>(type, with_kernels(fallbacks<Family>()))), ...);
    return true;
}
template <DeviceType... type>
bool provide_on() {
    return (
        provide<Attending, Convolving, Counting, Creating, Decomposing, Drawing, Indexing, Looping, Losses, Moving,
                Multiplying, Normalizing, OptimizerSteps, Pooling, Quantized, Recurrent, Reducing, Scanning, Sorting>(
            type) &&
        ...);
}
[[maybe_unused]] const bool provided = provide_on<DeviceType::Sim, DeviceType::OpenCL>();

}  // namespace
}  // namespace fb::gpu
