// Products of matrices: one item of the kernel makes one row of one result, in pieces that fit into registers.
#include "backend/gpu/driver.h"
#include "backend/gpu/families.h"
#include "backend/gpu/source.h"

namespace fb::gpu {
namespace {

constexpr int most_batch = 8;

struct Arguments {
    int64_t pointers = 3;
    char* data[3] = {};
    int64_t rows = 0, columns = 0, length = 0, batch = 0;
    int64_t shape[most_batch] = {}, strides[3][most_batch] = {}, steps[3][2] = {};
    double alpha = 1, beta = 0;
};
constexpr const char* kernel_text = R"(
struct Arguments {
    i64 pointers; char* data[3]; i64 rows, columns, length, batch; i64 shape[8], strides[3][8], steps[3][2];
    double alpha, beta;
};
enum { piece = 64 };
KERNEL {
    const Arguments& g = *(const Arguments*)arguments;
    const i64 next = g.steps[2][1];
    for (i64 item = begin; item < end; item++) {
        i64 row = item % g.rows, rest = item / g.rows, at[3] = {0, 0, 0};
        for (int d = 0; d < g.batch; d++) {
            for (int k = 0; k < 3; k++) at[k] += rest % g.shape[d] * g.strides[k][d];
            rest /= g.shape[d];
        }
        char* c = g.data[0] + at[0] + row * g.steps[0][0];
        const char* a = g.data[1] + at[1] + row * g.steps[1][0];
        for (i64 first = 0; first < g.columns; first += piece) {
            const i64 width = g.columns - first < piece ? g.columns - first : piece;
            const char* b = g.data[2] + at[2] + first * next;
            T sum[piece] = {0};
            for (i64 k = 0; k < g.length; k++) {
                const T x = load<T, S>(a + k * g.steps[1][1]);
                const char* from = b + k * g.steps[2][0];
                if (next == sizeof(S))
                    for (i64 j = 0; j < width; j++) sum[j] += x * load<T, S>(from + j * sizeof(S));
                else
                    for (i64 j = 0; j < width; j++) sum[j] += x * load<T, S>(from + j * next);
            }
            for (i64 j = 0; j < width; j++) {
                char* to = c + (first + j) * g.steps[0][1];
                T y = (T)g.alpha * sum[j];
                if (g.beta != 0) y += (T)g.beta * load<T, S>(to);
                store<S>(to, y);
            }
        }
    }
}
)";

}  // namespace

bool run_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    DType d = c.dtype();
    bool same = a.dtype() == d && b.dtype() == d && a.device() == c.device() && b.device() == c.device();
    int64_t batch = c.dim() - 2;
    if (!uses_kernels() || !is_floating(d) || !same || batch > most_batch || alpha.kind == Kind::Complex) return false;
    if (c.numel() == 0) return true;
    Arguments g;
    const Tensor* operands[] = {&c, &a, &b};
    for (int k = 0; k < 3; k++) {
        const Tensor& t = *operands[k];
        g.data[k] = t.raw();
        for (int64_t i = 0; i < batch; i++) g.strides[k][i] = t.strides()[i] * t.itemsize();
        for (int64_t i = 0; i < 2; i++) g.steps[k][i] = t.strides()[batch + i] * t.itemsize();
    }
    int64_t matrices = 1;
    g.batch = batch;
    for (int64_t i = 0; i < batch; i++) {
        g.shape[i] = c.shape()[i];
        matrices *= c.shape()[i];
    }
    g.rows = c.shape()[batch];
    g.columns = c.shape()[batch + 1];
    g.length = a.shape()[batch + 1];
    g.alpha = alpha.re;
    g.beta = beta.re;
    Driver& dr = driver(c.device());
    const Kernel* kernel = dr.build(std::string(prelude()) + "typedef " + compute_type(d) + " T;\ntypedef " +
                                    stored_type(d) + " S;\n" + kernel_text);
    if (!kernel) return false;
    count_kernel();
    dr.launch(current_stream(c.device()), kernel, &g, sizeof g, matrices * g.rows);
    return true;
}

}  // namespace fb::gpu
