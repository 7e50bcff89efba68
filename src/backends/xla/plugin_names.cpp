#include "backends/xla/plugin_names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"

namespace kpt {

std::string plugin_kind(std::string_view plugin) {
  constexpr std::array<std::string_view, 3> kKinds = {"cpu", "cuda", "rocm"};
  const std::string lower = to_lower(plugin);
  const auto kind = std::ranges::find_if(kKinds, [&](std::string_view word) {
    return lower == word || lower.starts_with("xla_" + std::string(word)) ||
           lower.starts_with("pjrt_" + std::string(word));
  });
  return std::string(kind == kKinds.end() ? plugin : *kind);
}

std::vector<std::string> name_xla_devices(const std::vector<PjrtPlugin>& plugins) {
  std::vector<std::string> names(plugins.size());
  const auto is_taken = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  for (const bool usable : {true, false}) {
    for (std::size_t i = 0; i < plugins.size(); ++i) {
      if ((plugins[i].finding.presence == Presence::kPresent) != usable) continue;
      const std::string name = "xla:" + plugin_kind(plugins[i].name);
      names[i] = is_taken(name) ? "xla:" + plugins[i].name : name;
    }
  }
  return names;
}

}  // namespace kpt
