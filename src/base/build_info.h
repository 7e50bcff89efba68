// What this binary is. Filled in when the build is configured.
#pragma once

#include <string_view>

namespace kpt {

struct BuildInfo {
  std::string_view version;        // "0.5.0"
  std::string_view commit;         // "1a2b3c4d5e6f", "-dirty" appended when files were changed, or "unknown"
  std::string_view compiler;       // "GNU 12.2.0"
  std::string_view build_type;     // "Release"
  std::string_view architecture;   // "aarch64"
  std::string_view sanitizer;      // "none", "address" or "thread"
  std::string_view torch_version;  // of the engine module that was built with it: "2.15.0", or "" without one
  std::string_view torch_dir;      // where that libtorch was: the default for option torch.dir, or ""
};

const BuildInfo& build_info();

}  // namespace kpt
