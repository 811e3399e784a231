// Declares the C library's functions as simd, so that the compiler calls glibc's vector versions (libmvec) in simd
// loops. Include it only in files with such loops.
#pragma once

#define FB_SIMD1(name)                                                            \
    extern "C" __attribute__((simd("notinbranch"))) double name(double) noexcept; \
    extern "C" __attribute__((simd("notinbranch"))) float name##f(float) noexcept;
FB_SIMD1(exp)
FB_SIMD1(exp2)
FB_SIMD1(expm1)
FB_SIMD1(log)
FB_SIMD1(log2)
FB_SIMD1(log10)
FB_SIMD1(log1p)
FB_SIMD1(sin)
FB_SIMD1(cos)
FB_SIMD1(tan)
FB_SIMD1(asin)
FB_SIMD1(acos)
FB_SIMD1(atan)
FB_SIMD1(sinh)
FB_SIMD1(cosh)
FB_SIMD1(tanh)
FB_SIMD1(asinh)
FB_SIMD1(acosh)
FB_SIMD1(atanh)
FB_SIMD1(erf)
FB_SIMD1(erfc)
#undef FB_SIMD1
extern "C" __attribute__((simd("notinbranch"))) double pow(double, double) noexcept;
extern "C" __attribute__((simd("notinbranch"))) float powf(float, float) noexcept;
extern "C" __attribute__((simd("notinbranch"))) double atan2(double, double) noexcept;
extern "C" __attribute__((simd("notinbranch"))) float atan2f(float, float) noexcept;
extern "C" __attribute__((simd("notinbranch"))) double hypot(double, double) noexcept;
extern "C" __attribute__((simd("notinbranch"))) float hypotf(float, float) noexcept;
