// Detection as the user's configuration wants it.
#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/files.h"
#include "config/config.h"
#include "device/backend_context.h"
#include "device/detection_context.h"

namespace kpt {

// The configuration of a library call: the user's file and variables. Logging follows it (apply_library_logging()).
Result<Config> load_library_config(const Environment& environment);

// The context from options probe.timeout_ms, pjrt.plugins and torch.dir.
DetectionContext make_detection_context(const Config& config, const Environment& environment, SystemFiles files);

// Option amd.engine.
AmdEngine amd_engine(const Config& config);

// Option tpu.topology; empty: auto.
std::string tpu_topology(const Config& config);

// Option probe.backends: may this vendor's stack be opened?
bool may_probe(const Config& config, std::string_view backend);

}  // namespace kpt
