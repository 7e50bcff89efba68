// Where libtorch lies and what it says it is, without opening it: fast enough for `kpt --version`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "engines/aten/module_abi.h"
#include "kpt/status.h"

namespace kpt {

// Where to look, in this order: torch_dir and nothing else when it is set, the folder that this build was made with,
// each of site_packages.
struct TorchSearch {
  Environment environment;                           // for the folder of our modules
  std::string torch_dir;                             // option torch.dir
  std::vector<std::filesystem::path> site_packages;  // Python environments
};

struct TorchInstallation {
  std::filesystem::path dir;  // the folder with lib/libtorch_cpu.so: a wheel's torch/, an unpacked libtorch/
  std::string source;         // "option torch.dir", "build" or "python environment"
  std::string version_text;   // "2.15.0+cu132" as its files say; empty when they do not
  std::optional<aten::TorchVersion> version;  // of version_text
  std::string flavour;                        // "13.2" (CUDA), "rocm 7.1", "none" (CPU only); empty when unknown
  std::string cudnn_version;  // "9.26.0" of the wheel beside it, as its header says; empty when there is none
  bool rocm = false;          // built for AMD GPUs: it has libtorch_hip.so, or its version says so

  std::filesystem::path library(std::string_view file_name) const { return dir / "lib" / file_name; }
};

// torch_dir may also be what people have at hand: a virtual environment or its site-packages. Fails with kNotFound,
// saying where it looked.
Result<TorchInstallation> find_torch_installation(const TorchSearch& search);

// What puts the same torch into its folder again. `version` ("2.15.0") may be empty.
std::string reinstall_remedy(const std::filesystem::path& torch_dir, std::string_view version);

// "2.15.0", "2.11.0+cu130", "2.16.0a0+git1234567"; nothing unless it begins with three numbers below 256.
std::optional<aten::TorchVersion> parse_torch_version(std::string_view text);
std::string to_string(const aten::TorchVersion& version);  // "2.15.0"

// The versions that can be built against; the same bounds that cmake/kpt_torch.cmake checks.
bool is_supported(const aten::TorchVersion& version);
std::string supported_range();   // "2.11 to 2.15"
std::string newest_supported();  // "2.15"

}  // namespace kpt
