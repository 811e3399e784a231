#pragma GCC optimize("fp-contract=fast")
#include "backend/cpu/lapack_qr.h"

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/gemm.h"

namespace fb::cpu::lapack {
namespace {

constexpr int64_t width = 64;  // columns per block
constexpr int64_t leaf = 16;   // columns processed one by one

// A matrix, or its transpose, in column-major memory.
template <class T>
struct Matrix {
    const T* data;
    int64_t ld;
    bool transposed = false;
};

// c = alpha a b + beta c, with c of m × n and k summands.
template <class T>
void product(int64_t m, int64_t n, int64_t k, T alpha, Matrix<T> a, Matrix<T> b, T beta, T* c, int64_t ldc) {
    if (m == 0 || n == 0 || k == 0) return;
    // In row-major terms this is cᵀ = bᵀ aᵀ.
    float_gemm({dtype_of<T>(), n, m, k, reinterpret_cast<const char*>(b.data), b.transposed ? 1 : b.ld,
                b.transposed ? b.ld : 1, reinterpret_cast<const char*>(a.data), a.transposed ? 1 : a.ld,
                a.transposed ? a.ld : 1, reinterpret_cast<char*>(c), ldc, Scalar(double(alpha)), Scalar(double(beta))});
}

// Four dot products with one vector, with independent sums.
template <class T>
void dot_four(const T* __restrict v, const T* const* c, int64_t n, T* sums) {
    const T *p = c[0], *q = c[1], *r = c[2], *s = c[3];
    T a = 0, b = 0, d = 0, e = 0;
#pragma omp simd reduction(+ : a, b, d, e)
    for (int64_t i = 0; i < n; i++) {
        a += v[i] * p[i];
        b += v[i] * q[i];
        d += v[i] * r[i];
        e += v[i] * s[i];
    }
    sums[0] = a, sums[1] = b, sums[2] = d, sums[3] = e;
}
// v · c for `count` columns c, ld apart.
template <class T>
void dots(const T* v, const T* c, int64_t ld, int64_t count, int64_t n, T* sums) {
    for (int64_t j = 0; j < count; j += 4) {
        const T* four[4];
        for (int64_t q = 0; q < 4; q++) four[q] = c + std::min(j + q, count - 1) * ld;
        T part[4];
        dot_four(v, four, n, part);
        for (int64_t q = 0; q < 4 && j + q < count; q++) sums[j + q] = part[q];
    }
}

// Euclidean length. float is summed in double, which cannot overflow; double is scaled if it would.
template <class T>
double length(const T* x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += double(x[i]) * double(x[i]);
    constexpr double tiny = 1e-280, huge = 1e300;
    if (std::is_same_v<T, float> || (sum > tiny && sum < huge) || std::isnan(sum)) return std::sqrt(sum);
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = std::max(most, std::abs(double(x[i])));
    if (most == 0 || std::isinf(most)) return most;
    sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] / most) * (x[i] / most);
    return most * std::sqrt(sum);
}

// Turns x into a reflection that maps it to (beta, 0, 0 …): beta in x[0], the vector's other entries after it.
template <class T>
T reflect(T* x, int64_t n) {
    double alpha = x[0], rest = length(x + 1, n - 1);
    if (rest == 0) return 0;
    double beta = -std::copysign(std::hypot(alpha, rest), alpha);
    T divisor = static_cast<T>(alpha - beta);
    if (std::abs(divisor) >= std::numeric_limits<T>::min()) {
#pragma omp simd
        for (int64_t i = 1; i < n; i++) x[i] /= divisor;
    } else {
        for (int64_t i = 1; i < n; i++) x[i] = static_cast<T>(double(x[i]) * 0x1p200 / ((alpha - beta) * 0x1p200));
    }
    x[0] = static_cast<T>(beta);
    return static_cast<T>((beta - alpha) / beta);
}

// Reflections of a panel: their vectors with explicit ones and zeros, and the triangle T of their product I - V T Vᵀ.
template <class T>
struct Block {
    T *v, *t;
    int64_t ldv;
    static constexpr int64_t ldt = width;
    Block at(int64_t i) const { return {v + i + i * ldv, t + i + i * ldt, ldv}; }
};

