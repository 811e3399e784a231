#include "backend/cpu/reduce_driver.h"

#include <memory>

#include "backend/cpu/loops.h"
#include "base/parallel.h"

namespace fb::cpu {
namespace {

constexpr int64_t acc_capacity = 16384;  // bytes of accumulators per batch
constexpr int64_t pack_elements = 2048;  // elements packed at a time
constexpr int64_t narrow_columns = 64;   // with fewer columns, several rows are read as one
constexpr int64_t wide_columns = 512;

struct Axis {
    int64_t size, in;  // in: input stride in bytes
    int64_t out[2];    // output strides in bytes
};

struct Plan {
    const char* in;
    char* out[2];
    Axis kept[max_dims], reduced[max_dims];
    int nkept = 0, nreduced = 0;
    bool columns;  // the innermost loop runs over kept elements
    bool between = false;
    int64_t width;  // outputs per batch, along kept[0]
    Plan() {}
};

// Calls f(pointer offset) for every index of axes [first, count).
template <class F>
void walk(const Axis* axes, int first, int count, F&& f) {
    int64_t index[max_dims], offset = 0;
    for (int d = first; d < count; d++) {
        if (axes[d].size == 0) return;
        index[d] = 0;
    }
    while (true) {
        f(offset);
        int d = first;
        for (; d < count; d++) {
            offset += axes[d].in;
            if (++index[d] < axes[d].size) break;
            offset -= axes[d].in * axes[d].size;
            index[d] = 0;
        }
        if (d == count) return;
    }
}

void make_reduce_plan(Plan& plan, const ReduceKernel& kernel, const Tensor& in, const Dims& reduced,
                      const Tensor* outs) {
    struct Entry {
        Axis axis;
        bool reduced;
    };
    Entry entries[max_dims];
    int n = 0;
    plan.in = in.raw();
    for (int r = 0; r < kernel.results; r++) plan.out[r] = outs[r].raw();
    bool aligned = outs[0].dim() == in.dim();
    for (int64_t d = 0, place = 0; d < in.dim(); d++) {
        int64_t size = in.shape()[d];
        Entry e;
        e.reduced = reduced[d] != 0;
        int64_t own = aligned ? d : place;
        place += !e.reduced;
        if (size == 1) continue;
        e.axis.size = size;
        e.axis.in = in.strides()[d] * in.itemsize();
        for (int r = 0; r < 2; r++)
            e.axis.out[r] = r < kernel.results && !e.reduced ? outs[r].strides()[own] * outs[r].itemsize() : 0;
        if (e.axis.in < 0 && size > 0) {  // order does not matter: walk upwards
            plan.in += e.axis.in * (size - 1);
            e.axis.in = -e.axis.in;
            for (int r = 0; r < kernel.results; r++) {
                plan.out[r] += e.axis.out[r] * (size - 1);
                e.axis.out[r] = -e.axis.out[r];
            }
        }
        // Insertion by stride, smallest first; expanded dimensions (stride 0) become outermost.
        int at = n++;
        auto key = [](int64_t stride) { return stride == 0 ? INT64_MAX : stride; };
        while (at > 0 && key(entries[at - 1].axis.in) >= key(e.axis.in)) {
            entries[at] = entries[at - 1];
            at--;
        }
        entries[at] = e;
    }
    int merged = n ? 0 : -1;
    for (int i = 1; i < n; i++) {
        Entry &a = entries[merged], &b = entries[i];
        bool joins = a.reduced == b.reduced && b.axis.in == a.axis.in * a.axis.size;
        for (int r = 0; r < kernel.results; r++) joins = joins && b.axis.out[r] == a.axis.out[r] * a.axis.size;
        if (joins) a.axis.size *= b.axis.size;
        else entries[++merged] = b;
    }
    for (int i = 0; i <= merged; i++) {
        if (entries[i].reduced) plan.reduced[plan.nreduced++] = entries[i].axis;
        else plan.kept[plan.nkept++] = entries[i].axis;
    }
    int64_t item = itemsize(kernel.input);
    plan.columns = merged >= 0 && !entries[0].reduced;
    // Short rows cost a call each: read them as columns instead.
    if (merged >= 0 && entries[0].reduced && entries[0].axis.size < 16 && plan.nkept) plan.columns = true;
    if (!plan.nreduced) plan.reduced[plan.nreduced++] = {1, item, {0, 0}};
    if (!plan.nkept) plan.kept[plan.nkept++] = {1, item, {0, 0}};
    int64_t most = std::min<int64_t>(acc_capacity / kernel.acc_bytes, pack_elements);
    if (!plan.columns) {  // batches of about half a grain, so that whole rows divide well among threads
        int64_t row = 1;
        for (int d = 0; d < plan.nreduced; d++) row *= plan.reduced[d].size;
        // `lines` reads sixteen rows at a time; many rows divide well in such batches too.
        int64_t least = kernel.lines && row <= reduce_block && plan.kept[0].size >= 512 ? 16 : 1;
        most = std::clamp<int64_t>(parallel_grain / 2 / std::max<int64_t>(1, row), least, 256);
        // Rows of several outputs are interleaved in memory: read all in memory order.
        plan.between =
            plan.nreduced > 1 && plan.kept[0].in < plan.reduced[1].in && plan.reduced[0].size <= reduce_block;
        if (plan.between) most = std::min<int64_t>(256, acc_capacity / kernel.acc_bytes);
    }
    plan.width = std::min(plan.kept[0].size, most);
}

class Task {
  public:
    Task(const ReduceKernel& kernel, DType dtype, const Axis* reduced, int nreduced)
        : kernel_(kernel), dtype_(dtype), reduced_(reduced), nreduced_(nreduced) {
        item_ = itemsize(kernel.input);
        same_ = dtype == kernel.input;
    }

