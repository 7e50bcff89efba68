#include "engines/xla/pjrt/host_flags.h"

#include <algorithm>
#include <cstdlib>

#include "base/environment.h"
#include "base/files.h"
#include "base/text.h"

namespace kpt::pjrt {

std::string add_host_flags(std::string_view given, std::string_view cpuinfo) {
  bool is_arm = false;
  bool has_sve = false;
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || trim(line.substr(0, colon)) != "Features") continue;
    is_arm = true;
    has_sve = has_sve || std::ranges::count(split(line.substr(colon + 1), ' '), std::string_view("sve")) > 0;
  }
  std::string flags(given);
  if (!is_arm || has_sve || flags.find("xla_backend_extra_options") != std::string::npos) return flags;
  if (!flags.empty()) flags += ' ';
  return flags + "--xla_backend_extra_options=-scalable-vectorization=off,-force-vector-width=1,-vectorize-slp=false";
}

void set_xla_environment(bool computes_on_cpu) {
  // NOLINTBEGIN(concurrency-mt-unsafe): threads that read the environment meanwhile are the caller's to avoid.
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
  if (!computes_on_cpu) return;
  const std::string given = Environment::from_process().find("XLA_FLAGS").value_or("");
  const std::string flags = add_host_flags(given, SystemFiles().read("/proc/cpuinfo").value_or(""));
  if (flags != given) ::setenv("XLA_FLAGS", flags.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace kpt::pjrt