// V's column j from the panel's.
template <class T>
void take_vector(const Block<T>& block, int64_t m, int64_t j, const T* column) {
    T* v = block.v + j * block.ldv;
    std::fill(v, v + j, T(0));
    v[j] = T(1);
    std::copy(column + j + 1, column + m, v + j + 1);
}

// T's column j from those before it.
template <class T>
void extend_triangle(const Block<T>& block, int64_t m, int64_t j, T tau) {
    T inner[leaf] = {}, *to = block.t + j * block.ldt;
    dots(block.v + j * block.ldv + j, block.v + j, block.ldv, j, m - j, inner);
    std::fill(to, to + leaf, T(0));
    for (int64_t k = 0; k < j; k++) {
        const T* column = block.t + k * block.ldt;
        T factor = -tau * inner[k];
        for (int64_t i = 0; i <= k; i++) to[i] += factor * column[i];
    }
    to[j] = tau;
}

// T of n columns from the T of the first `left` and that of the others.
template <class T>
void join_triangles(const Block<T>& block, int64_t m, int64_t left, int64_t n) {
    int64_t right = n - left, ld = block.ldt;
    T inner[width * width], half[width * width];
    const T* second = block.v + left + left * block.ldv;
    product<T>(left, right, m - left, T(1), {block.v + left, block.ldv, true}, {second, block.ldv}, T(0), inner, left);
    product<T>(left, right, left, T(1), {block.t, ld}, {inner, left}, T(0), half, left);
    product<T>(left, right, right, T(-1), {half, left}, {block.t + left + left * ld, ld}, T(0), block.t + left * ld,
               ld);
}

// c = (I - V T Vᵀ) c, or its transpose, for c of m × cols; `spare` holds 2 n cols elements.
template <class T>
void apply(const Block<T>& block, int64_t m, int64_t n, bool transposed, T* c, int64_t ldc, int64_t cols, T* spare) {
    T *inner = spare, *turned = spare + n * cols;
    product<T>(n, cols, m, T(1), {block.v, block.ldv, true}, {c, ldc}, T(0), inner, n);
    product<T>(n, cols, n, T(1), {block.t, block.ldt, transposed}, {inner, n}, T(0), turned, n);
    product<T>(m, cols, n, T(-1), {block.v, block.ldv}, {turned, n}, T(1), c, ldc);
}

// The column at which a block is halved.
int64_t middle(int64_t n) { return (n / 2 + leaf - 1) / leaf * leaf; }

// Zeroes V above its second half, and T below its first.
template <class T>
void clear_corners(const Block<T>& block, int64_t left, int64_t n) {
    for (int64_t j = left; j < n; j++) std::fill_n(block.v + j * block.ldv, left, T(0));
    for (int64_t j = 0; j < left; j++) std::fill_n(block.t + j * block.ldt + left, n - left, T(0));
}

