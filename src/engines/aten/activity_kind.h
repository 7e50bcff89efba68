// What libtorch's profiler calls what it heard.
#pragma once

#include <cctype>
#include <string_view>

#include "device/activity.h"

namespace kpt::aten {

// A call into CUDA's or HIP's runtime or driver: "cudaLaunchKernel", "cuLaunchKernelEx", "hipModuleLaunchKernel", but
// not "cumsum".
inline bool is_runtime_call(std::string_view name) {
  for (const std::string_view prefix : {"cuda", "hip", "cu"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    return !rest.empty() && std::isupper(static_cast<unsigned char>(rest[0])) != 0;
  }
  return false;
}

inline Activity::Kind activity_kind(std::string_view name, bool on_host) {
  if (on_host) return is_runtime_call(name) ? Activity::Kind::kCall : Activity::Kind::kOperator;
  const bool moves = name.starts_with("Memcpy") || name.starts_with("Memset");
  return moves ? Activity::Kind::kCopy : Activity::Kind::kKernel;
}

}  // namespace kpt::aten
