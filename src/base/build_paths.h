// Where the parts that are opened or started at run time lie, seen from the binary that holds this code.
//
// Build tree and install tree have the same shape:  bin/kpt  lib/libkernelpytorch.so  lib/kpt/<modules>
// libexec/kpt/<helpers>
#pragma once

#include <filesystem>

#include "base/environment.h"
#include "kpt/status.h"

namespace kpt {

// libexec/kpt/<name>, or <KPT_HELPER_DIR>/<name>. Fails with kNotFound, naming where it looked.
Result<std::filesystem::path> find_helper(const Environment& environment, const std::string& name);

// The folder lib/kpt, or KPT_MODULE_DIR. It may not exist: a build without libtorch has no modules.
std::filesystem::path module_folder(const Environment& environment);

}  // namespace kpt
