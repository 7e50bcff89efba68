#include "backends/cpu/memory_limit.h"

#include <algorithm>
#include <limits>
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

std::optional<std::uint64_t> read_bytes(const SystemFiles& files, const std::string& path) {
  const auto text = files.read(path);
  return text.ok() ? parse_uint(*text) : std::nullopt;  // "max" is no number
}

// A line "name value" or "name: value kB".
std::optional<std::uint64_t> read_line(const SystemFiles& files, const std::string& path, std::string_view name) {
  const auto text = files.read(path);
  if (!text.ok()) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") continue;
    const std::string_view value = trim(line.substr(name.size()));
    return parse_uint(value.substr(0, value.find(' ')));
  }
  return std::nullopt;
}

// The files of one version of control groups.
struct GroupFiles {
  std::string_view mount;
  std::string_view limit;
  std::string_view held;
  std::string_view cache;  // the line of memory.stat with what the kernel takes back first
};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};

// Calls `use` with the folder and the limit of every group from `group` to the root that has one.
template <typename Use>
void for_each_limit(const SystemFiles& files, const GroupFiles& names, std::string group, const Use& use) {
  while (true) {
    const std::string folder = fmt::format("{}{}", names.mount, group == "/" ? "" : group);
    const auto bytes = read_bytes(files, fmt::format("{}/{}", folder, names.limit));
    if (bytes && *bytes < kUnlimitedBytes) use(folder, *bytes);
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

void tighten(std::optional<std::uint64_t>& bound, std::uint64_t bytes) {
  bound = std::min(bound.value_or(bytes), bytes);
}

}  // namespace

std::optional<std::uint64_t> find_memory_limit(const SystemFiles& files) {
  const GroupPaths groups = read_groups(files);
  std::optional<std::uint64_t> limit;
  const auto use = [&](const std::string&, std::uint64_t bytes) { tighten(limit, bytes); };
  for_each_limit(files, kVersion2, groups.v2, use);
  for_each_limit(files, kVersion1, groups.v1, use);
  return limit;
}

std::optional<std::uint64_t> find_memory_left(const SystemFiles& files) {
  const auto available = read_line(files, "/proc/meminfo", "MemAvailable:");
  if (!available || *available > (std::numeric_limits<std::uint64_t>::max() >> 10U)) return std::nullopt;
  std::optional<std::uint64_t> left = *available << 10U;
  const GroupPaths groups = read_groups(files);
  const auto tighten_left = [&](const GroupFiles& names, const std::string& group) {
    for_each_limit(files, names, group, [&](const std::string& folder, std::uint64_t limit) {
      const auto held = read_bytes(files, fmt::format("{}/{}", folder, names.held));
      if (!held) return;
      const std::uint64_t cache = read_line(files, folder + "/memory.stat", names.cache).value_or(0);
      const std::uint64_t kept = *held - std::min(*held, cache);
      tighten(left, limit - std::min(limit, kept));
    });
  };
  tighten_left(kVersion2, groups.v2);
  tighten_left(kVersion1, groups.v1);
  return left;
}

}  // namespace kpt
