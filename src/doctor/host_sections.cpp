// Sections about the machine itself: system, CPU, cache folder, serving limits.
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gnu/libc-version.h>

#include <filesystem>

#include <fmt/format.h>

#include "backends/cpu/detect_cpu.h"
#include "base/build_info.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "config/automatic.h"
#include "config/options.h"
#include "device/hardware_json.h"
#include "doctor/sections.h"

namespace kpt::doctor {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

std::string distribution_name(const SystemFiles& files) {
  const auto text = files.read("/etc/os-release");
  if (!text.ok()) return "unknown Linux";
  for (const std::string_view line : split(*text, '\n')) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string_view value = line.substr(kKey.size());
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return "unknown Linux";
}

Check memory_check(const CpuReport& cpu) {
  Check check{.category = "system", .name = "memory"};
  const std::uint64_t usable = cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes);
  check.details = {{"total_bytes", cpu.memory_total_bytes}, {"usable_bytes", usable}};
  check.message = cpu.memory_limit_bytes ? fmt::format("{} usable (container limit; the machine has {})",
                                                       format_bytes(usable), format_bytes(cpu.memory_total_bytes))
                                         : fmt::format("{}", format_bytes(usable));
  if (usable == 0) {
    check.state = State::kWarn;
    check.message = "the amount of memory cannot be read";
    check.recommendation = "mount /proc in this container";
  } else if (usable < 2 * kGiB) {
    check.state = State::kWarn;
    check.message += "; libtorch and a small model want 2 GiB";
    check.recommendation = "raise the memory limit of this container or machine";
  }
  return check;
}

}  // namespace

std::vector<Check> check_system(const SectionInput& input) {
  utsname name{};
  ::uname(&name);
  Check system{.category = "system", .name = "platform"};
  const std::string distribution = distribution_name(input.detection.files);
  system.message =
      fmt::format("{}, kernel {} on {}, glibc {}", distribution, name.release, name.machine, ::gnu_get_libc_version());
  system.details = {{"distribution", distribution},
                    {"kernel", name.release},
                    {"machine", name.machine},
                    {"glibc", ::gnu_get_libc_version()}};
  std::vector<Check> checks = {system, memory_check(detect_cpu(input.detection))};
  const std::vector<std::string>& unknown = input.request.environment.unknown_names();
  const std::vector<std::string> sentences = describe_unknown_variables(input.request.environment);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    checks.push_back(Check{.category = "system",
                           .name = "environment",
                           .state = State::kWarn,
                           .message = sentences[i],
                           .recommendation = fmt::format("unset {}", printable(unknown[i], 100))});
  }
  return checks;
}

std::vector<Check> check_cpu(const SectionInput& input) {
  const CpuReport cpu = detect_cpu(input.detection);
  Check processor{.category = "cpu", .name = "processor"};
  processor.message = fmt::format("{}: {}", cpu.model.empty() ? cpu.architecture : cpu.model,
                                  cpu.isa.empty() ? "no vector extension that we use" : join(cpu.isa, " "));
  if (!cpu.isa_hidden.empty()) processor.message += fmt::format("; hidden by cpu.isa: {}", join(cpu.isa_hidden, " "));
  processor.details = nlohmann::ordered_json(cpu);
  if (cpu.model.empty() && cpu.isa.empty()) {
    processor.state = State::kWarn;
    processor.message = "the processor cannot be told: /proc/cpuinfo does not say";
    processor.recommendation = "mount /proc in this container";
  }
  Check matrix{.category = "cpu", .name = "matrix units", .message = names_of(cpu.matrix_precisions)};
  matrix.present = !cpu.matrix_precisions.empty();
  if (!matrix.present) matrix.message = "none: lower precision than fp32 brings no speed here";

  Check cores{.category = "cpu", .name = "cores"};
  const int threads = thread_count(input.request.config, input.request.files, input.request.environment);
  const std::string machine = cpu.logical_cpus > 0 ? fmt::format("{} of {} usable", cpu.usable_cpus, cpu.logical_cpus)
                                                   : fmt::format("{} usable", cpu.usable_cpus);
  const std::string nodes =
      cpu.numa_nodes > 0 ? fmt::format(", {} NUMA node{}", cpu.numa_nodes, cpu.numa_nodes == 1 ? "" : "s") : "";
  cores.message = fmt::format("{}{}, {} thread{} ({})", machine, nodes, threads, threads == 1 ? "" : "s",
                              input.request.config.origin(options::kThreadsCount).to_string());
  cores.details = {
      {"usable", cpu.usable_cpus}, {"logical", cpu.logical_cpus}, {"numa_nodes", cpu.numa_nodes}, {"threads", threads}};
  if (threads > cpu.usable_cpus) {
    cores.state = State::kWarn;
    cores.message += ": more threads than cores, they will wait for each other";
    cores.recommendation = fmt::format("set threads.count to at most {}", cpu.usable_cpus);
  }
  std::vector<Check> checks = {processor, matrix, cores};
  for (const std::string& note : cpu.notes) {
    checks.push_back(Check{.category = "cpu", .name = "note", .message = note, .present = false});
  }
  return checks;
}

