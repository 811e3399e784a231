// The part of OpenCL 1.2 that the driver uses, declared here and loaded at run time: building and importing need no
// OpenCL installation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fb::gpu::cl {

// Objects of OpenCL, by their kind.
template <int kind>
struct Object;
using Platform = Object<0>*;
using DeviceId = Object<1>*;
using Context = Object<2>*;
using CommandQueue = Object<3>*;
using Memory = Object<4>*;
using Program = Object<5>*;
using Kernel = Object<6>*;
using Event = Object<7>*;
using Bits = uint64_t;

enum Constant : uint32_t {
    platform_version = 0x0901,
    platform_name = 0x0902,
    device_type = 0x1000,
    device_compute_units = 0x1002,
    device_group_size = 0x1004,
    device_address_bits = 0x100D,
    device_max_alloc = 0x1010,
    device_parameter_size = 0x1017,
    device_global_memory = 0x101F,
    device_local_memory = 0x1023,
    device_available = 0x1027,
    device_compiler = 0x1028,
    device_name = 0x102B,
    device_vendor = 0x102C,
    driver_version = 0x102D,
    device_version = 0x102F,
    device_extensions = 0x1030,
    queue_profiling = 2,
    memory_read_write = 1,
    program_binary_sizes = 0x1165,
    program_binaries = 0x1166,
    build_log = 0x1183,
    profiling_start = 0x1282,
    profiling_end = 0x1283,
    complete = 0,
    type_cpu = 2,
    type_gpu = 4,
    type_accelerator = 8,
    type_all = 0xFFFFFFFF,
};

using Notify = void (*)(Event, int32_t status, void* data);

// One OpenCL implementation, or a loader of several.
struct Api {
    std::string library;
    int32_t (*GetPlatformIDs)(uint32_t, Platform*, uint32_t*);
    int32_t (*GetPlatformInfo)(Platform, uint32_t, size_t, void*, size_t*);
    int32_t (*GetDeviceIDs)(Platform, Bits, uint32_t, DeviceId*, uint32_t*);
    int32_t (*GetDeviceInfo)(DeviceId, uint32_t, size_t, void*, size_t*);
    Context (*CreateContext)(const intptr_t*, uint32_t, const DeviceId*, void*, void*, int32_t*);
    CommandQueue (*CreateCommandQueue)(Context, DeviceId, Bits, int32_t*);
    Memory (*CreateBuffer)(Context, Bits, size_t, void*, int32_t*);
    int32_t (*ReleaseMemObject)(Memory);
    Program (*CreateProgramWithSource)(Context, uint32_t, const char**, const size_t*, int32_t*);
    Program (*CreateProgramWithBinary)(Context, uint32_t, const DeviceId*, const size_t*, const unsigned char**,
                                       int32_t*, int32_t*);
    int32_t (*BuildProgram)(Program, uint32_t, const DeviceId*, const char*, void*, void*);
    int32_t (*GetProgramInfo)(Program, uint32_t, size_t, void*, size_t*);
    int32_t (*GetProgramBuildInfo)(Program, DeviceId, uint32_t, size_t, void*, size_t*);
    int32_t (*ReleaseProgram)(Program);
    Kernel (*CreateKernel)(Program, const char*, int32_t*);
    int32_t (*SetKernelArg)(Kernel, uint32_t, size_t, const void*);
    int32_t (*EnqueueNDRangeKernel)(CommandQueue, Kernel, uint32_t, const size_t*, const size_t*, const size_t*,
                                    uint32_t, const Event*, Event*);
    int32_t (*EnqueueReadBuffer)(CommandQueue, Memory, uint32_t, size_t, size_t, void*, uint32_t, const Event*, Event*);
    int32_t (*EnqueueWriteBuffer)(CommandQueue, Memory, uint32_t, size_t, size_t, const void*, uint32_t, const Event*,
                                  Event*);
    int32_t (*EnqueueCopyBuffer)(CommandQueue, Memory, Memory, size_t, size_t, size_t, uint32_t, const Event*, Event*);
    int32_t (*EnqueueFillBuffer)(CommandQueue, Memory, const void*, size_t, size_t, size_t, uint32_t, const Event*,
                                 Event*);
    int32_t (*EnqueueMarkerWithWaitList)(CommandQueue, uint32_t, const Event*, Event*);
    int32_t (*EnqueueBarrierWithWaitList)(CommandQueue, uint32_t, const Event*, Event*);
    int32_t (*SetEventCallback)(Event, int32_t, Notify, void*);
    int32_t (*GetEventProfilingInfo)(Event, uint32_t, size_t, void*, size_t*);
    int32_t (*ReleaseEvent)(Event);
    int32_t (*Flush)(CommandQueue);
    int32_t (*Finish)(CommandQueue);
};

// A device of an implementation, as it describes itself, and the reason if it is not used.
struct Found {
    const Api* api = nullptr;
    Platform platform = nullptr;
    DeviceId id = nullptr;
    std::string name, vendor, platform_name, version, driver, type, rejected;
    int64_t units = 0, memory = 0, max_alloc = 0, group = 0, local = 0;
    bool f64 = false, f16 = false, atomic64 = false;
    bool portable = false;  // PoCL
};

// Every device of every implementation found, those with a GPU first; searched once. The implementations are the
// library named by FLAMBEAU_OPENCL, else the system's libOpenCL and Intel's CPU runtime in this Python environment.
const std::vector<Found>& all_devices();
// Why there are no devices.
const std::string& why_none();

// "out of resources (-5)"
std::string describe(int32_t status);
// Raises an error of the op if `status` is one.
void check(int32_t status, const char* call);

}  // namespace fb::gpu::cl