    // Accumulates one output: everything at `p` along the reduced axes.
    void row(char* acc, const char* p) {
        const Axis& inner = reduced_[0];
        bool direct = same_ && (inner.in == item_ || inner.size == 1);
        walk(reduced_, 1, nreduced_, [&](int64_t offset) {
            const char* q = p + offset;
            if (direct) {
                for (int64_t i = 0; i < inner.size; i += reduce_block) {
                    kernel_.row(acc, q + i * item_, std::min(reduce_block, inner.size - i));
                    if (kernel_.done && kernel_.done(acc)) return;
                }
                return;
            }
            for (int64_t i = 0; i < inner.size; i += pack_elements) {
                int64_t n = std::min(pack_elements, inner.size - i);
                copy_strided(pack_, kernel_.input, item_, q + i * inner.in, dtype_, inner.in, n);
                kernel_.row(acc, pack_, n);
                if (kernel_.done && kernel_.done(acc)) return;
            }
        });
    }

    // Accumulates `count` outputs, whose inputs are `step` bytes apart, row by row or interleaved.
    void lines(char* acc, const char* p, int64_t step, int64_t count, bool between) {
        const Axis& inner = reduced_[0];
        bool direct = same_ && (inner.in == item_ || inner.size == 1);
        if (!direct || inner.size > reduce_block || (nreduced_ > 1 && !between)) {
            for (int64_t i = 0; i < count; i++) row(acc + i * kernel_.acc_bytes, p + i * step);
            return;
        }
        walk(reduced_, 1, nreduced_, [&](int64_t offset) {
            const char* q = p + offset;
            if (kernel_.lines) return kernel_.lines(acc, q, step, count, inner.size);
            for (int64_t i = 0; i < count; i++) kernel_.row(acc + i * kernel_.acc_bytes, q + i * step, inner.size);
        });
    }

    // Accumulates `cols` outputs whose inputs are `stride` bytes apart.
    void columns(char* acc, const char* p, int64_t stride, int64_t cols) {
        const Axis& inner = reduced_[0];
        bool direct = same_ && (stride == item_ || cols == 1);
        walk(reduced_, 1, nreduced_, [&](int64_t offset) {
            const char* q = p + offset;
            int64_t first = 0;
            if (direct && cols <= narrow_columns && inner.in == cols * item_) first = narrow(acc, q, cols);
            int64_t step = direct ? reduce_rows : std::min(reduce_rows, std::max<int64_t>(1, pack_elements / cols));
            for (int64_t i = first; i < inner.size; i += step) {
                int64_t rows = std::min(step, inner.size - i);
                const char* at = q + i * inner.in;
                if (direct) {
                    kernel_.rows(acc, at, inner.in, rows, cols);
                    continue;
                }
                for (int64_t r = 0; r < rows; r++) {
                    copy_strided(pack_ + r * cols * item_, kernel_.input, item_, at + r * inner.in, dtype_, stride,
                                 cols);
                }
                kernel_.rows(acc, pack_, cols * item_, rows, cols);
            }
        });
    }

  private:
    // Adjacent rows without a gap are read as fewer, wider ones. Returns the number of rows done.
    int64_t narrow(char* acc, const char* q, int64_t cols) {
        int64_t k = wide_columns / cols, wide = k * cols;
        int64_t count = reduced_[0].size / k;
        if (count < 4) return 0;
        kernel_.init(wide_, wide);
        int64_t bytes = wide * item_;
        for (int64_t i = 0; i < count; i += reduce_rows)
            kernel_.rows(wide_, q + i * bytes, bytes, std::min(reduce_rows, count - i), wide);
        for (int64_t j = 0; j < k; j++) kernel_.merge(acc, wide_ + j * cols * kernel_.acc_bytes, cols);
        return count * k;
    }

