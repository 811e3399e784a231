// Compiled programs on disk, under a hash of everything they depend on.
#pragma once
#include <filesystem>
#include <string>

namespace fb::gpu {

// Writable only by the user: the process loads libraries from it. Raises std::filesystem errors.
std::filesystem::path cache_folder();
std::string hash(const std::string& text);
// The processor's flags: code for this machine may not run on another that shares the folder.
const std::string& processor();
// Removes the oldest files until the rest fits the limit. Files are written under other names and renamed when
// complete.
void keep_within_bounds(const std::filesystem::path& folder);
// Empty if there is none.
std::string read_cached(const std::string& name);
void write_cached(const std::string& name, const std::string& bytes);

}  // namespace fb::gpu
