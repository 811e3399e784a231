// The entries of accelerators: kernels where there are some, and the CPU fallback for all others.
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

// Pointers to tensors do not carry their count: these entries are written by hand.
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

bool gemm_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias) {
    return run_product_with_bias(out, a, b, bias);
}
void dot(const Tensor& out, const Tensor& x, const Tensor& y, bool conjugate) {
    if (!run_dot(out, x, y))
        run_on_host<void, const Tensor&, const Tensor&, const Tensor&, bool>(false, on<Multiplying>(cpu_device).dot,
                                                                             out, x, y, conjugate);
}

// An entry that tries a kernel first. Kernels of primitives with a result return it, or nothing.
template <auto kernel, auto member>
struct Try;
template <class Family, class... A, bool (*kernel)(A...), void (*Family::*member)(A...)>
struct Try<kernel, member> {
    static void call(A... args) {
        if (kernel(args...)) return;
        run_on_host<void, A...>(std::is_same_v<Family, Indexing>, on<Family>(cpu_device).*member,
                                static_cast<A>(args)...);
    }
};
template <class R, class Family, class... A, std::optional<R> (*kernel)(A...), R (*Family::*member)(A...)>
struct Try<kernel, member> {
    static R call(A... args) {
        if (std::optional<R> made = kernel(args...)) return *made;
        return run_on_host<R, A...>(std::is_same_v<Family, Indexing>, on<Family>(cpu_device).*member,
                                    static_cast<A>(args)...);
    }
};

