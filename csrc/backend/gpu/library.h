// A shared library that is opened at run time.
#pragma once
#include <dlfcn.h>

#include <string>

namespace fb::gpu {

class Library {
  public:
    explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (!handle_) error_ = dlerror();
    }
    // Why it could not be opened, or "".
    const std::string& error() const { return error_; }
    // Whether find() has found every function.
    bool complete() const { return complete_; }

    template <class F>
    void find(const std::string& name, F*& function) {
        function = reinterpret_cast<F*>(dlsym(handle_, name.c_str()));
        complete_ &= function != nullptr;
    }

  private:
    void* handle_;
    std::string error_;
    bool complete_ = true;
};

}  // namespace fb::gpu
