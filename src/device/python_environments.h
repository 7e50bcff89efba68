// Where Python packages lie, found without running Python.
#pragma once

#include <filesystem>
#include <vector>

#include "base/environment.h"

namespace kpt {

// The site-packages folders to search for libtpu and PJRT plugins, in this order, each once:
//   1. the folder that holds `torch_dir` (…/site-packages/torch), so that plugins match the libtorch in use
//   2. $VIRTUAL_ENV/{lib,lib64}/python3.*/site-packages, newest Python first
//   3. the same below $CONDA_PREFIX
// Only folders that exist are returned. `torch_dir` may be empty.
std::vector<std::filesystem::path> find_site_packages(const Environment& environment,
                                                      const std::filesystem::path& torch_dir);

}  // namespace kpt
