#include "engines/xla/pjrt/detect_plugins.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include <fmt/format.h>

#include "base/thread_pool.h"
#include "device/hardware_json.h"
#include "device/machine_architecture.h"
#include "device/probe_process.h"
#include "engines/xla/pjrt/plugin.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxParallelProbes =
    4;  // plugins are hundreds of megabytes; more at once only fight for the disk

Finding broken(std::string reason, std::string remedy) {
  return {Presence::kBroken, std::move(reason), std::move(remedy)};
}

std::string remedy_for_path(const PluginCandidate& candidate) {
  if (candidate.source == "environment") return "correct PJRT_NAMES_AND_LIBRARY_PATHS or TPU_LIBRARY_PATH";
  if (candidate.source == "config") return "correct the option pjrt.plugins";
  return "reinstall the Python package that the plugin belongs to";
}

// What can be said without loading the library.
std::optional<Finding> find_file_fault(const PluginCandidate& candidate, const std::string& host) {
  if (!candidate.fault.empty()) return broken(candidate.fault, remedy_for_path(candidate));
  const auto architecture = read_elf_architecture(candidate.path);
  if (!architecture.ok()) return broken(architecture.status().message(), remedy_for_path(candidate));
  if (!host.empty() && *architecture != host) {
    return broken(fmt::format("the library is for {}, but this host is {}", *architecture, host),
                  fmt::format("install the plugin's build for {}", host));
  }
  return std::nullopt;
}

constexpr const char* kAnotherRelease = "install another release of the plugin, or remove it from the search";

PjrtPlugin ask(const PluginCandidate& candidate, const std::string& host, const PluginProbe& probe) {
  PjrtPlugin plugin;
  if (auto fault = find_file_fault(candidate, host)) {
    plugin.finding = std::move(*fault);
  } else if (const auto text = probe(candidate.path.string()); !text.ok()) {
    plugin.finding = explain_probe_failure(text.status(), kAnotherRelease);
  } else if (auto answer = parse_report<PjrtPlugin>(*text, "the probe for pjrt"); !answer.ok()) {
    plugin.finding = explain_probe_failure(answer.status(), kAnotherRelease);
  } else {
    plugin = std::move(*answer);
  }
  // The search knows these better than the child.
  plugin.name = candidate.name;
  plugin.path = candidate.path.string();
  plugin.source = candidate.source;
  if (plugin.finding.presence == Presence::kPresent) plugin.finding.reason = candidate.note;
  return plugin;
}

}  // namespace

std::vector<PjrtPlugin> detect_plugins(const DetectionContext& context, const PluginProbe& probe) {
  return ask_plugins(context, find_plugins(context), probe);
}

std::vector<PjrtPlugin> ask_plugins(const DetectionContext& context, const std::vector<PluginCandidate>& candidates,
                                    const PluginProbe& probe) {
  std::vector<PjrtPlugin> plugins;
  if (candidates.empty()) return plugins;
  const std::string host = find_host_architecture(context.files);
  ThreadPool pool(static_cast<int>(std::min(candidates.size(), kMaxParallelProbes)));
  std::vector<std::future<PjrtPlugin>> answers;
  answers.reserve(candidates.size());
  for (const PluginCandidate& candidate : candidates) {
    answers.push_back(pool.submit([&candidate, &host, &probe] { return ask(candidate, host, probe); }));
  }
  plugins.reserve(answers.size());
  for (auto& answer : answers) plugins.push_back(answer.get());
  return plugins;
}

std::optional<PjrtPlugin> detect_plugin(const DetectionContext& context, std::string_view name,
                                        const PluginProbe& probe) {
  const std::vector<PluginCandidate> candidates = find_plugins(context);
  const auto found = std::ranges::find(candidates, name, &PluginCandidate::name);
  if (found == candidates.end()) return std::nullopt;
  return ask(*found, find_host_architecture(context.files), probe);
}

PluginProbe make_plugin_probe(const DetectionContext& context) {
  return [options = context.probe_options()](const std::string& path) -> Result<std::string> {
    if (!pjrt::Plugin::is_open(path)) return run_probe(options, {"pjrt", path});
    KPT_ASSIGN_OR_RETURN(const auto plugin, pjrt::Plugin::open(path, path));
    PjrtPlugin report;
    report.finding.presence = Presence::kPresent;
    report.api_major = plugin->api_major();
    report.api_minor = plugin->api_minor();
    return dump_json(nlohmann::ordered_json(report));
  };
}

std::vector<PjrtPlugin> detect_plugins(const DetectionContext& context) {
  const ProbeOptions options = context.probe_options();
  return detect_plugins(context, [&options](const std::string& path) { return run_probe(options, {"pjrt", path}); });
}

}  // namespace kpt
