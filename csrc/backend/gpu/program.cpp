#include "backend/gpu/program.h"

namespace fb::gpu {
namespace {

// ---- C++, for the simulated accelerator; Item_ is SimItem (sim/sim.h) -----------------------------------------------

constexpr const char* cpp_head = R"(#include <math.h>
#include <stdint.h>
#include <string.h>
typedef int8_t i8; typedef int16_t i16; typedef int32_t i32; typedef int64_t i64;
typedef uint8_t u8; typedef uint16_t u16; typedef uint32_t u32; typedef uint64_t u64;
typedef float f32; typedef double f64;
#define FN static inline
#define GLOBAL
#define LOCAL
#define CONSTANT static const
#define SHARED static thread_local
#define UNROLL _Pragma("GCC unroll 32")
#define PARALLEL _Pragma("GCC ivdep")
#define HAS_F64 1
typedef i64 narrow_ix;
#define VECTOR_(v, T, n) \
    typedef T v __attribute__((vector_size(64))); \
    FN v v##_load(const T* p) { v r; memcpy(&r, p, 64); return r; } \
    FN void v##_store(T* p, v r) { memcpy(p, &r, 64); } \
    FN v v##_of(T x) { return x - v{}; } \
    FN v v##_fma(v a, v b, v c) { return a * b + c; } \
    FN T v##_sum(v a) { for (int m = n / 2; m; m /= 2) for (int i = 0; i < m; i++) a[i] += a[i + m]; return a[0]; }
VECTOR_(v16, f32, 16)
VECTOR_(v8d, f64, 8)
#define HAS_ATOMIC64 1
FN f32 float_of_bits(u32 bits) { f32 f; memcpy(&f, &bits, 4); return f; }
FN u32 bits_of_float(f32 f) { u32 bits; memcpy(&bits, &f, 4); return bits; }
FN f64 double_of_bits(u64 bits) { f64 f; memcpy(&f, &bits, 8); return f; }
FN u64 bits_of_double(f64 f) { u64 bits; memcpy(&bits, &f, 8); return bits; }
FN u32 cas_u32(u32* p, u32 old, u32 value) { __atomic_compare_exchange_n(p, &old, value, false, 5, 5); return old; }
FN u64 cas_u64(u64* p, u64 old, u64 value) { __atomic_compare_exchange_n(p, &old, value, false, 5, 5); return old; }
#ifdef __FMA__  // calls of the C library would keep loops from becoming vector loops
FN f32 vector_exp(f32 x) {
    f32 t = __builtin_fmaf(x, 1.44269504088896341f, 12582912.0f), n = t - 12582912.0f;
    f32 r = __builtin_fmaf(n, 2.12194440054690583e-4f, __builtin_fmaf(n, -0.693359375f, x)), p = 0.00138145988f;
    p = __builtin_fmaf(p, r, 0.00836871658f);
    p = __builtin_fmaf(p, r, 0.0416683890f);
    p = __builtin_fmaf(p, r, 0.166665211f);
    p = __builtin_fmaf(p, r, 0.499999940f);
    p = __builtin_fmaf(p, r, 1.0f);
    p = __builtin_fmaf(p, r, 1.0f);
    f32 y = float_of_bits(bits_of_float(p) + (bits_of_float(t) << 23));
    y = x > 88.72283f ? __builtin_inff() : y;
    y = x < -87.3f ? 0.0f : y;
    return x != x ? x : y;
}
FN f32 vector_tanh(f32 x) {
    f32 q = x * x, size = __builtin_fabsf(x), p = -0.00565997613f;
    p = __builtin_fmaf(p, q, 0.0205909757f);
    p = __builtin_fmaf(p, q, -0.0537210637f);
    p = __builtin_fmaf(p, q, 0.133311275f);
    p = __builtin_fmaf(p, q, -0.333332605f);
    p = __builtin_fmaf(p, q, 0.999999996f);
    f32 far = __builtin_copysignf(1 - 2 / (1 + vector_exp(2 * size)), x);
    return size < 0.625f ? x * p : far;
}
FN f64 vector_exp(f64 x) { return exp(x); }
FN f64 vector_tanh(f64 x) { return tanh(x); }
#define exp vector_exp
#define tanh vector_tanh
#endif
#define CAS_U32(p, old, value) cas_u32((u32*)(p), old, value)
#define CAS_U64(p, old, value) cas_u64((u64*)(p), old, value)
#define ADD_U32(p, x) __atomic_fetch_add((u32*)(p), (u32)(x), __ATOMIC_RELAXED)
#define SHARED_ADD_U32 ADD_U32
#define ADD_U64(p, x) __atomic_fetch_add((u64*)(p), (u64)(x), __ATOMIC_RELAXED)
struct Item_ {
    void* const* data; const void* params; i64 group; i32 lid; i32 size; i32* fault; i64 launch;
    void (*barrier)(void*); void* fibers;
};
#define GID (it_.group * SIZE + it_.lid)
#define LID ((i64)it_.lid)
#define GROUP (it_.group)
#define BARRIER it_.barrier(it_.fibers)
#define FAIL(code, index) fail_(it_.fault, it_.launch, code, index)
)";

// ---- OpenCL C 1.2 ---------------------------------------------------------------------------------------------------

constexpr const char* opencl_head = R"head(
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAS_F64 1
typedef double f64;
typedef double8 v8d;
#define v8d_load(p) vload8(0, p)
#define v8d_store(p, v) vstore8(v, 0, p)
#define v8d_of(x) ((double8)(x))
#define v8d_fma(a, b, c) fma(a, b, c)
static inline f64 v8d_sum(double8 a) { const double4 b = a.lo + a.hi; const double2 c = b.lo + b.hi; return c.x + c.y; }
#endif
typedef float16 v16;
#define v16_load(p) vload16(0, p)
#define v16_store(p, v) vstore16(v, 0, p)
#define v16_of(x) ((float16)(x))
#define v16_fma(a, b, c) fma(a, b, c)
static inline float v16_sum(float16 a) {
    const float8 b = a.lo + a.hi;
    const float4 c = b.lo + b.hi;
    const float2 d = c.lo + c.hi;
    return d.x + d.y;
}
#ifdef ON_PROCESSOR  // a short series, where calls of the library take longer
#define OVERLOAD_ static inline __attribute__((overloadable))
OVERLOAD_ float vector_tanh(float x) {
    float q = x * x, size = fabs(x), p = -0.00565997613f;
    p = fma(p, q, 0.0205909757f);
    p = fma(p, q, -0.0537210637f);
    p = fma(p, q, 0.133311275f);
    p = fma(p, q, -0.333332605f);
    p = fma(p, q, 0.999999996f);
    float far = copysign(1 - 2 / (1 + exp(2 * size)), x);
    return size < 0.625f ? x * p : far;
}
#ifdef HAS_F64
OVERLOAD_ double vector_tanh(double x) { return tanh(x); }
#endif
#define tanh vector_tanh
#endif
#ifdef ON_PROCESSOR  // whose compiler makes vectors of neighbouring items when it knows that they do not wrap around
typedef long narrow_ix;
#else
typedef int narrow_ix;
#endif
#if defined(cl_khr_int64_base_atomics)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define HAS_ATOMIC64 1
#define CAS_U64(p, old, value) atom_cmpxchg((volatile __global ulong*)(p), (ulong)(old), (ulong)(value))
#define ADD_U64(p, x) atom_add((volatile __global ulong*)(p), (ulong)(x))
#endif
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef float f32;
// Reserved in other dialects.
#define kernel kernel_
#define global global_
#define local local_
#define constant constant_
#define private private_
#define half half_
#define FN static inline
#define GLOBAL __global
#define LOCAL __local
#define CONSTANT __constant const
#define SHARED __local
#define UNROLL
#define PARALLEL
#define float_of_bits(bits) as_float((u32)(bits))
#define bits_of_float(f) as_uint((f32)(f))
#define double_of_bits(bits) as_double((u64)(bits))
#define bits_of_double(f) as_ulong((f64)(f))
#define CAS_U32(p, old, value) atomic_cmpxchg((volatile __global uint*)(p), (uint)(old), (uint)(value))
#define ADD_U32(p, x) atomic_add((volatile __global uint*)(p), (uint)(x))
#define SHARED_ADD_U32(p, x) atomic_add((volatile __local uint*)(p), (uint)(x))

#define GROUP ((i64)get_group_id(0))
#define LID ((i64)get_local_id(0))
#define GID ((i64)get_global_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define FAIL(code, index) fail_(fault_, launch_, code, index)
)head";

