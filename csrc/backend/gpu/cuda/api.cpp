#include "backend/gpu/cuda/api.h"

#include <glob.h>

#include <cstdlib>
#include <vector>

#include "backend/gpu/driver.h"
#include "backend/gpu/library.h"
#include "base/error.h"

namespace fb::gpu::cuda {
namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

struct Loaded {
    const Api* api = nullptr;
    std::string why;
};
Loaded open() {
    Loaded found;
    std::string path = environment("FLAMBEAU_CUDA");
    if (path.empty()) path = "libcuda.so.1";
    Library library(path);
    if (!library.error().empty()) {
        found.why = library.error();
        return found;
    }
    auto* a = new Api;
    a->library = path;
    // Functions whose meaning has changed carry a version number.
#define LOAD(name) library.find("cu" #name, a->name)
#define LOAD_V2(name) library.find("cu" #name "_v2", a->name)
    LOAD(Init), LOAD(DriverGetVersion), LOAD(DeviceGetCount), LOAD(DeviceGet), LOAD(DeviceGetName);
    LOAD_V2(DeviceTotalMem), LOAD(DeviceGetAttribute), LOAD(DevicePrimaryCtxRetain), LOAD(CtxSetCurrent);
    LOAD_V2(MemAlloc), LOAD_V2(MemFree), LOAD_V2(MemcpyHtoDAsync), LOAD_V2(MemcpyDtoHAsync), LOAD_V2(MemcpyDtoDAsync);
    LOAD(MemsetD8Async), LOAD(MemsetD16Async), LOAD(MemsetD32Async), LOAD(StreamCreate), LOAD(StreamWaitEvent);
    LOAD(StreamSynchronize), LOAD(EventCreate), LOAD(EventRecord), LOAD(EventQuery), LOAD(EventElapsedTime);
    LOAD_V2(EventDestroy), LOAD(ModuleLoadData), LOAD(ModuleGetFunction), LOAD(LaunchKernel), LOAD(GetErrorName);
#undef LOAD
#undef LOAD_V2
    if (!library.complete()) {
        found.why = path + " lacks functions of CUDA's driver API";
        return found;
    }
    if (int32_t status = a->Init(0)) {
        found.why = path + ": cuInit gave error " + std::to_string(status);
        return found;
    }
    found.api = a;
    return found;
}
const Loaded& loaded() {
    static const Loaded once = open();
    return once;
}

struct Compiler {
    int32_t (*Version)(int32_t*, int32_t*) = nullptr;
    int32_t (*CreateProgram)(Nvrtc*, const char*, const char*, int32_t, const char* const*, const char* const*);
    int32_t (*CompileProgram)(Nvrtc, int32_t, const char* const*);
    int32_t (*GetProgramLogSize)(Nvrtc, size_t*);
    int32_t (*GetProgramLog)(Nvrtc, char*);
    int32_t (*GetCUBINSize)(Nvrtc, size_t*);
    int32_t (*GetCUBIN)(Nvrtc, char*);
    int32_t (*GetPTXSize)(Nvrtc, size_t*);
    int32_t (*GetPTX)(Nvrtc, char*);
    int32_t (*DestroyProgram)(Nvrtc*);
    std::string why;
};

Compiler open_compiler() {
    std::vector<std::string> paths;
    if (std::string named = environment("FLAMBEAU_NVRTC"); !named.empty()) {
        paths = {named};
    } else {
        if (python_prefix) {
            for (const char* where : {"cuda_nvrtc/lib/libnvrtc.so.1*", "cu*/lib/libnvrtc.so.1*"}) {
                std::string pattern = python_prefix() + "/lib/python3*/site-packages/nvidia/" + where;
                glob_t found;
                if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
                    for (size_t i = 0; i < found.gl_pathc; i++) paths.emplace_back(found.gl_pathv[i]);
                }
                globfree(&found);
            }
        }
        for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) paths.emplace_back(name);
    }
    Compiler c;
    for (const std::string& path : paths) {
        Library library(path);
        if (!library.error().empty()) {
            c.why += library.error() + "\n";
            continue;
        }
#define LOAD(name) library.find("nvrtc" #name, c.name)
        LOAD(Version), LOAD(CreateProgram), LOAD(CompileProgram), LOAD(GetProgramLogSize), LOAD(GetProgramLog);
        LOAD(GetCUBINSize), LOAD(GetCUBIN), LOAD(GetPTXSize), LOAD(GetPTX), LOAD(DestroyProgram);
#undef LOAD
        if (library.complete()) return c;
        c.why += path + " lacks functions of NVRTC\n";
    }
    c.Version = nullptr;
    return c;
}
const Compiler& compiler() {
    static const Compiler once = open_compiler();
    return once;
}

}  // namespace

const Api* api() { return loaded().api; }
const std::string& why() { return loaded().why; }

void check(int32_t status, const char* call) {
    if (status == 0) return;
    const char* name = nullptr;
    if (api()) api()->GetErrorName(status, &name);
    fail(status == out_of_memory ? ErrorKind::Memory : ErrorKind::State, "the CUDA device failed in cu", call, ": ",
         name ? name : "error", " (", status, ")");
}

std::string compiler_version() {
    int32_t major = 0, minor = 0;
    if (!compiler().Version || compiler().Version(&major, &minor) != 0) return "";
    return std::to_string(major) + "." + std::to_string(minor);
}

std::string compile(const std::string& source, const std::string& architecture, std::string& log) {
    const Compiler& c = compiler();
    if (!c.Version) {
        log = "there is no NVRTC; pip install flambeau[cuda] brings it\n" + c.why;
        return "";
    }
    Nvrtc program = nullptr;
    if (int32_t status = c.CreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr)) {
        log = "nvrtcCreateProgram gave error " + std::to_string(status);
        return "";
    }
    std::string target = "--gpu-architecture=" + architecture;
    // Products and sums are rounded separately, as on the CPU.
    const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
    int32_t status = c.CompileProgram(program, 3, options);
    size_t size = 0;
    c.GetProgramLogSize(program, &size);
    log.assign(size, '\0');
    if (size) c.GetProgramLog(program, log.data());
    log.resize(std::char_traits<char>::length(log.c_str()));
    std::string made;
    if (status == 0) {
        bool machine = architecture.starts_with("sm_");
        (machine ? c.GetCUBINSize : c.GetPTXSize)(program, &size);
        made.assign(size, '\0');
        if (size) (machine ? c.GetCUBIN : c.GetPTX)(program, made.data());
    } else if (log.empty()) {
        log = "NVRTC gave error " + std::to_string(status);
    }
    c.DestroyProgram(&program);
    return made;
}

}  // namespace fb::gpu::cuda
