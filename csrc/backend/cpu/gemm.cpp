#include "backend/cpu/gemm.h"

#include <limits>
#include <thread>

#include "backend/cpu/gemm_half.h"
#include "backend/cpu/loops.h"
#include "base/bool.h"
#include "base/parallel.h"

// OpenBLAS, from the wheel scipy-openblas32: C names with the prefix "scipy_".
extern "C" {
void scipy_openblas_set_num_threads(int);
#define FB_BLAS(p, T, S)                                                                                   \
    void scipy_cblas_##p##gemm(int, int, int, int, int, int, S, const T*, int, const T*, int, S, T*, int); \
    void scipy_cblas_##p##gemv(int, int, int, int, S, const T*, int, const T*, int, S, T*, int);
FB_BLAS(s, float, float)
FB_BLAS(d, double, double)
FB_BLAS(c, void, const void*)
FB_BLAS(z, void, const void*)
}

namespace fb::cpu {

void prepare_blas() {
    static const bool once = (scipy_openblas_set_num_threads(1), true);
    (void)once;
}

namespace {

constexpr int row_major = 101, no_trans = 111, trans = 112;

void blas_gemm(int ta, int tb, int m, int n, int k, c64 alpha, const c64* a, int lda, const c64* b, int ldb, c64 beta,
               c64* c, int ldc) {
    scipy_cblas_cgemm(row_major, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
void blas_gemm(int ta, int tb, int m, int n, int k, c128 alpha, const c128* a, int lda, const c128* b, int ldb,
               c128 beta, c128* c, int ldc) {
    scipy_cblas_zgemm(row_major, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
void blas_gemv(int ta, int m, int n, float alpha, const float* a, int lda, const float* x, int incx, float beta,
               float* y, int incy) {
    scipy_cblas_sgemv(row_major, ta, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
void blas_gemv(int ta, int m, int n, double alpha, const double* a, int lda, const double* x, int incx, double beta,
               double* y, int incy) {
    scipy_cblas_dgemv(row_major, ta, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
void blas_gemv(int ta, int m, int n, c64 alpha, const c64* a, int lda, const c64* x, int incx, c64 beta, c64* y,
               int incy) {
    scipy_cblas_cgemv(row_major, ta, m, n, &alpha, a, lda, x, incx, &beta, y, incy);
}
void blas_gemv(int ta, int m, int n, c128 alpha, const c128* a, int lda, const c128* x, int incx, c128 beta, c128* y,
               int incy) {
    scipy_cblas_zgemv(row_major, ta, m, n, &alpha, a, lda, x, incx, &beta, y, incy);
}

// One matrix of a batch: strides in elements.
struct Side {
    char* data = nullptr;
    int64_t row = 0, col = 0;
    Dims batch;  // strides of the batch dims
};

struct Product {
    DType dtype;
    int64_t m, n, k;
    Dims batch;  // sizes
    Side a, b, c;
    Scalar alpha, beta;
};

// A side as BLAS sees it: contiguous rows (or columns), `ld` apart.
struct Layout {
    bool fits;
    bool transposed;  // columns are contiguous, i.e. it is stored as its transpose
    int64_t ld;
};
Layout layout(int64_t rows, int64_t cols, int64_t row, int64_t col) {
    constexpr int64_t most = std::numeric_limits<int>::max();
    if ((col == 1 || cols == 1) && (rows == 1 || (row >= cols && row <= most)))
        return {true, false, rows == 1 ? std::max<int64_t>(cols, 1) : row};
    if ((row == 1 || rows == 1) && (cols == 1 || (col >= rows && col <= most)))
        return {true, true, cols == 1 ? std::max<int64_t>(rows, 1) : col};
    return {false, false, 0};
}

// The machine's CPU count decides where large products are split: a constant, so that set_num_threads does not change
// results.
int64_t units() {
    static const int64_t n = std::clamp<int64_t>(std::thread::hardware_concurrency(), 2, 64);
    return n;
}
constexpr int64_t worth_a_thread = int64_t(1) << 19;  // multiply-adds

struct Grid {
    int64_t rows = 1, cols = 1;
};
// The number of blocks that one matrix of the batch is split into.
Grid choose_grid(int64_t m, int64_t n, int64_t k, int64_t batch) {
    Grid grid;
    int64_t work = m * n * k, wanted = std::min(units(), work / worth_a_thread);
    if (batch >= units() * 4 || (batch >= units() && batch % units() == 0)) return grid;
    while (grid.rows * grid.cols < wanted) {
        int64_t h = m / grid.rows, w = n / grid.cols;
        if (std::max(h, w) < 32) break;
        (h >= w ? grid.rows : grid.cols) *= 2;
    }
    return grid;
}
// Start of part i of n elements split into `parts`, at multiples of 16.
int64_t cut(int64_t n, int64_t parts, int64_t i) {
    return i == parts ? n : std::min(n, ((n * i / parts) + 15) / 16 * 16);
}

bool is_float(DType dtype) { return dtype == DType::F32 || dtype == DType::F64; }
template <class T>
OwnGemm own_block(const Product& p, const T* a, const T* b, T* c, int64_t m, int64_t n) {
    return {p.dtype,
            m,
            n,
            p.k,
            reinterpret_cast<const char*>(a),
            p.a.row,
            p.a.col,
            reinterpret_cast<const char*>(b),
            p.b.row,
            p.b.col,
            reinterpret_cast<char*>(c),
            p.c.row,
            p.alpha,
            p.beta};
}

template <class T>
void block(const Product& p, const T* a, const T* b, T* c, int64_t m, int64_t n) {
    if constexpr (is_complex_type<T>) {
        constexpr int64_t most = std::numeric_limits<int>::max();
        check(std::max({p.m, p.n, p.k}) <= most, "matrices of ", p.m, " × ", p.k, " and ", p.k, " × ", p.n,
              " are too large");
        Layout la = layout(p.m, p.k, p.a.row, p.a.col), lb = layout(p.k, p.n, p.b.row, p.b.col);
        int64_t ldc = p.m == 1 ? std::max<int64_t>(p.n, 1) : p.c.row;
        blas_gemm(la.transposed ? trans : no_trans, lb.transposed ? trans : no_trans, int(m), int(n), int(p.k),
                  p.alpha.to<T>(), a, int(la.ld), b, int(lb.ld), p.beta.to<T>(), c, int(ldc));
    } else {
        own_gemm(own_block(p, a, b, c, m, n));
    }
}

// y = beta * y + alpha * A x for the n = 1 case; rows are split at fixed places.
template <class T>
void matrix_vector(const Product& p, const T* a, const T* x, T* y, int64_t first, int64_t last) {
    Layout la = layout(p.m, p.k, p.a.row, p.a.col);
    int64_t rows = last - first;
    a += first * p.a.row;
    y += first * p.c.row;
    int incx = int(p.k == 1 ? 1 : p.b.row), incy = int(p.m == 1 ? 1 : p.c.row);
    T beta = p.beta.to<T>();
    if constexpr (is_complex_type<T>) {
        // OpenBLAS would read one element past the end when it scales y.
        if (beta != T(0) && beta != T(1)) {
            for (int64_t i = 0; i < rows; i++) y[i * incy] *= beta;
            beta = T(1);
        }
    }
    if (la.transposed) blas_gemv(trans, int(p.k), int(rows), p.alpha.to<T>(), a, int(la.ld), x, incx, beta, y, incy);
    else blas_gemv(no_trans, int(rows), int(p.k), p.alpha.to<T>(), a, int(la.ld), x, incx, beta, y, incy);
}

// Integers are summed as unsigned, where overflow is defined.
template <class T>
struct Wrapping {
    using type = T;
};
template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
struct Wrapping<T> {
    using type = std::make_unsigned_t<T>;
};

// Fixed blocks, each summed in 64 lanes; block sums are added in order.
constexpr int64_t dot_block = 8192;

template <class T>
T dot_run(const Stored<T>* x, int64_t incx, const Stored<T>* y, int64_t incy, int64_t n, bool conjugate) {
    using A = typename Wrapping<T>::type;
    if constexpr (std::is_same_v<T, bool>) {
        for (int64_t i = 0; i < n; i++) {
            if (x[i * incx] && y[i * incy]) return true;
        }
        return false;
    } else if constexpr (is_complex_type<T>) {
        using R = typename T::value_type;
        R re = 0, im = 0, sign = conjugate ? R(-1) : R(1);
        const R *p = reinterpret_cast<const R*>(x), *q = reinterpret_cast<const R*>(y);
        for (int64_t i = 0; i < n; i++) {
            R a = p[2 * i * incx], b = sign * p[2 * i * incx + 1], u = q[2 * i * incy], v = q[2 * i * incy + 1];
            re += a * u - b * v;
            im += a * v + b * u;
        }
        return T(re, im);
    } else {
        constexpr int lanes = 64;
        A sum[lanes] = {};
        int64_t i = 0;
        if (incx == 1 && incy == 1) {
            for (; i + lanes <= n; i += lanes) {
#pragma omp simd
                for (int l = 0; l < lanes; l++) {
                    if constexpr (std::is_floating_point_v<T>) sum[l] = std::fma(x[i + l], y[i + l], sum[l]);
                    else sum[l] = A(sum[l] + A(x[i + l]) * A(y[i + l]));
                }
            }
        }
        A rest = 0;
        for (; i < n; i++) rest = A(rest + A(x[i * incx]) * A(y[i * incy]));
        for (int width = lanes / 2; width; width /= 2) {
            for (int l = 0; l < width; l++) sum[l] = A(sum[l] + sum[l + width]);
        }
        return T(A(sum[0] + rest));
    }
}

bool zero(const Scalar& s) { return s.is_integral() ? s.i == 0 : s.re == 0 && s.im == 0; }

struct Pointers {
    const char *a, *b;
    char* c;
};
Pointers locate(const Product& p, int64_t index) {
    Pointers at{p.a.data, p.b.data, p.c.data};
    int64_t size = itemsize(p.dtype);
    for (int64_t d = p.batch.size() - 1; d >= 0; d--) {
        int64_t i = index % p.batch[d];
        index /= p.batch[d];
        at.a += i * p.a.batch[d] * size;
        at.b += i * p.b.batch[d] * size;
        at.c += i * p.c.batch[d] * size;
    }
    return at;
}

template <class T>
void row_times_vector(const Product& p, const Pointers& at, int64_t row) {
    using S = Stored<T>;
    T sum = dot_run<T>(reinterpret_cast<const S*>(at.a) + row * p.a.row, p.a.col, reinterpret_cast<const S*>(at.b),
                       p.b.row, p.k, false);
    S& y = reinterpret_cast<S*>(at.c)[row * p.c.row];
    if constexpr (std::is_same_v<T, bool>) y = (sum && p.alpha.to<T>()) || (p.beta.to<T>() && y);
    else {
        using A = typename Wrapping<T>::type;
        A old = zero(p.beta) ? A(0) : A(A(y) * A(p.beta.to<T>()));
        y = T(A(A(sum) * A(p.alpha.to<T>()) + old));
    }
}

}  // namespace

// Too large for direct_gemm, which does not pack.
void large_gemm(const OwnGemm& g) { rows_gemm_fits(g) ? rows_gemm(g) : packed_gemm(g); }

void float_gemm(const OwnGemm& g) {
    if (g.m == 0 || g.n == 0) return;
    if (!direct_gemm_fits(g.dtype, g.n, g.k, g.b_col)) return large_gemm(g);
    // A row of c costs its sums, and its stores even when the sums are short.
    int64_t row_work = g.n * (g.k + 8), size = itemsize(g.dtype);
    parallel_for(g.m, std::max<int64_t>(8, worth_a_thread / row_work), [&](int64_t begin, int64_t end) {
        OwnGemm part = g;
        part.m = end - begin;
        part.a += begin * g.a_row * size;
        part.c += begin * g.c_row * size;
        direct_gemm(part, 1, 0, 0, 0);
    });
}

namespace {

template <class T>
void run_float(const Product& p, int64_t count) {
    auto block_at = [&](int64_t index, int64_t row, int64_t rows) {
        Pointers at = locate(p, index);
        return own_block(p, reinterpret_cast<const T*>(at.a) + row * p.a.row, reinterpret_cast<const T*>(at.b),
                         reinterpret_cast<T*>(at.c) + row * p.c.row, rows, p.n);
    };
    int64_t work = p.m * p.n * p.k;
    if (!direct_gemm_fits(p.dtype, p.n, p.k, p.b.col)) {
        auto whole = [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) large_gemm(block_at(t, 0, p.m));
        };
        // Few matrices are parallelised inside, many across the threads.
        if (count < num_threads() * 2 && count % num_threads() != 0) whole(0, count);
        else parallel_for(count, std::max<int64_t>(1, worth_a_thread / 2 / work), whole);
        return;
    }
    if (count == 1) return float_gemm(block_at(0, 0, p.m));
    int64_t row_work = p.n * (p.k + 8);
    int64_t grain = std::max<int64_t>(1, worth_a_thread / 2 / (row_work * p.m));
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        if (p.batch.size() == 1) {
            direct_gemm(block_at(begin, 0, p.m), end - begin, p.a.batch[0], p.b.batch[0], p.c.batch[0]);
            return;
        }
        for (int64_t t = begin; t < end; t++) direct_gemm(block_at(t, 0, p.m), 1, 0, 0, 0);
    });
}

template <class T>
void multiply_batch(const Product& p) {
    int64_t count = 1;
    for (int64_t size : p.batch) count *= size;
    constexpr bool blas = std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex_type<T>;
    constexpr int64_t most = std::numeric_limits<int>::max();
    if constexpr (blas) {
        // Negative strides and huge sizes are not passed to the vector routines.
        if (p.n == 1 && p.k > 8 && std::max({p.m, p.k, p.b.row, p.c.row}) <= most && (p.k == 1 || p.b.row > 0) &&
            (p.m == 1 || p.c.row > 0)) {
            int64_t parts = count >= units() ? 1 : std::clamp<int64_t>(p.m * p.k / 65536, 1, units());
            int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, p.m * p.k / parts));
            parallel_for(count * parts, grain, [&](int64_t begin, int64_t end) {
                for (int64_t t = begin; t < end; t++) {
                    Pointers at = locate(p, t / parts);
                    int64_t first = cut(p.m, parts, t % parts), last = cut(p.m, parts, t % parts + 1);
                    if (first < last)
                        matrix_vector<T>(p, reinterpret_cast<const T*>(at.a), reinterpret_cast<const T*>(at.b),
                                         reinterpret_cast<T*>(at.c), first, last);
                }
            });
            return;
        }
    }
    if (!blas && p.n == 1) {
        int64_t grain = std::max<int64_t>(1, parallel_grain / p.k);
        parallel_for(count * p.m, grain, [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; t++) row_times_vector<T>(p, locate(p, t / p.m), t % p.m);
        });
        return;
    }
    if constexpr (std::is_floating_point_v<T>) {
        run_float<T>(p, count);
        return;
    }
    Grid grid = choose_grid(p.m, p.n, p.k, count);
    int64_t blocks = grid.rows * grid.cols;
    int64_t grain = std::max<int64_t>(1, worth_a_thread / 2 / std::max<int64_t>(1, p.m * p.n * p.k / blocks));
    parallel_for(count * blocks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; t++) {
            Pointers at = locate(p, t / blocks);
            int64_t i = t % blocks / grid.cols, j = t % grid.cols;
            int64_t top = cut(p.m, grid.rows, i), bottom = cut(p.m, grid.rows, i + 1);
            int64_t left = cut(p.n, grid.cols, j), right = cut(p.n, grid.cols, j + 1);
            if (top >= bottom || left >= right) continue;
            block<T>(p, reinterpret_cast<const T*>(at.a) + top * p.a.row,
                     reinterpret_cast<const T*>(at.b) + left * p.b.col,
                     reinterpret_cast<T*>(at.c) + top * p.c.row + left, bottom - top, right - left);
        }
    });
}

Side side(const Tensor& t) {
    int64_t d = t.dim();
    Side s;
    s.data = t.raw();
    s.row = t.strides()[d - 2];
    s.col = t.strides()[d - 1];
    s.batch = Dims(t.strides().begin(), t.strides().begin() + (d - 2));
    return s;
}

// A copy in row-major order (and another dtype), made only once for broadcast dims.
Tensor packed(const Tensor& t, DType dtype) {
    Tensor core = t;
    for (int64_t d = 0; d + 2 < t.dim(); d++) {
        if (t.strides()[d] == 0 && t.shape()[d] > 1) core = narrow(core, d, 0, 1);
    }
    Tensor result = empty(core.shape(), dtype, t.device());
    copy(result, core);
    return expand(result, t.shape());
}

bool needs_copy(const Tensor& t) {
    int64_t d = t.dim();
    return !layout(t.shape()[d - 2], t.shape()[d - 1], t.strides()[d - 2], t.strides()[d - 1]).fits;
}

void swap_sides(Product& p) {  // cᵀ = bᵀ aᵀ
    std::swap(p.m, p.n);
    std::swap(p.a, p.b);
    for (Side* s : {&p.a, &p.b, &p.c}) std::swap(s->row, s->col);
}

// Joins batch dims into the rows of a and c where b is the same matrix, then adjacent batch dims.
void fold_batch(Product& p) {
    while (!p.batch.empty()) {
        int64_t last = p.batch.size() - 1, size = p.batch[last];
        bool gone = size == 1;
        bool rows = p.b.batch[last] == 0 && p.a.batch[last] == p.m * p.a.row && p.c.batch[last] == p.m * p.c.row;
        // BLAS accepts any strides for a single row, but not for several.
        rows = rows && (!is_complex(p.dtype) || layout(p.m * size, p.k, p.a.row, p.a.col).fits);
        if (!gone && !rows) break;
        if (!gone) p.m *= size;
        p.batch.erase(last);
        for (Side* s : {&p.a, &p.b, &p.c}) s->batch.erase(last);
    }
    for (int64_t d = p.batch.size() - 2; d >= 0; d--) {
        bool joins = true;
        for (const Side* s : {&p.a, &p.b, &p.c}) joins = joins && s->batch[d] == s->batch[d + 1] * p.batch[d + 1];
        if (!joins) continue;
        p.batch[d] *= p.batch[d + 1];
        p.batch.erase(d + 1);
        for (Side* s : {&p.a, &p.b, &p.c}) {
            s->batch[d] = s->batch[d + 1];
            s->batch.erase(d + 1);
        }
    }
}

// c = beta * c.
void scale(const Tensor& c, const Scalar& beta) {
    if (zero(beta)) {
        copy(c, scalar_tensor(Scalar(0), c.dtype()));
        return;
    }
    Tensor scaled = empty(c.shape(), c.dtype(), c.device());
    copy(scaled, c);
    dispatch_compute(c.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        T factor = beta.to<T>();
        Stored<T>* x = scaled.data<Stored<T>>();
        for (int64_t i = 0; i < scaled.numel(); i++) x[i] = static_cast<T>(x[i] * factor);
    });
    copy(c, scaled);
}

// Sets one of the strides to 1, also for a single row or column.
void plain_strides(Side& side, int64_t rows, int64_t cols) {
    Layout l = layout(rows, cols, side.row, side.col);
    side.row = l.transposed ? 1 : l.ld;
    side.col = l.transposed ? l.ld : 1;
}

void half_batch(Product p, const char* bias) {
    if (p.n == 1 && p.m > 1 && p.c.row == 1 && !bias) swap_sides(p);
    plain_strides(p.a, p.m, p.k);
    plain_strides(p.b, p.k, p.n);
    fold_batch(p);
    int64_t count = 1;
    for (int64_t size : p.batch) count *= size;
    auto each = [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; t++) {
            Pointers at = locate(p, t);
            half_gemm({p.dtype, p.m, p.n, p.k, at.a, p.a.row, p.a.col, at.b, p.b.row, p.b.col, at.c, p.c.row,
                       p.alpha.to<float>(), p.beta.to<float>(), bias});
        }
    };
    // Few matrices are parallelised inside, many across the threads.
    if (count < num_threads() * 2 && count % num_threads() != 0) each(0, count);
    else parallel_for(count, std::max<int64_t>(1, worth_a_thread / 2 / (p.m * p.n * p.k)), each);
}
// c has contiguous rows, or columns if `swap`; k > 0.
void half_product(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta,
                  const char* bias, bool swap) {
    int64_t d = c.dim();
    Tensor x = needs_copy(a) ? packed(a, a.dtype()) : a, y = needs_copy(b) ? packed(b, b.dtype()) : b;
    Product p{
        c.dtype(), c.size(d - 2), c.size(d - 1), a.size(d - 1), Dims(c.shape().begin(), c.shape().begin() + (d - 2)),
        side(x),   side(y),       side(c),       alpha,         beta};
    if (swap) swap_sides(p);
    half_batch(p, bias);
}

}  // namespace