// ---- CUDA C++, compiled by NVRTC ------------------------------------------------------------------------------------

constexpr const char* cuda_head = R"(
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;
#define FN static __device__ inline
#define GLOBAL
#define LOCAL
#define CONSTANT static __device__ const
#define SHARED __shared__
#define UNROLL _Pragma("unroll")
#define PARALLEL
#define HAS_F64 1
typedef i32 narrow_ix;
#define VECTOR_(v, T, n) \
    struct v { T at[n]; }; \
    FN v v##_load(const T* p) { v r; for (int i = 0; i < n; i++) r.at[i] = p[i]; return r; } \
    FN void v##_store(T* p, v r) { for (int i = 0; i < n; i++) p[i] = r.at[i]; } \
    FN v v##_of(T x) { v r; for (int i = 0; i < n; i++) r.at[i] = x; return r; } \
    FN v v##_fma(v a, v b, v c) { for (int i = 0; i < n; i++) c.at[i] += a.at[i] * b.at[i]; return c; } \
    FN T v##_sum(v a) { T s = a.at[0]; for (int i = 1; i < n; i++) s += a.at[i]; return s; }
VECTOR_(v16, f32, 16)
VECTOR_(v8d, f64, 8)
#define HAS_ATOMIC64 1
FN f32 float_of_bits(u32 bits) { return __uint_as_float(bits); }
FN u32 bits_of_float(f32 f) { return __float_as_uint(f); }
FN f64 double_of_bits(u64 bits) { return __longlong_as_double((long long)bits); }
FN u64 bits_of_double(f64 f) { return (u64)__double_as_longlong(f); }
#define CAS_U32(p, old, value) atomicCAS((u32*)(p), (u32)(old), (u32)(value))
#define CAS_U64(p, old, value) atomicCAS((u64*)(p), (u64)(old), (u64)(value))
#define ADD_U32(p, x) atomicAdd((u32*)(p), (u32)(x))
#define SHARED_ADD_U32 ADD_U32
#define ADD_U64(p, x) atomicAdd((u64*)(p), (u64)(x))
#define GROUP ((i64)blockIdx.x)
#define LID ((i64)threadIdx.x)
#define GID (GROUP * SIZE + LID)
#define BARRIER __syncthreads()
#define FAIL(code, index) fail_(fault_, launch_, code, index)
)";

