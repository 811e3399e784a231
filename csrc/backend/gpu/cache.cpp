#include "backend/gpu/cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace fb::gpu {

namespace fs = std::filesystem;
static constexpr uintmax_t most_bytes = uintmax_t(256) << 20;

// Two different 64-bit hashes (FNV-1a with two starts): a collision would run a wrong kernel.
std::string hash(const std::string& text) {
    uint64_t a = 14695981039346656037ull, b = 0x9e3779b97f4a7c15ull;
    for (unsigned char c : text) {
        a = (a ^ c) * 1099511628211ull;
        b = (b + c) * 0xff51afd7ed558ccdull;
        b ^= b >> 29;
    }
    char name[40];
    std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(a),
                  static_cast<unsigned long long>(b));
    return name;
}

fs::path cache_folder() {
    const char* own = std::getenv("FLAMBEAU_CACHE_DIR");
    const char* xdg = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    fs::path folder = own && *own     ? fs::path(own)
                      : xdg && *xdg   ? fs::path(xdg) / "flambeau"
                      : home && *home ? fs::path(home) / ".cache" / "flambeau"
                                      : fs::temp_directory_path() / ("flambeau-" + std::to_string(getuid()));
    folder /= "kernels";
    fs::create_directories(folder);
    struct stat info;
    if (stat(folder.c_str(), &info) != 0 || info.st_uid != getuid())
        throw fs::filesystem_error("belongs to another user", folder,
                                   std::make_error_code(std::errc::permission_denied));
    chmod(folder.c_str(), 0700);
    return folder;
}

const std::string& processor() {
    static const std::string flags = [] {
        std::ifstream file("/proc/cpuinfo");
        for (std::string line; std::getline(file, line);) {
            if (line.starts_with("flags") || line.starts_with("Features")) return line;
        }
        return std::string();
    }();
    return flags;
}

void keep_within_bounds(const fs::path& folder) {
    std::error_code ignored;
    std::vector<std::pair<fs::file_time_type, fs::path>> files;
    uintmax_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        std::string kind = entry.path().extension();
        if (kind != ".so" && kind != ".cl" && kind != ".cubin") continue;
        bytes += entry.file_size(ignored);
        files.emplace_back(entry.last_write_time(ignored), entry.path());
    }
    std::sort(files.begin(), files.end());
    for (size_t i = 0; bytes > most_bytes && i < files.size(); i++) {
        bytes -= std::min(bytes, fs::file_size(files[i].second, ignored));
        fs::remove(files[i].second, ignored);
    }
}

std::string read_cached(const std::string& name) {
    try {
        std::ifstream file(cache_folder() / name, std::ios::binary);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    } catch (const fs::filesystem_error&) {
        return "";
    }
}

void write_cached(const std::string& name, const std::string& bytes) {
    try {
        fs::path folder = cache_folder(), own = folder / (name + "." + std::to_string(getpid()) + ".tmp");
        bool whole = static_cast<bool>(
            std::ofstream(own, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size())));
        if (whole) fs::rename(own, folder / name);
        else fs::remove(own);
        keep_within_bounds(folder);
    } catch (const fs::filesystem_error&) {
        // A full disk, or no home directory: programs are recompiled next time.
    }
}

}  // namespace fb::gpu