void gemm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& alpha, const Scalar& beta) {
    if (c.numel() == 0) return;
    DType dtype = c.dtype();
    if (is_half(dtype) && a.shape().back() > 0) {
        int64_t d = c.dim();
        bool rows = c.strides()[d - 1] == 1 || c.size(d - 1) == 1, cols = c.strides()[d - 2] == 1 || c.size(d - 2) == 1;
        if (rows || cols) return half_product(c, a, b, alpha, beta, nullptr, !rows);
        Tensor whole = empty(c.shape(), dtype, c.device());
        if (!zero(beta)) copy(whole, c);
        half_product(whole, a, b, alpha, beta, nullptr, false);
        return copy(c, whole);
    }
    if (DType value = value_dtype(dtype); value != dtype) {
        Tensor wide = empty(c.shape(), value, c.device());
        if (!zero(beta)) copy(wide, c);
        gemm(wide, packed(a, value), packed(b, value), alpha, beta);
        copy(c, wide);
        return;
    }
    int64_t d = c.dim();
    Product p{dtype,
              c.shape()[d - 2],
              c.shape()[d - 1],
              a.shape()[d - 1],
              Dims(c.shape().begin(), c.shape().begin() + (d - 2)),
              {},
              {},
              {},
              alpha,
              beta};
    if (p.k == 0) return scale(c, beta);
    prepare_blas();
    int64_t c_row = c.strides()[d - 2], c_col = c.strides()[d - 1];
    bool rows = (c_col == 1 || p.n == 1) && (p.m == 1 || p.n == 1 || c_row >= p.n);
    bool cols = (c_row == 1 || p.m == 1) && (p.m == 1 || p.n == 1 || c_col >= p.m);
    if (!rows && !cols) {
        Tensor whole = empty(c.shape(), dtype, c.device());
        if (!zero(beta)) copy(whole, c);
        gemm(whole, a, b, alpha, beta);
        copy(c, whole);
        return;
    }
    // BLAS, which computes complex products and floating point vectors, requires contiguous rows or columns.
    bool blas = is_complex(dtype) || (is_float(dtype) && (p.m == 1 || p.n == 1) && p.k > 8);
    Tensor x = blas && needs_copy(a) ? packed(a, dtype) : a, y = blas && needs_copy(b) ? packed(b, dtype) : b;
    p.a = side(x);
    p.b = side(y);
    p.c = side(c);
    // A single row is a matrix-vector product with the sides swapped.
    if (!rows || (p.m == 1 && p.n > 1)) swap_sides(p);
    fold_batch(p);
    dispatch_compute(dtype, [&](auto tag) { multiply_batch<typename decltype(tag)::type>(p); });
}

