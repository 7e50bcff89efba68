// What the options mean once the machine and the user's folders are known.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

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
// The same where we are a library inside somebody's program: nothing is shown unless a preset, file or variable sets
// one of the two. Without effect after apply_logging().
void apply_library_logging(const Config& config);

// One sentence for each variable of the environment that begins with KPT_ and that nobody reads, with the nearest name.
std::vector<std::string> describe_unknown_variables(const Environment& environment);
// Logs them as warnings, each name once in a process. Call it when logging is set up.
void log_unknown_variables(const Environment& environment);

}  // namespace kpt
