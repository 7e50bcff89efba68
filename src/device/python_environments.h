// Where Python packages lie, found without running Python.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
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

// The command that installs `packages` ("libtpu", "--force-reinstall torch==2.15.0") into that folder: by the Python
// that it belongs to where that has pip, else by one of the same version into the folder.
std::string pip_command(const std::filesystem::path& site_packages, std::string_view packages);

// The same for the first of these folders, or, where there is none, pip in words and then `otherwise`.
std::string pip_remedy(const std::vector<std::filesystem::path>& site_packages, std::string_view packages,
                       std::string_view otherwise);

}  // namespace kpt