Looping with_kernels(Looping all) {
    all.run = run;
    all.run_pair = Try<run_pair, &Looping::run_pair>::call;
    return all;
}
Reducing with_kernels(Reducing all) {
    all.reduce = reduce;
    all.extreme_along = Try<run_extreme_along, &Reducing::extreme_along>::call;
    all.absolute_power = Try<run_absolute_power, &Reducing::absolute_power>::call;
    all.take_root = Try<run_take_root, &Reducing::take_root>::call;
    all.sum_in_order = Try<run_sum_in_order, &Reducing::sum_in_order>::call;
    return all;
}
Moving with_kernels(Moving all) {
    all.copy = copy;
    all.fill = fill;
    all.write = write;
    all.copy_flipped = copy;
    all.join = join;
    all.repeat = Try<run_repeat, &Moving::repeat>::call;
    all.interleave = Try<run_interleave, &Moving::interleave>::call;
    all.keep_triangle = Try<run_keep_triangle, &Moving::keep_triangle>::call;
    return all;
}
Multiplying with_kernels(Multiplying all) {
    all.gemm = Try<run_product, &Multiplying::gemm>::call;
    all.gemm_bias = gemm_bias;
    all.dot = dot;
    all.outer = Try<run_outer, &Multiplying::outer>::call;
    all.multiply = Try<run_multiply, &Multiplying::multiply>::call;
    all.distances = Try<run_distances, &Multiplying::distances>::call;
    all.pair_distances = Try<run_pair_distances, &Multiplying::pair_distances>::call;
    all.distance_slopes = Try<run_distance_slopes, &Multiplying::distance_slopes>::call;
    all.add_outer_half = Try<run_add_outer_half, &Multiplying::add_outer_half>::call;
    return all;
}
Scanning with_kernels(Scanning all) {
    all.sum = Try<run_scan_sum, &Scanning::sum>::call;
    all.product = Try<run_scan_product, &Scanning::product>::call;
    all.logsumexp = Try<run_scan_logsumexp, &Scanning::logsumexp>::call;
    all.extreme = Try<run_scan_extreme, &Scanning::extreme>::call;
    all.linear = Try<run_scan_linear, &Scanning::linear>::call;
    all.softmax = Try<run_softmax, &Scanning::softmax>::call;
    all.softmax_backward = Try<run_softmax_backward, &Scanning::softmax_backward>::call;
    return all;
}
device::Losses with_kernels(device::Losses all) {
    all.cross_entropy = Try<run_cross_entropy, &device::Losses::cross_entropy>::call;
    all.cross_entropy_backward = Try<run_cross_entropy_backward, &device::Losses::cross_entropy_backward>::call;
    return all;
}
Normalizing with_kernels(Normalizing all) {
    all.batch = Try<run_batch_norm, &Normalizing::batch>::call;
    all.batch_gradient = Try<run_batch_norm_gradient, &Normalizing::batch_gradient>::call;
    all.channel_sum = Try<run_channel_sum, &Normalizing::channel_sum>::call;
    all.group = Try<run_group_norm, &Normalizing::group>::call;
    all.group_gradient = Try<run_group_norm_gradient, &Normalizing::group_gradient>::call;
    all.rows = Try<run_row_norm, &Normalizing::rows>::call;
    all.rows_gradient = Try<run_row_norm_gradient, &Normalizing::rows_gradient>::call;
    return all;
}
ConvAlgorithm choose(ConvPass pass, const ConvShape& s, const Tensor& given, bool planes) {
    return on<Convolving>(cpu_device).choose(pass, s, given, planes);  // reads shapes and strides only
}
// Values that are not finite need no special handling here.
bool planes_forward(const ConvShape& s, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
    return run_conv_planes_forward(s, y, x, w, bias) ||
           run_on_host<bool, const ConvShape&, const Tensor&, const Tensor&, const Tensor&, const Tensor&>(
               false, on<Convolving>(cpu_device).planes_forward, s, y, x, w, bias);
}
bool planes_backward_input(const ConvShape& s, const Tensor& gx, const Tensor& gy, const Tensor& w) {
    return run_conv_planes_backward_input(s, gx, gy, w) ||
           run_on_host<bool, const ConvShape&, const Tensor&, const Tensor&, const Tensor&>(
               false, on<Convolving>(cpu_device).planes_backward_input, s, gx, gy, w);
}
bool planes_backward_weight(const ConvShape& s, const Tensor& gw, const Tensor& gy, const Tensor& x) {
    return run_conv_planes_backward_weight(s, gw, gy, x) ||
           run_on_host<bool, const ConvShape&, const Tensor&, const Tensor&, const Tensor&>(
               false, on<Convolving>(cpu_device).planes_backward_weight, s, gw, gy, x);
}
Convolving with_kernels(Convolving all) {
    all.choose = choose;
    all.forward = Try<run_conv_forward, &Convolving::forward>::call;
    all.backward_input = Try<run_conv_backward_input, &Convolving::backward_input>::call;
    all.backward_weight = Try<run_conv_backward_weight, &Convolving::backward_weight>::call;
    all.planes_forward = planes_forward;
    all.planes_backward_input = planes_backward_input;
    all.planes_backward_weight = planes_backward_weight;
    all.unfold = Try<run_unfold, &Convolving::unfold>::call;
    all.fold = Try<run_fold, &Convolving::fold>::call;
    return all;
}
device::Pooling with_kernels(device::Pooling all) {
    all.max = Try<run_max_pool, &device::Pooling::max>::call;
    all.average = Try<run_average_pool, &device::Pooling::average>::call;
    all.average_gradient = Try<run_average_pool_gradient, &device::Pooling::average_gradient>::call;
    all.scatter = Try<run_pool_scatter, &device::Pooling::scatter>::call;
    all.gather = Try<run_pool_gather, &device::Pooling::gather>::call;
    return all;
}
Indexing with_kernels(Indexing all) {
    all.add_offsets = Try<run_add_offsets, &Indexing::add_offsets>::call;
    all.check = Try<run_check_indices, &Indexing::check>::call;
    all.gather_rows = Try<run_gather_rows, &Indexing::gather_rows>::call;
    all.scatter_rows = Try<run_scatter_rows, &Indexing::scatter_rows>::call;
    all.gather = Try<run_gather, &Indexing::gather>::call;
    all.scatter = Try<run_scatter, &Indexing::scatter>::call;
    all.add_overlapping = Try<run_add_overlapping, &Indexing::add_overlapping>::call;
    all.repeat_indices = Try<run_repeat_indices, &Indexing::repeat_indices>::call;
    all.divide_by_counts = Try<run_divide_by_counts, &Indexing::divide_by_counts>::call;
    all.mask_fill = Try<run_mask_fill, &Indexing::mask_fill>::call;
    all.mask_offsets = Try<run_mask_offsets, &Indexing::mask_offsets>::call;
    all.mask_select = Try<run_mask_select, &Indexing::mask_select>::call;
    all.mask_coordinates = Try<run_mask_coordinates, &Indexing::mask_coordinates>::call;
    all.count_true = Try<run_count_true, &Indexing::count_true>::call;
    return all;
}
Sorting with_kernels(Sorting all) {
    all.sort = Try<run_sort, &Sorting::sort>::call;
    all.topk = Try<run_topk, &Sorting::topk>::call;
    all.select = Try<run_select, &Sorting::select>::call;
    all.mode = Try<run_mode, &Sorting::mode>::call;
    all.search = Try<run_search, &Sorting::search>::call;
    all.contains = Try<run_contains, &Sorting::contains>::call;
    all.distinct = Try<run_distinct, &Sorting::distinct>::call;
    return all;
}
Creating with_kernels(Creating all) {
    all.progression = Try<run_progression, &Creating::progression>::call;
    all.spaced = Try<run_spaced, &Creating::spaced>::call;
    all.triangle = Try<run_triangle, &Creating::triangle>::call;
    return all;
}
Counting with_kernels(Counting all) {
    all.bins = Try<run_bins, &Counting::bins>::call;
    all.integers = Try<run_count_integers, &Counting::integers>::call;
    all.between = Try<run_count_between, &Counting::between>::call;
    return all;
}
Drawing with_kernels(Drawing all) {
    all.uniform = Try<run_uniform, &Drawing::uniform>::call;
    all.normal = Try<run_normal, &Drawing::normal>::call;
    all.log_normal = Try<run_log_normal, &Drawing::log_normal>::call;
    all.integers = Try<run_integers, &Drawing::integers>::call;
    all.bernoulli = Try<run_bernoulli, &Drawing::bernoulli>::call;
    all.from_uniform = Try<run_from_uniform, &Drawing::from_uniform>::call;
    all.hits = Try<run_hits, &Drawing::hits>::call;
    all.normal_around = Try<run_normal_around, &Drawing::normal_around>::call;
    all.permutation = Try<run_permutation, &Drawing::permutation>::call;
    all.multinomial = Try<run_multinomial, &Drawing::multinomial>::call;
    return all;
}
Attending with_kernels(Attending all) {
    all.forward = Try<run_attention, &Attending::forward>::call;
    all.backward = Try<run_attention_backward, &Attending::backward>::call;
    return all;
}
device::Recurrent with_kernels(device::Recurrent all) {
    all.lstm = Try<run_lstm, &device::Recurrent::lstm>::call;
    all.lstm_backward = Try<run_lstm_backward, &device::Recurrent::lstm_backward>::call;
    all.lstm_cell = Try<run_lstm_cell, &device::Recurrent::lstm_cell>::call;
    all.lstm_cell_backward = Try<run_lstm_cell_backward, &device::Recurrent::lstm_cell_backward>::call;
    all.gru = Try<run_gru, &device::Recurrent::gru>::call;
    all.gru_backward = Try<run_gru_backward, &device::Recurrent::gru_backward>::call;
    all.gru_cell = Try<run_gru_cell, &device::Recurrent::gru_cell>::call;
    all.gru_cell_backward = Try<run_gru_cell_backward, &device::Recurrent::gru_cell_backward>::call;
    return all;
}
OptimizerSteps with_kernels(OptimizerSteps all) {
    all.sgd = Try<run_sgd, &OptimizerSteps::sgd>::call;
    all.rmsprop = Try<run_rmsprop, &OptimizerSteps::rmsprop>::call;
    all.adagrad = Try<run_adagrad, &OptimizerSteps::adagrad>::call;
    all.adadelta = Try<run_adadelta, &OptimizerSteps::adadelta>::call;
    all.adam = Try<run_adam, &OptimizerSteps::adam>::call;
    all.adamax = Try<run_adamax, &OptimizerSteps::adamax>::call;
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
[[maybe_unused]] const bool provided = provide_on<DeviceType::Sim, DeviceType::OpenCL, DeviceType::CUDA>();

}  // namespace
}  // namespace fb::gpu