void half_gemm_bias(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias) {
    half_product(out, a, b, Scalar(1), Scalar(0), bias.raw(), false);
}

void dot(const Tensor& out, const Tensor& x, const Tensor& y, bool conjugate) {
    if (DType value = value_dtype(x.dtype()); value != x.dtype()) {
        Tensor wide = empty({}, value, cpu_device);
        dot(wide, packed(unsqueeze(x, 0), value), packed(unsqueeze(y, 0), value), conjugate);
        copy(out, wide);
        return;
    }
    int64_t n = x.numel(), blocks = (n + dot_block - 1) / dot_block;
    int64_t incx = n ? x.strides().back() : 1, incy = n ? y.strides().back() : 1;
    dispatch_compute(x.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const Stored<T>*p = x.data<Stored<T>>(), *q = y.data<Stored<T>>();
        if (blocks <= 1) {
            *out.data<T>() = dot_run<T>(p, incx, q, incy, n, conjugate);
            return;
        }
        Tensor partial = empty({blocks}, x.dtype(), x.device());
        T* sums = partial.data<T>();
        parallel_for(blocks, 8, [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; b++) {
                int64_t first = b * dot_block;
                sums[b] = dot_run<T>(p + first * incx, incx, q + first * incy, incy, std::min(dot_block, n - first),
                                     conjugate);
            }
        });
        T total = sums[0];
        for (int64_t b = 1; b < blocks; b++) {
            if constexpr (std::is_same_v<T, bool>) total = total || sums[b];
            else total = static_cast<T>(total + sums[b]);
        }
        *out.data<T>() = total;
    });
}

}  // namespace fb::cpu
