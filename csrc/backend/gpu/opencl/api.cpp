#include "backend/gpu/opencl/api.h"

#include <algorithm>
#include <cstdlib>

#include "backend/gpu/driver.h"
#include "backend/gpu/library.h"
#include "base/error.h"

namespace fb::gpu {
std::string (*python_prefix)() = nullptr;
}

namespace fb::gpu::cl {
namespace {

struct Search {
    std::vector<Found> devices;
    std::string why;
};

// Returns nullptr, and adds a line to `why`, if the library cannot be used.
const Api* open(const std::string& path, std::string& why) {
    Library library(path);
    if (!library.error().empty()) {
        why += library.error() + "\n";
        return nullptr;
    }
    auto* api = new Api;  // lives as long as the process, like the objects created with it
    api->library = path;
#define LOAD(name) library.find("cl" #name, api->name)
    LOAD(GetPlatformIDs), LOAD(GetPlatformInfo), LOAD(GetDeviceIDs), LOAD(GetDeviceInfo), LOAD(CreateContext);
    LOAD(CreateCommandQueue), LOAD(CreateBuffer), LOAD(ReleaseMemObject), LOAD(CreateProgramWithSource);
    LOAD(CreateProgramWithBinary), LOAD(BuildProgram), LOAD(GetProgramInfo), LOAD(GetProgramBuildInfo);
    LOAD(ReleaseProgram), LOAD(CreateKernel), LOAD(SetKernelArg), LOAD(EnqueueNDRangeKernel), LOAD(EnqueueReadBuffer);
    LOAD(EnqueueWriteBuffer), LOAD(EnqueueCopyBuffer), LOAD(EnqueueFillBuffer), LOAD(EnqueueMarkerWithWaitList);
    LOAD(EnqueueBarrierWithWaitList), LOAD(SetEventCallback), LOAD(GetEventProfilingInfo), LOAD(ReleaseEvent);
    LOAD(Flush), LOAD(Finish);
#undef LOAD
    if (library.complete()) return api;
    why += path + " lacks functions of OpenCL 1.2\n";
    delete api;
    return nullptr;
}

std::string text_of(const Api& api, DeviceId id, uint32_t what) {
    size_t size = 0;
    if (api.GetDeviceInfo(id, what, 0, nullptr, &size) != 0 || size == 0) return "";
    std::string text(size, '\0');
    if (api.GetDeviceInfo(id, what, size, text.data(), nullptr) != 0) return "";
    text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
    return text;
}
template <class T>
int64_t number_of(const Api& api, DeviceId id, uint32_t what) {
    T value = 0;
    return api.GetDeviceInfo(id, what, sizeof value, &value, nullptr) == 0 ? static_cast<int64_t>(value) : 0;
}

Found describe(const Api& api, Platform platform, DeviceId id) {
    Found found;
    found.api = &api;
    found.platform = platform;
    found.id = id;
    char text[256] = {};
    api.GetPlatformInfo(platform, platform_name, sizeof text - 1, text, nullptr);
    found.platform_name = text;
    found.portable = found.platform_name.find("Portable") != std::string::npos;
    found.name = text_of(api, id, device_name);
    found.vendor = text_of(api, id, device_vendor);
    found.version = text_of(api, id, device_version);
    found.driver = text_of(api, id, driver_version);
    int64_t type = number_of<Bits>(api, id, device_type);
    found.type = type & type_gpu ? "gpu" : type & type_accelerator ? "accelerator" : "cpu";
    found.units = number_of<uint32_t>(api, id, device_compute_units);
    found.memory = number_of<Bits>(api, id, device_global_memory);
    found.max_alloc = number_of<Bits>(api, id, device_max_alloc);
    found.group = number_of<size_t>(api, id, device_group_size);
    found.local = number_of<Bits>(api, id, device_local_memory);
    std::string extensions(" ");
    extensions.append(text_of(api, id, device_extensions)).append(" ");
    auto has = [&](const char* name) { return extensions.find(std::string(" ") + name + " ") != std::string::npos; };
    found.f64 = has("cl_khr_fp64");
    found.f16 = has("cl_khr_fp16");
    found.atomic64 = has("cl_khr_int64_base_atomics");
    if (!number_of<uint32_t>(api, id, device_available)) found.rejected = "it is not available";
    else if (!number_of<uint32_t>(api, id, device_compiler)) found.rejected = "it has no compiler";
    else if (number_of<uint32_t>(api, id, device_address_bits) != 64) found.rejected = "its addresses have not 64 bits";
    else if (found.group < 128) found.rejected = "its work-groups have less than 128 items";
    else if (found.local < 16 * 1024) found.rejected = "its groups have less than 16 KB of memory";
    else if (number_of<size_t>(api, id, device_parameter_size) < 1024)
        found.rejected = "its kernels take less than 1024 bytes of arguments";
    return found;
}

Search search() {
    Search found;
    std::vector<std::string> paths;
    const char* named = std::getenv("FLAMBEAU_OPENCL");
    if (named && *named) {
        paths.push_back(named);
    } else {
        paths.push_back("libOpenCL.so.1");
        if (python_prefix) paths.push_back(python_prefix() + "/lib/libintelocl.so");
    }
    for (const std::string& path : paths) {
        const Api* api = open(path, found.why);
        Platform platforms[16];
        uint32_t count = 0;
        if (!api || api->GetPlatformIDs(16, platforms, &count) != 0) continue;
        for (uint32_t p = 0; p < std::min(count, 16u); p++) {
            DeviceId ids[32];
            uint32_t devices = 0;
            if (api->GetDeviceIDs(platforms[p], type_all, 32, ids, &devices) != 0) continue;
            for (uint32_t d = 0; d < std::min(devices, 32u); d++) {
                Found one = describe(*api, platforms[p], ids[d]);
                // The loader may list an implementation that was also opened directly.
                bool again = std::any_of(found.devices.begin(), found.devices.end(), [&](const Found& other) {
                    return other.api != one.api && other.name == one.name && other.platform_name == one.platform_name &&
                           other.driver == one.driver;
                });
                if (!again) found.devices.push_back(one);
            }
        }
    }
    std::stable_partition(found.devices.begin(), found.devices.end(), [](const Found& d) { return d.type != "cpu"; });
    return found;
}

const Search& searched() {
    static const Search once = search();
    return once;
}

}  // namespace

const std::vector<Found>& all_devices() { return searched().devices; }
const std::string& why_none() { return searched().why; }

std::string describe(int32_t status) {
    static constexpr std::pair<int32_t, const char*> names[] = {{-1, "device not found"},
                                                                {-2, "device not available"},
                                                                {-3, "compiler not available"},
                                                                {-4, "out of device memory"},
                                                                {-5, "out of resources"},
                                                                {-6, "out of host memory"},
                                                                {-8, "copy of overlapping memory"},
                                                                {-11, "the program does not compile"},
                                                                {-36, "invalid queue"},
                                                                {-38, "invalid memory object"},
                                                                {-46, "invalid kernel name"},
                                                                {-48, "invalid kernel"},
                                                                {-49, "invalid argument index"},
                                                                {-50, "invalid argument"},
                                                                {-51, "invalid size of an argument"},
                                                                {-52, "invalid arguments"},
                                                                {-54, "invalid group size"},
                                                                {-61, "invalid buffer size"}};
    for (auto& [code, name] : names) {
        if (code == status) return std::string(name) + " (" + std::to_string(status) + ")";
    }
    return "error " + std::to_string(status);
}

void check(int32_t status, const char* call) {
    if (status == 0) return;
    ErrorKind kind = status == -4 || status == -5 || status == -6 ? ErrorKind::Memory : ErrorKind::State;
    fail(kind, "the OpenCL device failed in cl", call, ": ", describe(status));
}

}  // namespace fb::gpu::cl
