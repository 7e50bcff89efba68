#include "backends/cpu/detect_cpu.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "backends/cpu/cpuinfo.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/memory_limit.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "device/machine_architecture.h"

namespace kpt {
namespace {

constexpr std::size_t kCpuinfoMaxBytes = 16u << 20;
constexpr std::uint64_t kMaxListedId = 65535;  // far above any kernel's limit of CPUs or nodes

// The kernel's list form: "0-3,8,10-11". Nothing when any part is malformed.
std::optional<std::set<std::uint64_t>> parse_id_list(std::string_view text) {
  std::set<std::uint64_t> ids;
  for (const std::string_view part : split(text, ',')) {
    const auto dash = part.find('-');
    const auto first = parse_uint(trim(part.substr(0, dash)));
    const auto last = dash == std::string_view::npos ? first : parse_uint(trim(part.substr(dash + 1)));
    if (!first || !last || *first > *last || *last > kMaxListedId) return std::nullopt;
    for (std::uint64_t id = *first; id <= *last; ++id) ids.insert(id);
  }
  return ids;
}

// "48K", "32M" → bytes.
std::optional<std::uint64_t> parse_cache_size(std::string_view text) {
  unsigned shift = 0;
  if (text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (text.ends_with('G')) shift = 30;
  if (shift != 0) text.remove_suffix(1);
  const auto amount = parse_uint(text);
  if (!amount || *amount == 0 || *amount > (std::numeric_limits<std::uint64_t>::max() >> shift)) return std::nullopt;
  return *amount << shift;
}

// The value of "Key:   value" in files such as /proc/meminfo.
std::optional<std::string> find_value(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(key) && line.substr(key.size()).starts_with(':')) {
      return std::string(trim(line.substr(key.size() + 1)));
    }
  }
  return std::nullopt;
}

void read_processor(CpuReport& report, const SystemFiles& files, const std::vector<std::string>& hidden_isa) {
  const auto text = read_text_file(files.resolve("/proc/cpuinfo"), kCpuinfoMaxBytes);
  CpuInfo info;
  if (text.ok()) {
    info = parse_cpuinfo(*text);
    report.notes.insert(report.notes.end(), info.notes.begin(), info.notes.end());
  } else {
    report.notes.push_back("/proc/cpuinfo cannot be read, so the model and its instruction sets are unknown");
  }
  report.model = info.model;
  report.architecture = info.architecture.empty() ? find_host_architecture(files) : info.architecture;
  report.logical_cpus = info.processors;
  IsaSummary isa = summarize_isa(report.architecture, info.flags, hidden_isa);
  report.isa = std::move(isa.names);
  report.isa_hidden = std::move(isa.hidden);
  report.matrix_precisions = std::move(isa.matrix_precisions);
}

void read_counts(CpuReport& report, const SystemFiles& files) {
  const auto online = files.read("/sys/devices/system/cpu/online");
  const auto ids = online.ok() ? parse_id_list(*online) : std::nullopt;
  if (ids && !ids->empty()) {
    report.logical_cpus = static_cast<int>(ids->size());
  } else {
    report.notes.push_back(fmt::format("/sys/devices/system/cpu/online cannot be read; the number of CPUs is {}",
                                       report.logical_cpus > 0 ? "that of /proc/cpuinfo" : "unknown"));
  }
  report.usable_cpus = usable_cpu_count(files);
  // A recorded machine may have fewer CPUs than the one that replays it.
  if (report.logical_cpus > 0) report.usable_cpus = std::min(report.usable_cpus, report.logical_cpus);
}

// Nodes whose memory this process may use; the container's cpuset can leave out some of the machine's.
void read_numa(CpuReport& report, const SystemFiles& files) {
  constexpr std::string_view kNode = "node";
  std::set<std::uint64_t> nodes;
  if (const auto names = files.list("/sys/devices/system/node"); names.ok()) {
    for (const std::string& name : *names) {
      if (!name.starts_with(kNode)) continue;
      if (const auto id = parse_uint(std::string_view(name).substr(kNode.size()))) nodes.insert(*id);
    }
  }
  if (nodes.empty()) {
    report.notes.push_back("/sys/devices/system/node lists no node, so the number of NUMA nodes is unknown");
    return;
  }
  const std::size_t all = nodes.size();
  const auto status = files.read("/proc/self/status");
  const auto list = status.ok() ? find_value(*status, "Mems_allowed_list") : std::nullopt;
  if (const auto allowed = list ? parse_id_list(*list) : std::nullopt; allowed && !allowed->empty()) {
    std::erase_if(nodes, [&allowed](std::uint64_t id) { return !allowed->contains(id); });
  }
  report.numa_nodes = static_cast<int>(nodes.size());
  if (nodes.size() < all) {
    report.notes.push_back(
        fmt::format("{} of the machine's {} NUMA nodes are open to this process", nodes.size(), all));
  }
}

void read_caches(CpuReport& report, const SystemFiles& files) {
  const std::string root = "/sys/devices/system/cpu/cpu0/cache";
  const auto names = files.list(root);
  std::size_t unreadable = 0;
  for (const std::string& name : names.value_or({})) {
    if (!name.starts_with("index")) continue;
    const std::string folder = fmt::format("{}/{}", root, name);
    const auto level = parse_int(files.read(folder + "/level").value_or(""));
    const std::string type = files.read(folder + "/type").value_or("");
    const auto size_bytes = parse_cache_size(files.read(folder + "/size").value_or(""));
    if (!level || *level < 1 || *level > 9 || type.empty() || !size_bytes) {
      ++unreadable;
      continue;
    }
    report.caches.push_back({static_cast<int>(*level), type, *size_bytes});
  }
  if (unreadable > 0) {
    report.notes.push_back(fmt::format("{} of the caches below {} cannot be read", unreadable, root));
  } else if (report.caches.empty()) {
    report.notes.push_back(fmt::format("{} lists no cache, so cache sizes are unknown", root));
  }
}

void read_memory(CpuReport& report, const SystemFiles& files) {
  const auto text = files.read("/proc/meminfo");
  const auto total = text.ok() ? find_value(*text, "MemTotal") : std::nullopt;
  const auto parts = total ? split(*total, ' ') : std::vector<std::string_view>();
  const auto kib = parts.empty() ? std::nullopt : parse_uint(parts.front());
  if (kib && *kib <= (std::numeric_limits<std::uint64_t>::max() >> 10U)) {
    report.memory_total_bytes = *kib << 10U;
  } else {
    report.notes.push_back("/proc/meminfo does not tell the total memory");
  }
  const auto limit = find_memory_limit(files);
  const bool known = report.memory_total_bytes > 0;
  if (limit && (!known || *limit < report.memory_total_bytes)) report.memory_limit_bytes = limit;
}

}  // namespace

CpuReport detect_cpu(const DetectionContext& context) {
  CpuReport report;
  read_processor(report, context.files, context.hidden_isa);
  read_counts(report, context.files);
  read_numa(report, context.files);
  read_caches(report, context.files);
  read_memory(report, context.files);
  return report;
}

}  // namespace kpt
