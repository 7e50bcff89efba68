#include "backends/cpu/memory_limit.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

// cgroup v1 has no word for "no limit"; it shows the largest page-aligned number instead.
constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 62U;

struct GroupPaths {
  std::string v1;  // of the memory controller; "" and "/" both mean the root
  std::string v2;
};

// Lines are "hierarchy:controllers:path". A process outside its container's view gets a path with "..": only the root
// of what we can see is left to ask then.
GroupPaths read_groups(const SystemFiles& files) {
  GroupPaths groups;
  const auto text = files.read("/proc/self/cgroup");
  if (!text.ok()) return groups;
  for (const std::string_view line : split(*text, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    const std::string_view path = line.substr(second + 1);
    if (!path.starts_with('/') || path.find("..") != std::string_view::npos) continue;
    if (controllers.empty()) groups.v2 = path;
    if (std::ranges::find(controllers, "memory") != controllers.end()) groups.v1 = path;
  }
  return groups;
}

void tighten(std::optional<std::uint64_t>& limit, const SystemFiles& files, const std::string& mount, std::string group,
             const std::string& file) {
  while (true) {
    const auto text = files.read(fmt::format("{}{}/{}", mount, group == "/" ? "" : group, file));
    const auto bytes = text.ok() ? parse_uint(*text) : std::nullopt;  // "max" is no number
    if (bytes && *bytes < kUnlimitedBytes) limit = std::min(limit.value_or(*bytes), *bytes);
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::optional<std::uint64_t> find_memory_limit(const SystemFiles& files) {
  const GroupPaths groups = read_groups(files);
  std::optional<std::uint64_t> limit;
  tighten(limit, files, "/sys/fs/cgroup", groups.v2, "memory.max");
  tighten(limit, files, "/sys/fs/cgroup/memory", groups.v1, "memory.limit_in_bytes");
  return limit;
}

}  // namespace kpt
