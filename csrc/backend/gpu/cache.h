// Compiled programs on disk, under a hash of all that decides about them.
#pragma once
#include <filesystem>
#include <string>

namespace fb::gpu {

// Of the user, for nobody else to write: what lies there is loaded into the process. Raises std::filesystem errors.
std::filesystem::path cache_folder();
std::string hash(const std::string& text);
// The processor's flags: code for this machine is wrong on another one that shares the folder.
const std::string& processor();
// Files get names of their own first and are renamed when whole; afterwards the oldest go until the rest is in bounds.
void keep_within_bounds(const std::filesystem::path& folder);
// Empty when there is none.
std::string read_cached(const std::string& name);
void write_cached(const std::string& name, const std::string& bytes);

}  // namespace fb::gpu
