// The meta device computes nothing (device/table.h). Primitives whose result is a decision the op needs, rather than
// values read from elements, are implemented here, so that shapes and layouts equal those of the CPU.
#include "device/convolution.h"
#include "device/linalg.h"
#include "device/matmul.h"

namespace fb::meta {
namespace {

using namespace device;

// Checks of values (a matrix that has no inverse, say) always pass.
bool always(const Tensor&) { return true; }
int64_t no_code(const Tensor&, int&) { return -1; }

template <class Family>
Family nothing() {
    return families<Family>[static_cast<size_t>(DeviceType::Meta)];
}

const Provide<Decomposing> decomposing(DeviceType::Meta, [] {
    Decomposing all = nothing<Decomposing>();
    all.all_finite = always;
    all.first_code = no_code;
    all.all_ranks = [](const Tensor&, int64_t) { return true; };
    return all;
}());

const Provide<Multiplying> multiplying(DeviceType::Meta, [] {
    Multiplying all = nothing<Multiplying>();
    all.gemm_bias = [](const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return true; };
    return all;
}());

const Provide<Convolving> convolving(DeviceType::Meta, [] {
    Convolving all = nothing<Convolving>();
    // The algorithm decides the layout of the result.
    all.choose = [](ConvPass pass, const ConvShape& s, const Tensor& given, bool planes) {
        return device::on<Convolving>(cpu_device).choose(pass, s, given, planes);
    };
    all.planes_forward = [](const ConvShape&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
        return true;
    };
    all.planes_backward_input = [](const ConvShape&, const Tensor&, const Tensor&, const Tensor&) { return true; };
    all.planes_backward_weight = all.planes_backward_input;
    return all;
}());

}  // namespace
}  // namespace fb::meta