std::vector<Check> check_cache(const SectionInput& input) {
  const std::filesystem::path folder = cache_folder(input.request.config, input.request.environment);
  Check check{.category = "cache", .name = "folder"};
  check.details = {{"path", folder.string()}, {"origin", input.request.config.origin(options::kCacheDir).to_string()}};
  if (folder.empty()) {
    check.state = State::kFail;
    check.message = "no cache folder: neither HOME nor XDG_CACHE_HOME is set";
    check.recommendation = "set KPT_CACHE_DIR to a folder that this user may write";
    return {check};
  }
  const std::filesystem::path probe = folder / fmt::format(".doctor.{}", ::getpid());
  const Status written = write_file_atomically(probe, "x");
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
  if (!written.ok()) {
    check.state = State::kFail;
    check.message = fmt::format("compiled programs cannot be kept: {}", written.message());
    check.recommendation = "set KPT_CACHE_DIR to a folder that this user may write";
    return {check};
  }
  struct statvfs space{};
  ::statvfs(folder.c_str(), &space);
  const std::uint64_t free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  check.details["free_bytes"] = free_bytes;
  check.message = fmt::format("{} is writable, {} free", folder.string(), format_bytes(free_bytes));
  if (free_bytes < kGiB) {
    check.state = State::kWarn;
    check.recommendation = "free some space, or set KPT_CACHE_DIR to a larger disk";
  }
  return {check};
}

std::vector<Check> check_serving(const SectionInput& input) {
  // A server needs one descriptor per connection plus some; the soft limit can be raised to the hard one by the
  // process.
  constexpr rlim_t kWantedDescriptors = 4096;
  constexpr std::int64_t kWantedBacklog = 128;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string hard = limit.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_max);
  Check descriptors{.category = "serving", .name = "open files"};
  descriptors.message = fmt::format("limit {} (can be raised to {})", limit.rlim_cur, hard);
  descriptors.details = {{"soft", limit.rlim_cur}, {"hard", limit.rlim_max}};
  if (limit.rlim_max < kWantedDescriptors) {
    descriptors.state = State::kWarn;
    descriptors.recommendation = fmt::format(
        "raise the hard limit to {} as root: LimitNOFILE= in the service file, or /etc/security/limits.conf",
        kWantedDescriptors);
  }
  Check backlog{.category = "serving", .name = "connection backlog"};
  const auto text = input.detection.files.read("/proc/sys/net/core/somaxconn");
  const auto value = text.ok() ? parse_int(*text) : std::nullopt;
  backlog.present = value.has_value();
  backlog.message =
      value ? fmt::format("up to {} waiting connections", *value) : "net.core.somaxconn cannot be read here";
  if (value) backlog.details = {{"somaxconn", *value}};
  if (value && *value < kWantedBacklog) {
    backlog.state = State::kWarn;
    backlog.recommendation = fmt::format("sudo sysctl -w net.core.somaxconn={}", kWantedBacklog);
  }
  return {descriptors, backlog};
}

}  // namespace kpt::doctor
