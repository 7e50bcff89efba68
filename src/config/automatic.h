// What the options mean once the machine and the user's folders are known.
#pragma once

#include <filesystem>

#include "base/environment.h"
#include "base/files.h"
#include "config/config.h"

namespace kpt {

// Replaces defaults by what suits this machine, with origin "automatic": threads.count becomes default_thread_count().
// What a preset, file, variable or flag set stays, even where it equals the default.
void apply_automatic(Config& config, const SystemFiles& files, const Environment& environment);

// threads.count, with 0 (also one that the user wrote) replaced by default_thread_count(). At least 1.
int thread_count(const Config& config, const SystemFiles& files, const Environment& environment);

// cache.dir with "~" expanded, or $XDG_CACHE_HOME/kpt, or ~/.cache/kpt. Empty when the option is empty and there is no
// home: then caching needs cache.dir. The folder need not exist.
std::filesystem::path cache_folder(const Config& config, const Environment& environment);

// torch.dir with "~" expanded; empty when the option is.
std::filesystem::path torch_folder(const Config& config, const Environment& environment);

// Sets up base/log from log.level and log.format, for the whole process.
void apply_logging(const Config& config);

}  // namespace kpt
