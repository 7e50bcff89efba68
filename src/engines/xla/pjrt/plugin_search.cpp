#include "engines/xla/pjrt/plugin_search.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxPlugins = 64;  // a Python environment is a folder that others write to

class Collector {
 public:
  void add(std::string name, const std::filesystem::path& path, std::string_view source) {
    const auto known = std::ranges::find(candidates_, name, &PluginCandidate::name);
    if (known == candidates_.end()) {
      append({std::move(name), path, std::string(source), "", ""});
      return;
    }
    std::error_code error;
    if (known->path == path || std::filesystem::equivalent(known->path, path, error)) return;
    known->note += fmt::format("{}{} ({}) is passed over, this one comes first", known->note.empty() ? "" : "; ",
                               path.string(), source);
  }

  // "name<separator>path"; `where` names the setting.
  void add_entry(std::string_view entry, char separator, std::string_view source, std::string_view where) {
    entry = trim(entry);
    if (entry.empty()) return;
    const auto at = entry.find(separator);
    const std::string_view name = trim(entry.substr(0, at));
    const std::string_view path = at == std::string_view::npos ? std::string_view() : trim(entry.substr(at + 1));
    if (name.empty() || path.empty()) {
      append({std::string(entry), "", std::string(source), "",
              fmt::format("'{}' in {} is not of the form name{}path", entry, where, separator)});
      return;
    }
    add(std::string(name), std::filesystem::path(path), source);
  }

  std::vector<PluginCandidate> take() { return std::move(candidates_); }

 private:
  void append(PluginCandidate candidate) {
    if (candidates_.size() >= kMaxPlugins) return;
    if (candidates_.size() + 1 == kMaxPlugins) {
      candidate = {"…", "", candidate.source, "",
                   fmt::format("more than {} plugins; the rest is not looked at", kMaxPlugins - 1)};
    }
    candidates_.push_back(std::move(candidate));
  }

  std::vector<PluginCandidate> candidates_;
};

// Python's own extension modules have its version in their names.
bool is_plugin_name(const std::string& file) {
  return file.ends_with(".so") && !file.ends_with(".abi3.so") && file.find(".cpython-") == std::string::npos;
}

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// A plugin package is a folder with one library in it; further ones get the file's name so that none is hidden.
void add_packages(Collector& collector, const std::filesystem::path& folder) {
  const SystemFiles files;
  for (const std::string& package : files.list(folder.string()).value_or({})) {
    bool first = true;
    for (const std::string& file : files.list((folder / package).string()).value_or({})) {
      const std::filesystem::path path = folder / package / file;
      if (!is_plugin_name(file) || !is_file(path)) continue;
      collector.add(first ? package : fmt::format("{}/{}", package, path.stem().string()), path, "python environment");
      first = false;
    }
  }
}

}  // namespace

std::vector<PluginCandidate> find_plugins(const DetectionContext& context) {
  Collector collector;
  const std::string listed = context.environment.find("PJRT_NAMES_AND_LIBRARY_PATHS").value_or("");
  for (const std::string_view entry : split(listed, ',')) {
    collector.add_entry(entry, ':', "environment", "PJRT_NAMES_AND_LIBRARY_PATHS");
  }
  if (const auto path = context.environment.find("TPU_LIBRARY_PATH")) {
    collector.add(std::string(kTpuPluginName), *path, "environment");
  }
  for (const std::string& entry : context.pjrt_plugins) collector.add_entry(entry, '=', "config", "pjrt.plugins");
  for (const std::filesystem::path& folder : context.site_packages) {
    if (const auto libtpu = folder / "libtpu" / "libtpu.so"; is_file(libtpu)) {
      collector.add(std::string(kTpuPluginName), libtpu, "python environment");
    }
    add_packages(collector, folder / "xla_plugins");
    add_packages(collector, folder / "jax_plugins");
  }
  return collector.take();
}

}  // namespace kpt