template <class T>
void factor_panel(int64_t m, int64_t n, T* a, int64_t lda, T* tau, const Block<T>& block, T* spare) {
    if (n > leaf) {
        int64_t left = middle(n);
        factor_panel(m, left, a, lda, tau, block, spare);
        apply(block, m, left, true, a + left * lda, lda, n - left, spare);
        factor_panel(m - left, n - left, a + left + left * lda, lda, tau + left, block.at(left), spare);
        clear_corners(block, left, n);
        join_triangles(block, m, left, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        T* column = a + j * lda;
        tau[j] = reflect(column + j, m - j);
        take_vector(block, m, j, column);
        const T* v = block.v + j * block.ldv + j;
        T inner[leaf];
        dots(v, column + lda + j, lda, n - j - 1, m - j, inner);
        for (int64_t c = j + 1; c < n; c++) {
            T *to = a + c * lda + j, factor = tau[j] * inner[c - j - 1];
#pragma omp simd
            for (int64_t i = 0; i < m - j; i++) to[i] -= factor * v[i];
        }
        extend_triangle(block, m, j, tau[j]);
    }
}

// V and T of n reflections whose vectors are stored in a.
template <class T>
void read_block(int64_t m, int64_t n, const T* a, int64_t lda, const T* tau, const Block<T>& block) {
    if (n > leaf) {
        int64_t left = middle(n);
        read_block(m, left, a, lda, tau, block);
        read_block(m - left, n - left, a + left + left * lda, lda, tau + left, block.at(left));
        clear_corners(block, left, n);
        join_triangles(block, m, left, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        take_vector(block, m, j, a + j * lda);
        extend_triangle(block, m, j, tau[j]);
    }
}

// Workspace for one block of m rows, and for applying it to n columns.
template <class T>
struct Space {
    Space(int64_t m, int64_t n) : memory(static_cast<size_t>(m * width + width * width + 2 * width * n)) {}
    Block<T> block(int64_t rows) { return {memory.data() + width * width, memory.data(), rows}; }
    T* spare(int64_t m) { return memory.data() + width * width + width * m; }
    std::vector<T> memory;
};

}  // namespace

template <class T>
void factor_qr(int64_t m, int64_t n, T* a, int64_t lda, T* tau) {
    Space<T> space(m, std::max(n, width));
    int64_t k = std::min(m, n);
    for (int64_t j = 0; j < k; j += width) {
        int64_t w = std::min(width, k - j), rows = m - j;
        Block<T> block = space.block(rows);
        T* corner = a + j + j * lda;
        factor_panel(rows, w, corner, lda, tau + j, block, space.spare(m));
        apply(block, rows, w, true, corner + w * lda, lda, n - j - w, space.spare(m));
    }
}

template <class T>
void form_q(int64_t m, int64_t n, int64_t k, T* a, int64_t lda, const T* tau) {
    Space<T> space(m, std::max(n, width));
    for (int64_t j = k; j < n; j++) {
        std::fill(a + j * lda, a + j * lda + m, T(0));
        a[j + j * lda] = T(1);
    }
    for (int64_t j = k == 0 ? -1 : (k - 1) / width * width; j >= 0; j -= width) {
        int64_t w = std::min(width, k - j), rows = m - j;
        Block<T> block = space.block(rows);
        T *corner = a + j + j * lda, *spare = space.spare(m);
        read_block(rows, w, corner, lda, tau + j, block);
        apply(block, rows, w, false, corner + w * lda, lda, n - j - w, spare);
        // On columns of the identity, Vᵀ is just V's upper triangle.
        product<T>(w, w, w, T(1), {block.t, block.ldt}, {block.v, block.ldv, true}, T(0), spare, w);
        product<T>(rows, w, w, T(-1), {block.v, block.ldv}, {spare, w}, T(0), corner, lda);
        for (int64_t c = 0; c < w; c++) {
            corner[c + c * lda] += T(1);
            std::fill(a + (j + c) * lda, a + (j + c) * lda + j, T(0));
        }
    }
}

template <class T>
void multiply_q(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* tau, T* c, int64_t ldc) {
    Space<T> space(m, n);
    for (int64_t j = k == 0 ? -1 : (k - 1) / width * width; j >= 0; j -= width) {
        int64_t w = std::min(width, k - j), rows = m - j;
        Block<T> block = space.block(rows);
        read_block(rows, w, a + j + j * lda, lda, tau + j, block);
        apply(block, rows, w, false, c + j, ldc, n, space.spare(m));
    }
}

template void factor_qr<float>(int64_t, int64_t, float*, int64_t, float*);
template void factor_qr<double>(int64_t, int64_t, double*, int64_t, double*);
template void form_q<float>(int64_t, int64_t, int64_t, float*, int64_t, const float*);
template void form_q<double>(int64_t, int64_t, int64_t, double*, int64_t, const double*);

template void multiply_q<float>(int64_t, int64_t, int64_t, const float*, int64_t, const float*, float*, int64_t);
template void multiply_q<double>(int64_t, int64_t, int64_t, const double*, int64_t, const double*, double*, int64_t);

}  // namespace fb::cpu::lapack
