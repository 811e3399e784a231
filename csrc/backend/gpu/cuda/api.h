// The parts of CUDA's driver API and of NVRTC, its compiler, that the driver uses, declared here and loaded at run
// time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace fb::gpu::cuda {

template <int kind>
struct Object;
using Context = Object<0>*;
using StreamHandle = Object<1>*;
using Event = Object<2>*;
using Module = Object<3>*;
using Function = Object<4>*;
using Nvrtc = Object<5>*;
using Address = uint64_t;  // of device memory

enum Constant : int32_t {
    not_ready = 600,
    out_of_memory = 2,
    stream_non_blocking = 1,
    event_disable_timing = 2,
    max_threads_per_block = 1,
    max_shared_memory = 8,
    multiprocessors = 16,
    capability_major = 75,
    capability_minor = 76,
};

struct Api {
    std::string library;
    int32_t (*Init)(uint32_t flags);
    int32_t (*DriverGetVersion)(int32_t*);
    int32_t (*DeviceGetCount)(int32_t*);
    int32_t (*DeviceGet)(int32_t*, int32_t index);
    int32_t (*DeviceGetName)(char*, int32_t size, int32_t device);
    int32_t (*DeviceTotalMem)(size_t*, int32_t device);
    int32_t (*DeviceGetAttribute)(int32_t*, int32_t attribute, int32_t device);
    int32_t (*DevicePrimaryCtxRetain)(Context*, int32_t device);
    int32_t (*CtxSetCurrent)(Context);
    int32_t (*MemAlloc)(Address*, size_t);
    int32_t (*MemFree)(Address);
    int32_t (*MemcpyHtoDAsync)(Address, const void*, size_t, StreamHandle);
    int32_t (*MemcpyDtoHAsync)(void*, Address, size_t, StreamHandle);
    int32_t (*MemcpyDtoDAsync)(Address, Address, size_t, StreamHandle);
    int32_t (*MemsetD8Async)(Address, uint8_t, size_t, StreamHandle);
    int32_t (*MemsetD16Async)(Address, uint16_t, size_t, StreamHandle);
    int32_t (*MemsetD32Async)(Address, uint32_t, size_t, StreamHandle);
    int32_t (*StreamCreate)(StreamHandle*, uint32_t flags);
    int32_t (*StreamWaitEvent)(StreamHandle, Event, uint32_t flags);
    int32_t (*StreamSynchronize)(StreamHandle);
    int32_t (*EventCreate)(Event*, uint32_t flags);
    int32_t (*EventRecord)(Event, StreamHandle);
    int32_t (*EventQuery)(Event);
    int32_t (*EventElapsedTime)(float* milliseconds, Event, Event);
    int32_t (*EventDestroy)(Event);
    int32_t (*ModuleLoadData)(Module*, const void*);
    int32_t (*ModuleGetFunction)(Function*, Module, const char*);
    int32_t (*LaunchKernel)(Function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                            uint32_t shared, StreamHandle, void** arguments, void** extra);
    int32_t (*GetErrorName)(int32_t, const char**);
};

// nullptr if there is no driver; why() gives the reason. The library is the one named by FLAMBEAU_CUDA, else
// libcuda.so.1.
const Api* api();
const std::string& why();
// Raises an error of the op if `status` is one.
void check(int32_t status, const char* call);

// Compiles a source with NVRTC for an architecture such as "sm_80" (machine code) or "compute_80" (PTX). On failure
// returns nothing, and the compiler's log in `log`. The library is the one named by FLAMBEAU_NVRTC, else that of
// nvidia-cuda-nvrtc in this Python environment, else the system's.
std::string compile(const std::string& source, const std::string& architecture, std::string& log);
// "12.9", or "" without NVRTC.
std::string compiler_version();

}  // namespace fb::gpu::cuda