constexpr const char* shared_head = R"(
FN void fail_(GLOBAL i32* fault, i64 launch, i32 code, i64 index) {
    if (CAS_U32(fault, 0, 1) == 0) {
        fault[1] = code;
        ((GLOBAL i64*)fault)[1] = launch;
        ((GLOBAL i64*)fault)[2] = index;
    }
}
)";

// Splits "GLOBAL f32* out" into type and name.
std::pair<std::string, std::string> parts(const std::string& pointer) {
    size_t star = pointer.rfind('*');
    size_t name = pointer.find_first_not_of(' ', star + 1);
    return {pointer.substr(0, star + 1), pointer.substr(name)};
}

std::string cpp_kernel(const KernelText& k) {
    std::string parameters, names, loads;
    for (size_t i = 0; i < k.pointers.size(); i++) {
        auto [type, name] = parts(k.pointers[i]);
        parameters += ", " + k.pointers[i];
        names += ", " + name;
        loads += "    " + type + " const " + name + " = (" + type + ")first_->data[" + std::to_string(i) + "];\n";
    }
    const std::string exported = "extern \"C\" __attribute__((visibility(\"default\"))) ";
    loads += "    const Params g = *(const Params*)first_->params;\n";
    return "static inline __attribute__((always_inline)) void " + k.name + "_item(const Item_& it_" + parameters +
           ", const Params& g) {\n" + k.body + "\n}\n" + exported + "void " + k.name +
           "(const Item_* first_, i64 begin_, i64 end_) {\n" + loads +
           "    for (i64 group_ = begin_; group_ < end_; group_++) {\n        const i32 count_ = " +
           (k.whole ? "SIZE" : "g.items - group_ * SIZE < SIZE ? (i32)(g.items - group_ * SIZE) : SIZE") +
           ";\n        _Pragma(\"GCC ivdep\") for (i32 lid_ = 0; lid_ < count_; lid_++) {\n            Item_ it_ = "
           "*first_; "
           "it_.group = group_; it_.lid = lid_;\n            " +
           k.name + "_item(it_" + names + ", g);\n        }\n    }\n}\n" + exported + "void " + k.name +
           "_one(const Item_* first_) {\n" + loads +
           (k.whole ? "" : "    if (first_->group * SIZE + first_->lid >= g.items) return;\n") + "    " + k.name +
           "_item(*first_" + names + ", g);\n}\n";
}

std::string device_kernel(const KernelText& k, Dialect dialect) {
    bool opencl = dialect == Dialect::OpenCL;
    std::string size = std::to_string(k.size), text;
    text = opencl ? "__kernel __attribute__((reqd_work_group_size(" + size + ", 1, 1))) void "
                  : "extern \"C\" __global__ void __launch_bounds__(" + size + ") ";
    text += k.name + "(";
    std::string begin;
    for (const std::string& pointer : k.pointers) {
        auto [type, name] = parts(pointer);
        // A buffer and an offset in it.
        text += opencl ? type + " buffer_of_" + name + ", const i64 place_of_" + name + ", " : pointer + ", ";
        if (opencl)
            begin += type + " const " + name + " = (" + type + ")((__global char*)buffer_of_" + name + " + place_of_" +
                     name + ");\n";
    }
    if (!k.whole) begin += "    if (GID >= g.items) return;\n";
    return text + "const Params g, GLOBAL i32* fault_, const i64 launch_) {\n" + begin + k.body + "\n}\n";
}

}  // namespace

std::string assemble(const Program& program, Dialect dialect) {
    std::string text = dialect == Dialect::Cpp ? cpp_head : dialect == Dialect::OpenCL ? opencl_head : cuda_head;
    text += shared_head + program.text + "\n";
    for (const KernelText& k : program.kernels) {
        text += "#define SIZE " + std::to_string(k.size) + "\n";
        text += dialect == Dialect::Cpp ? cpp_kernel(k) : device_kernel(k, dialect);
        text += "#undef SIZE\n";
    }
    return text;
}

}  // namespace fb::gpu
