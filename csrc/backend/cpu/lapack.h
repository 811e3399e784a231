// LAPACK routines of OpenBLAS (names with the prefix "scipy_") as overloads for float, double and both complex types.
// All matrices are column-major. Every function returns LAPACK's info. Fortran expects the lengths of text arguments
// after the others: they are always 1.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/dtype.h"

namespace fb::cpu::lapack {

template <class T>
using Real = decltype(std::abs(T()));

// A workspace size returned by a routine as a floating point number, which may have been rounded down. One element more
// is allocated: see empty_columns().
template <class R>
int workspace_size(R size) {
    constexpr R most = R(std::numeric_limits<int>::max() / 2);
    return std::max(1, static_cast<int>(std::min(most, std::ceil(size * (1 + std::numeric_limits<R>::epsilon())))));
}

// Calls a routine twice: first to query the size of its workspace, then to compute. call(work, lwork) returns info.
template <class T, class F>
int with_workspace(F call) {
    T size{};
    if (int info = call(&size, -1)) return info;
    int lwork = workspace_size(std::real(size));
    std::vector<T> work(static_cast<size_t>(lwork) + 1);
    return call(work.data(), lwork);
}

#define FB_ROUTINES(p, T, R, orgqr_name, ormqr_name, hetrf_name, hetrs_name)                                           \
    extern "C" {                                                                                                       \
    void scipy_##p##getrf_(const int*, const int*, T*, const int*, int*, int*);                                        \
    void scipy_##p##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*,      \
                           int*, size_t);                                                                              \
    void scipy_##p##getri_(const int*, T*, const int*, const int*, T*, const int*, int*);                              \
    void scipy_##p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                                     \
    void scipy_##p##potrs_(const char*, const int*, const int*, const T*, const int*, T*, const int*, int*, size_t);   \
    void scipy_##p##potri_(const char*, const int*, T*, const int*, int*, size_t);                                     \
    void scipy_##p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*, const T*,        \
                          const T*, const int*, T*, const int*, size_t, size_t, size_t, size_t);                       \
    void scipy_##p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                          \
    void scipy_##orgqr_name##_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);    \
    void scipy_##ormqr_name##_(const char*, const char*, const int*, const int*, const int*, const T*, const int*,     \
                               const T*, T*, const int*, T*, const int*, int*, size_t, size_t);                        \
    void scipy_##p##gels_(const char*, const int*, const int*, const int*, T*, const int*, T*, const int*, T*,         \
                          const int*, int*, size_t);                                                                   \
    void scipy_##p##sytrf_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);               \
    void scipy_##hetrf_name##_(const char*, const int*, T*, const int*, int*, T*, const int*, int*, size_t);           \
    void scipy_##p##sytrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*,      \
                           int*, size_t);                                                                              \
    void scipy_##hetrs_name##_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*,  \
                               int*, size_t);                                                                          \
    }                                                                                                                  \
    inline int getrf(int m, int n, T* a, int lda, int* pivots) {                                                       \
        int info = 0;                                                                                                  \
        scipy_##p##getrf_(&m, &n, a, &lda, pivots, &info);                                                             \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int getrs(char trans, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb) {                \
        int info = 0;                                                                                                  \
        scipy_##p##getrs_(&trans, &n, &k, a, &lda, pivots, b, &ldb, &info, 1);                                         \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int getri(int n, T* a, int lda, const int* pivots) {                                                        \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##getri_(&n, a, &lda, pivots, work, &lwork, &info);                                               \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int potrf(char uplo, int n, T* a, int lda) {                                                                \
        int info = 0;                                                                                                  \
        scipy_##p##potrf_(&uplo, &n, a, &lda, &info, 1);                                                               \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int potrs(char uplo, int n, int k, const T* a, int lda, T* b, int ldb) {                                    \
        int info = 0;                                                                                                  \
        scipy_##p##potrs_(&uplo, &n, &k, a, &lda, b, &ldb, &info, 1);                                                  \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int potri(char uplo, int n, T* a, int lda) {                                                                \
        int info = 0;                                                                                                  \
        scipy_##p##potri_(&uplo, &n, a, &lda, &info, 1);                                                               \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline void trsm(char side, char uplo, char trans, char diag, int m, int n, const T* a, int lda, T* b, int ldb) {  \
        T one(1);                                                                                                      \
        scipy_##p##trsm_(&side, &uplo, &trans, &diag, &m, &n, &one, a, &lda, b, &ldb, 1, 1, 1, 1);                     \
    }                                                                                                                  \
    inline int geqrf(int m, int n, T* a, int lda, T* tau) {                                                            \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##geqrf_(&m, &n, a, &lda, tau, work, &lwork, &info);                                              \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {                                               \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##orgqr_name##_(&m, &n, &k, a, &lda, tau, work, &lwork, &info);                                      \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int ormqr(char side, char trans, int m, int n, int k, const T* a, int lda, const T* tau, T* c, int ldc) {   \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##ormqr_name##_(&side, &trans, &m, &n, &k, a, &lda, tau, c, &ldc, work, &lwork, &info, 1, 1);        \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gels(int m, int n, int k, T* a, int lda, T* b, int ldb) {                                               \
        char trans = 'N';                                                                                              \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gels_(&trans, &m, &n, &k, a, &lda, b, &ldb, work, &lwork, &info, 1);                            \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int sytrf(char uplo, bool hermitian, int n, T* a, int lda, int* pivots) {                                   \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            (hermitian ? scipy_##hetrf_name##_ : scipy_##p##sytrf_)(&uplo, &n, a, &lda, pivots, work, &lwork, &info,   \
                                                                    1);                                                \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int sytrs(char uplo, bool hermitian, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb) { \
        int info = 0;                                                                                                  \
        (hermitian ? scipy_##hetrs_name##_ : scipy_##p##sytrs_)(&uplo, &n, &k, a, &lda, pivots, b, &ldb, &info, 1);    \
        return info;                                                                                                   \
    }

FB_ROUTINES(s, float, float, sorgqr, sormqr, ssytrf, ssytrs)
FB_ROUTINES(d, double, double, dorgqr, dormqr, dsytrf, dsytrs)
FB_ROUTINES(c, c64, float, cungqr, cunmqr, chetrf, chetrs)
FB_ROUTINES(z, c128, double, zungqr, zunmqr, zhetrf, zhetrs)
#undef FB_ROUTINES

// Routines whose real and complex forms have different workspaces.
#define FB_REAL_ROUTINES(p, T)                                                                                         \
    extern "C" {                                                                                                       \
    void scipy_##p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, \
                           int*, size_t, size_t);                                                                      \
    void scipy_##p##sytrd_(const char*, const int*, T*, const int*, T*, T*, T*, T*, const int*, int*, size_t);         \
    void scipy_##p##stedc_(const char*, const int*, T*, T*, T*, const int*, T*, const int*, int*, const int*, int*,    \
                           size_t);                                                                                    \
    void scipy_##p##laed1_(const int*, T*, T*, const int*, int*, T*, const int*, T*, int*, int*);                      \
    void scipy_##p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, T*, const int*, T*,            \
                          const int*, T*, const int*, int*, size_t, size_t);                                           \
    void scipy_##p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*,    \
                           T*, const int*, int*, int*, size_t);                                                        \
    void scipy_##p##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, const T*, int*,   \
                           T*, const int*, int*);                                                                      \
    void scipy_##p##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, int*, T*, \
                           const int*, int*, int*);                                                                    \
    void scipy_##p##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, T*, const T*, int*, T*, \
                           const int*, int*);                                                                          \
    }                                                                                                                  \
    inline int heevd(char job, char uplo, int n, T* a, int lda, T* w) {                                                \
        T size = 0;                                                                                                    \
        int isize = 0, ask = -1, info = 0;                                                                             \
        scipy_##p##syevd_(&job, &uplo, &n, a, &lda, w, &size, &ask, &isize, &ask, &info, 1, 1);                        \
        int lwork = workspace_size(size), liwork = std::max(1, isize);                                                 \
        std::vector<T> work(static_cast<size_t>(lwork) + 1);                                                           \
        std::vector<int> iwork(static_cast<size_t>(liwork));                                                           \
        scipy_##p##syevd_(&job, &uplo, &n, a, &lda, w, work.data(), &lwork, iwork.data(), &liwork, &info, 1, 1);       \
        return info;                                                                                                   \
    }                                                                                                                  \
    /* Lower triangle to tridiagonal form: diagonal d, off-diagonal e, reflections below it. */                        \
    inline int sytrd(int n, T* a, int lda, T* d, T* e, T* tau) {                                                       \
        char uplo = 'L';                                                                                               \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##sytrd_(&uplo, &n, a, &lda, d, e, tau, work, &lwork, &info, 1);                                  \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    /* Eigenvalues (into d) and eigenvectors of a tridiagonal matrix, by divide and conquer. */                        \
    inline int stedc(int n, T* d, T* e, T* z, int ldz) {                                                               \
        char job = 'I';                                                                                                \
        T size = 0;                                                                                                    \
        int isize = 0, ask = -1, info = 0;                                                                             \
        scipy_##p##stedc_(&job, &n, d, e, z, &ldz, &size, &ask, &isize, &ask, &info, 1);                               \
        int lwork = workspace_size(size), liwork = std::max(1, isize);                                                 \
        std::vector<T> work(static_cast<size_t>(lwork) + 1);                                                           \
        std::vector<int> iwork(static_cast<size_t>(liwork));                                                           \
        scipy_##p##stedc_(&job, &n, d, e, z, &ldz, work.data(), &lwork, iwork.data(), &liwork, &info, 1);              \
        return info;                                                                                                   \
    }                                                                                                                  \
    /* Joins two of them, columns [0, cut) and [cut, n) of z, that `between` ties; order sorts the result. */          \
    inline int laed1(int n, T* d, T* z, int ldz, int* order, T between, int cut) {                                     \
        int info = 0;                                                                                                  \
        std::vector<T> work(static_cast<size_t>(n) * (static_cast<size_t>(n) + 4));                                    \
        std::vector<int> iwork(static_cast<size_t>(n) * 4);                                                            \
        scipy_##p##laed1_(&n, d, z, &ldz, order, &between, &cut, work.data(), iwork.data(), &info);                    \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int geev(bool vectors, int n, T* a, int lda, std::complex<T>* w, std::complex<T>* v) {                      \
        char none = 'N', job = vectors ? 'V' : 'N';                                                                    \
        std::vector<T> wr(static_cast<size_t>(n)), wi(wr), vr(vectors ? static_cast<size_t>(n) * n : 1);               \
        int one = 1, ldv = vectors ? n : 1;                                                                            \
        int info = with_workspace<T>([&](T* work, int lwork) {                                                         \
            int status = 0;                                                                                            \
            scipy_##p##geev_(&none, &job, &n, a, &lda, wr.data(), wi.data(), nullptr, &one, vr.data(), &ldv, work,     \
                             &lwork, &status, 1, 1);                                                                   \
            return status;                                                                                             \
        });                                                                                                            \
        for (int j = 0; j < n; j++) w[j] = {wr[j], wi[j]};                                                             \
        /* A conjugate pair stores the real and the imaginary part of one vector in two columns. */                    \
        for (int j = 0; vectors && j < n; j++) {                                                                       \
            const T *re = vr.data() + size_t(j) * n, *im = re + n;                                                     \
            std::complex<T>* to = v + size_t(j) * n;                                                                   \
            if (wi[j] == 0 || j + 1 == n) {                                                                            \
                for (int i = 0; i < n; i++) to[i] = re[i];                                                             \
                continue;                                                                                              \
            }                                                                                                          \
            for (int i = 0; i < n; i++) {                                                                              \
                to[i] = {re[i], im[i]};                                                                                \
                to[i + n] = {re[i], -im[i]};                                                                           \
            }                                                                                                          \
            j++;                                                                                                       \
        }                                                                                                              \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int gesdd(char job, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* vt, int ldvt) {                    \
        std::vector<int> iwork(static_cast<size_t>(8 * std::max(1, std::min(m, n))));                                  \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, iwork.data(), &info, 1);     \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gelsy(int m, int n, int k, T* a, int lda, T* b, int ldb, T rcond, int* rank) {                          \
        std::vector<int> pivots(static_cast<size_t>(n));                                                               \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gelsy_(&m, &n, &k, a, &lda, b, &ldb, pivots.data(), &rcond, rank, work, &lwork, &info);         \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gelsd(int m, int n, int k, T* a, int lda, T* b, int ldb, T* s, T rcond, int* rank) {                    \
        T size = 0;                                                                                                    \
        int isize = 0, ask = -1, info = 0;                                                                             \
        scipy_##p##gelsd_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, &size, &ask, &isize, &info);                  \
        int lwork = workspace_size(size);                                                                              \
        std::vector<T> work(static_cast<size_t>(lwork) + 1);                                                           \
        std::vector<int> iwork(static_cast<size_t>(std::max(1, isize)));                                               \
        scipy_##p##gelsd_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, work.data(), &lwork, iwork.data(), &info);    \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int gelss(int m, int n, int k, T* a, int lda, T* b, int ldb, T* s, T rcond, int* rank) {                    \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gelss_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, &info);                     \
            return info;                                                                                               \
        });                                                                                                            \
    }

