// Programs as shared libraries made by the system's C++ compiler, kept on disk under a hash of everything they depend
// on: source, compiler, options and processor.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend/gpu/cache.h"
#include "backend/gpu/sim/sim.h"

extern char** environ;

namespace fb::gpu {
namespace {

namespace fs = std::filesystem;
constexpr const char* options[] = {"-std=c++17",
                                   "-O3",
                                   "-shared",
                                   "-fPIC",
                                   "-march=native",
                                   "-fno-math-errno",
                                   "-fno-trapping-math",
                                   "-fwrapv",
#ifdef __x86_64__
                                   "-mprefer-vector-width=512",
#endif
                                   "-x",
                                   "c++"};

std::string compiler() {
    const char* given = std::getenv("CXX");
    return given && *given ? given : "c++";
}

// Runs a program; returns its exit code and redirects its output to a file.
int run(const std::vector<std::string>& words, const fs::path& output) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return 127;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

const std::string& compiler_version() {
    static const std::string version = [] {
        fs::path output = fs::temp_directory_path() / ("flambeau-cxx-" + std::to_string(getpid()));
        std::string text = run({compiler(), "--version"}, output) == 0 ? text_of(output) : std::string();
        std::error_code ignored;
        fs::remove(output, ignored);
        return text;
    }();
    return version;
}

void* load(const fs::path& library, std::string& why) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) why = dlerror();
    return handle;
}

void* compile(const std::string& source, bool fuses, std::string& why) {
    if (compiler_version().empty()) {
        why = "there is no C++ compiler: '" + compiler() + "' does not run; install one, or name it in CXX";
        return nullptr;
    }
    std::vector<std::string> words{compiler()};
    words.insert(words.end(), std::begin(options), std::end(options));
    words.emplace_back(fuses ? "-ffp-contract=fast" : "-ffp-contract=off");
    std::string all = compiler_version() + processor();
    for (const std::string& word : words) all += word + " ";
    fs::path folder = cache_folder(), library = folder / (hash(all + source) + ".so");
    if (fs::exists(library)) {
        if (void* handle = load(library, why)) return handle;
    }
    std::string own = library.string() + "." + std::to_string(getpid());
    fs::path text = own + ".cpp", made = own + ".tmp", output = own + ".log";
    std::ofstream(text) << source;
    words.insert(words.end(), {text.string(), "-o", made.string()});
    int code = run(words, output);
    void* handle = nullptr;
    if (code == 0) {
        fs::rename(made, library);  // renamed when complete
        handle = load(library, why);
        keep_within_bounds(folder);
    } else {
        why = "the compiler failed with code " + std::to_string(code) + ":\n" + text_of(output);
    }
    for (const fs::path& path : {text, output}) fs::remove(path);
    return handle;
}

}  // namespace

void* compile_program(const std::string& source, bool fuses, std::string& why) {
    try {
        return compile(source, fuses, why);
    } catch (const fs::filesystem_error& error) {
        why = std::string("kernels cannot be kept on disk: ") + error.what();
        return nullptr;
    }
}

}  // namespace fb::gpu
