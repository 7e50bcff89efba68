// The PJRT plugins of this machine: found by the order of plugin_search.h, each asked in a child process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/detection_context.h"
#include "device/hardware.h"
#include "engines/xla/pjrt/plugin_search.h"
#include "kpt/status.h"

namespace kpt {

// What `kpt-probe pjrt PATH` printed, or why it printed nothing. Called from several threads at once.
using PluginProbe = std::function<Result<std::string>(const std::string& path)>;

// All plugins in the search order, at most four asked at a time, each with the context's time limit. A path that does
// not exist, a library for another processor, a crash, a hang and an unsupported version all become the plugin's
// Finding (kBroken). `finding.reason` of a present plugin says which other path for its name was passed over.
std::vector<PjrtPlugin> detect_plugins(const DetectionContext& context);

// The same with another way of asking.
std::vector<PjrtPlugin> detect_plugins(const DetectionContext& context, const PluginProbe& probe);

// The same of those alone that are given.
std::vector<PjrtPlugin> ask_plugins(const DetectionContext& context, const std::vector<PluginCandidate>& candidates,
                                    const PluginProbe& probe);

// The one of that name alone; nothing when the search finds none.
std::optional<PjrtPlugin> detect_plugin(const DetectionContext& context, std::string_view name,
                                        const PluginProbe& probe);

// For those who will open plugins: a child process as above, but one that this process has open has answered already.
PluginProbe make_plugin_probe(const DetectionContext& context);

}  // namespace kpt
