#include "engines/xla/pjrt/host_flags.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/files.h"
#include "base/text.h"

namespace kpt::pjrt {

bool hides_sve(std::string_view cpuinfo) {
  constexpr std::string_view kParts[] = {"0xd40", "0xd49", "0xd4f", "0xd83", "0xd84", "0xd8e"};  // Neoverse V1 to N3
  bool has_core = false;
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "Features" && std::ranges::count(split(value, ' '), std::string_view("sve")) > 0) return false;
    has_core = has_core || (name == "CPU part" && std::ranges::find(kParts, value) != std::end(kParts));
  }
  return has_core;
}

bool lacks_byte_permutes(std::string_view cpuinfo) {
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || trim(line.substr(0, colon)) != "flags") continue;
    const std::vector<std::string_view> flags = split(line.substr(colon + 1), ' ');
    const auto has = [&flags](std::string_view flag) { return std::ranges::find(flags, flag) != flags.end(); };
    return has("avx512f") && !has("avx512vbmi");
  }
  return false;
}

std::string add_host_flags(std::string_view given, std::string_view cpuinfo) {
  std::string flags(given);
  const auto add = [&flags](std::string_view name, std::string_view value) {
    if (flags.find(name) != std::string::npos) return;
    flags += fmt::format("{}--{}={}", flags.empty() ? "" : " ", name, value);
  };
  if (hides_sve(cpuinfo)) {
    add("xla_backend_extra_options", "-scalable-vectorization=off,-force-vector-width=1,-vectorize-slp=false");
  }
  if (lacks_byte_permutes(cpuinfo)) add("xla_cpu_max_isa", "AVX2");
  return flags;
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

void set_host_threads(int count) {
  ::setenv("PJRT_NPROC", std::to_string(count).c_str(), 1);  // NOLINT(concurrency-mt-unsafe): as above
}

}  // namespace kpt::pjrt
