// QR by Householder reflections, in blocks whose product I - V T Vᵀ is applied by our own matrix product: faster than
// OpenBLAS, which works vector by vector within a panel. Column-major; the same bits for every thread count. float and
// double.
#pragma once
#include <cstdint>

namespace fb::cpu::lapack {

// LAPACK's geqrf: R on and above the diagonal, the reflections' vectors below it, min(m, n) factors in tau.
template <class T>
void factor_qr(int64_t m, int64_t n, T* a, int64_t lda, T* tau);

// LAPACK's orgqr: the first n columns of the product of k reflections stored in a's first columns; m ≥ n ≥ k.
template <class T>
void form_q(int64_t m, int64_t n, int64_t k, T* a, int64_t lda, const T* tau);

// c = Q c for the product Q of k reflections of length m, stored in a's columns; c is m × n.
template <class T>
void multiply_q(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* tau, T* c, int64_t ldc);

}  // namespace fb::cpu::lapack