FB_REAL_ROUTINES(s, float)
FB_REAL_ROUTINES(d, double)
#undef FB_REAL_ROUTINES

#define FB_COMPLEX_ROUTINES(p, T, R)                                                                                   \
    extern "C" {                                                                                                       \
    void scipy_##p##heevd_(const char*, const char*, const int*, T*, const int*, R*, T*, const int*, R*, const int*,   \
                           int*, const int*, int*, size_t, size_t);                                                    \
    void scipy_##p##geev_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, T*, const int*,    \
                          T*, const int*, R*, int*, size_t, size_t);                                                   \
    void scipy_##p##gesdd_(const char*, const int*, const int*, T*, const int*, R*, T*, const int*, T*, const int*,    \
                           T*, const int*, R*, int*, int*, size_t);                                                    \
    void scipy_##p##gelsy_(const int*, const int*, const int*, T*, const int*, T*, const int*, int*, const R*, int*,   \
                           T*, const int*, R*, int*);                                                                  \
    void scipy_##p##gelsd_(const int*, const int*, const int*, T*, const int*, T*, const int*, R*, const R*, int*, T*, \
                           const int*, R*, int*, int*);                                                                \
    void scipy_##p##gelss_(const int*, const int*, const int*, T*, const int*, T*, const int*, R*, const R*, int*, T*, \
                           const int*, R*, int*);                                                                      \
    }                                                                                                                  \
    inline int heevd(char job, char uplo, int n, T* a, int lda, R* w) {                                                \
        T size{};                                                                                                      \
        R rsize = 0;                                                                                                   \
        int isize = 0, ask = -1, info = 0;                                                                             \
        scipy_##p##heevd_(&job, &uplo, &n, a, &lda, w, &size, &ask, &rsize, &ask, &isize, &ask, &info, 1, 1);          \
        int lwork = workspace_size(size.real()), lrwork = std::max(1, static_cast<int>(rsize)),                        \
            liwork = std::max(1, isize);                                                                               \
        std::vector<T> work(static_cast<size_t>(lwork) + 1);                                                           \
        std::vector<R> rwork(static_cast<size_t>(lrwork));                                                             \
        std::vector<int> iwork(static_cast<size_t>(liwork));                                                           \
        scipy_##p##heevd_(&job, &uplo, &n, a, &lda, w, work.data(), &lwork, rwork.data(), &lrwork, iwork.data(),       \
                          &liwork, &info, 1, 1);                                                                       \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int geev(bool vectors, int n, T* a, int lda, T* w, T* v) {                                                  \
        char none = 'N', job = vectors ? 'V' : 'N';                                                                    \
        int one = 1, ldv = vectors ? n : 1;                                                                            \
        std::vector<R> rwork(static_cast<size_t>(2 * n));                                                              \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##geev_(&none, &job, &n, a, &lda, w, nullptr, &one, v, &ldv, work, &lwork, rwork.data(), &info,   \
                             1, 1);                                                                                    \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gesdd(char job, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* vt, int ldvt) {                    \
        size_t small = std::max(1, std::min(m, n)), large = std::max(m, n);                                            \
        std::vector<int> iwork(8 * small);                                                                             \
        std::vector<R> rwork(small* std::max(5 * small + 7, 2 * large + 2 * small + 1));                               \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gesdd_(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork, rwork.data(), iwork.data(),  \
                              &info, 1);                                                                               \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gelsy(int m, int n, int k, T* a, int lda, T* b, int ldb, R rcond, int* rank) {                          \
        std::vector<int> pivots(static_cast<size_t>(n));                                                               \
        std::vector<R> rwork(static_cast<size_t>(2 * n));                                                              \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gelsy_(&m, &n, &k, a, &lda, b, &ldb, pivots.data(), &rcond, rank, work, &lwork, rwork.data(),   \
                              &info);                                                                                  \
            return info;                                                                                               \
        });                                                                                                            \
    }                                                                                                                  \
    inline int gelsd(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank) {                    \
        T size{};                                                                                                      \
        R rsize = 0;                                                                                                   \
        int isize = 0, ask = -1, info = 0;                                                                             \
        scipy_##p##gelsd_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, &size, &ask, &rsize, &isize, &info);          \
        int lwork = workspace_size(size.real());                                                                       \
        std::vector<T> work(static_cast<size_t>(lwork) + 1);                                                           \
        std::vector<R> rwork(static_cast<size_t>(std::max(1, static_cast<int>(rsize))));                               \
        std::vector<int> iwork(static_cast<size_t>(std::max(1, isize)));                                               \
        scipy_##p##gelsd_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, work.data(), &lwork, rwork.data(),            \
                          iwork.data(), &info);                                                                        \
        return info;                                                                                                   \
    }                                                                                                                  \
    inline int gelss(int m, int n, int k, T* a, int lda, T* b, int ldb, R* s, R rcond, int* rank) {                    \
        std::vector<R> rwork(static_cast<size_t>(5 * std::max(1, std::min(m, n))));                                    \
        return with_workspace<T>([&](T* work, int lwork) {                                                             \
            int info = 0;                                                                                              \
            scipy_##p##gelss_(&m, &n, &k, a, &lda, b, &ldb, s, &rcond, rank, work, &lwork, rwork.data(), &info);       \
            return info;                                                                                               \
        });                                                                                                            \
    }

FB_COMPLEX_ROUTINES(c, c64, float)
FB_COMPLEX_ROUTINES(z, c128, double)
#undef FB_COMPLEX_ROUTINES

}  // namespace fb::cpu::lapack
