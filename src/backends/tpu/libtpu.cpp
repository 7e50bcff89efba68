#include "backends/tpu/libtpu.h"

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/text.h"
#include "device/machine_architecture.h"
#include "device/python_environments.h"
#include "engines/xla/pjrt/plugin_search.h"

namespace kpt {
namespace {

// site-packages/libtpu/libtpu.so → site-packages/libtpu-0.0.51.dist-info/METADATA. Its head has "Version: 0.0.51".
std::string find_version(const std::filesystem::path& library) {
  constexpr std::string_view kKey = "Version:";
  constexpr std::size_t kMaxMetadataBytes = 1 << 20;
  const std::filesystem::path site_packages = library.parent_path().parent_path();
  const auto names = SystemFiles().list(site_packages.string());
  for (const std::string& name : names.value_or({})) {
    const bool ours = name.starts_with("libtpu-") || name.starts_with("libtpu_nightly-");
    if (!ours || !name.ends_with(".dist-info")) continue;
    const auto text = read_text_file(site_packages / name / "METADATA", kMaxMetadataBytes);
    if (!text.ok()) continue;
    for (const std::string_view line : split(*text, '\n')) {
      if (line.starts_with(kKey)) return std::string(trim(line.substr(kKey.size())));
      if (trim(line).empty()) break;  // the description follows
    }
  }
  return {};
}

}  // namespace

Libtpu find_libtpu(const DetectionContext& context) {
  const std::vector<PluginCandidate> plugins = find_plugins(context);
  const auto found = std::ranges::find(plugins, kTpuPluginName, &PluginCandidate::name);
  Libtpu libtpu;
  if (found == plugins.end() || !found->fault.empty()) return libtpu;
  libtpu.path = found->path.string();
  libtpu.version = find_version(found->path);
  if (const auto architecture = read_elf_architecture(found->path); architecture.ok()) {
    libtpu.architecture = *architecture;
  } else {
    libtpu.problem = architecture.status().message();
  }
  return libtpu;
}

std::string libtpu_remedy(const DetectionContext& context, const Libtpu& found) {
  if (found.path.empty()) return pip_remedy(context.site_packages, "libtpu", "set TPU_LIBRARY_PATH to its libtpu.so");
  for (const std::filesystem::path& folder : context.site_packages) {
    if (folder / "libtpu" / "libtpu.so" == found.path) return pip_command(folder, "--force-reinstall libtpu");
  }
  return "correct what names it: TPU_LIBRARY_PATH, PJRT_NAMES_AND_LIBRARY_PATHS or pjrt.plugins";
}

PjrtPlugin ask_libtpu(const DetectionContext& context, const PluginProbe& probe) {
  if (auto plugin = detect_plugin(context, kTpuPluginName, probe)) return std::move(*plugin);
  PjrtPlugin none;
  none.name = kTpuPluginName;
  none.finding = {Presence::kAbsent, "libtpu is not installed", libtpu_remedy(context, {})};
  return none;
}

}  // namespace kpt