    const ReduceKernel& kernel_;
    DType dtype_;
    const Axis* reduced_;
    int nreduced_;
    int64_t item_;
    bool same_;
    alignas(64) char wide_[wide_columns * 32];
    alignas(64) char pack_[pack_elements * 16];
};

void write(const ReduceKernel& kernel, const Tensor* outs, const Axis& axis, char* const* at, const char* acc,
           int64_t n, const void* context) {
    alignas(64) char tile[2][pack_elements * 16];
    int64_t item = itemsize(kernel.result);
    char* to[2];
    bool staged[2] = {false, false};
    for (int r = 0; r < kernel.results; r++) {
        staged[r] = outs[r].dtype() != kernel.result || (n > 1 && axis.out[r] != item);
        to[r] = staged[r] ? tile[r] : at[r];
    }
    kernel.finish(to, acc, n, context);
    for (int r = 0; r < kernel.results; r++) {
        if (staged[r]) copy_strided(at[r], outs[r].dtype(), axis.out[r], tile[r], kernel.result, item, n);
    }
}

}  // namespace

void run_reduce(const ReduceKernel& kernel, const Tensor& in, const Dims& reduced, const Tensor* outs,
                const void* context) {
    if (outs[0].numel() == 0) return;
    Plan plan;
    make_reduce_plan(plan, kernel, in, reduced, outs);
    int64_t per_axis = (plan.kept[0].size + plan.width - 1) / plan.width;
    int64_t batches = per_axis;
    for (int d = 1; d < plan.nkept; d++) batches *= plan.kept[d].size;
    int64_t work = in.numel() / batches + 1;  // elements per batch
    // Few outputs and much work: split the longest reduced axis too.
    int64_t splits = 1;
    int longest = 0;
    for (int d = 1; d < plan.nreduced; d++) {
        if (plan.reduced[d].size > plan.reduced[longest].size) longest = d;
    }
    if (batches < 16 && in.numel() > 2 * parallel_grain) {
        splits = std::min(64 / batches, in.numel() / parallel_grain / batches + 1);
        // Splitting the outermost axis keeps the rows whole, if it is long enough.
        int outermost = plan.nreduced - 1;
        if (plan.reduced[outermost].size >= std::min<int64_t>(splits, 16)) longest = outermost;
        splits = std::min(splits, plan.reduced[longest].size);
    }
    std::unique_ptr<char[]> partials;
    int64_t batch_bytes = plan.width * kernel.acc_bytes;
    if (splits > 1) partials.reset(new char[static_cast<size_t>(batches * splits * batch_bytes)]);

    // The input and output addresses of batch b.
    auto locate = [&](int64_t b, const char*& p, char** at) {
        int64_t first = b % per_axis * plan.width;
        b /= per_axis;
        p = plan.in + first * plan.kept[0].in;
        for (int r = 0; r < kernel.results; r++) at[r] = plan.out[r] + first * plan.kept[0].out[r];
        for (int d = 1; d < plan.nkept; d++) {
            int64_t i = b % plan.kept[d].size;
            b /= plan.kept[d].size;
            p += i * plan.kept[d].in;
            for (int r = 0; r < kernel.results; r++) at[r] += i * plan.kept[d].out[r];
        }
        return std::min(plan.width, plan.kept[0].size - first);
    };

    int64_t tasks = batches * splits;
    parallel_for(tasks, std::max<int64_t>(1, parallel_grain / std::max<int64_t>(1, work / splits)),
                 [&](int64_t begin, int64_t end) {
                     alignas(64) char local[acc_capacity];
                     Axis axes[max_dims];
                     std::copy_n(plan.reduced, plan.nreduced, axes);
                     Task task(kernel, in.dtype(), axes, plan.nreduced);
                     for (int64_t t = begin; t < end; t++) {
                         const char* p;
                         char* at[2];
                         int64_t n = locate(t / splits, p, at);
                         char* acc = local;
                         if (splits > 1) {
                             int64_t s = t % splits, size = plan.reduced[longest].size;
                             int64_t whole = size >= splits * 64 ? 64 : 1;  // parts begin at cache lines
                             int64_t from = size * s / splits / whole * whole;
                             int64_t to = s + 1 == splits ? size : size * (s + 1) / splits / whole * whole;
                             p += from * axes[longest].in;
                             axes[longest].size = to - from;
                             acc = partials.get() + t * batch_bytes;
                         }
                         kernel.init(acc, n);
                         if (plan.columns) {
                             task.columns(acc, p, plan.kept[0].in, n);
                         } else {
                             task.lines(acc, p, plan.kept[0].in, n, plan.between);
                         }
                         if (splits == 1) write(kernel, outs, plan.kept[0], at, acc, n, context);
                     }
                 });
    if (splits == 1) return;
    for (int64_t b = 0; b < batches; b++) {
        const char* p;
        char* at[2];
        int64_t n = locate(b, p, at);
        char* acc = partials.get() + b * splits * batch_bytes;
        for (int64_t s = 1; s < splits; s++) kernel.merge(acc, acc + s * batch_bytes, n);
        write(kernel, outs, plan.kept[0], at, acc, n, context);
    }
}

}  // namespace fb::cpu
