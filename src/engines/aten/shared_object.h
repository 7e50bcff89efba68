// Looks at a library file before the loader maps it.
#pragma once

#include <filesystem>

#include "kpt/status.h"

namespace kpt {

// The loader maps what the program headers promise without comparing it with the file's size, and a file cut short by a
// full disk or an aborted download then kills the process with SIGBUS. Ok when the file is a shared object for this
// machine and every part that would be mapped is there. Fails with kNotFound, or kVendorLibrary with a clause that
// follows the file's name ("is cut short: …").
Status check_shared_object(const std::filesystem::path& path);

}  // namespace kpt
