// Names of files and folders that stand beside `path` until what they hold is whole, and by which the next writer knows
// what a killed one left: ".NAME.<process>.<16 hexadecimal digits>.kpt.tmp".
#pragma once

#include <filesystem>
#include <string_view>

namespace kpt {

std::filesystem::path folder_of(const std::filesystem::path& path);

// Another one with every call.
std::filesystem::path draw_temporary_name(const std::filesystem::path& path);

bool is_temporary(std::string_view name);

// Takes the lock by which other processes see that the writer of this file or folder lives; the system releases it when
// the process ends, however it ends. False when it was removed in the moment before. Where the file system knows no
// locks, nobody can take one, and so nobody removes it.
bool lock_temporary(int fd);

// Removes what killed writers left in a folder: files, and folders that hold nothing but files.
void remove_stale(const std::filesystem::path& folder);

}  // namespace kpt
