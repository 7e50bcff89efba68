#include "config/automatic.h"

#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "config/user_folders.h"

namespace kpt {

void apply_automatic(Config& config, const SystemFiles& files, const Environment& environment) {
  // A machine may have more cores than the option's range allows threads.
  const std::int64_t most = get_row(options::kThreadsCount.id).domain.most;
  const std::int64_t count = std::min<std::int64_t>(default_thread_count(files, environment), most);
  config.assign(options::kThreadsCount.id, count, {Origin::Kind::kAutomatic, ""});
}

int thread_count(const Config& config, const SystemFiles& files, const Environment& environment) {
  const std::int64_t count = config.get(options::kThreadsCount);
  return count == 0 ? default_thread_count(files, environment) : static_cast<int>(count);
}

std::filesystem::path cache_folder(const Config& config, const Environment& environment) {
  const std::string chosen = config.get(options::kCacheDir);
  if (!chosen.empty()) return expand_home(chosen, environment);
  const auto folder = find_user_folder(environment, "XDG_CACHE_HOME", ".cache");
  return folder ? *folder / "kpt" : std::filesystem::path();
}

std::filesystem::path torch_folder(const Config& config, const Environment& environment) {
  return expand_home(config.get(options::kTorchDir), environment);
}

void apply_logging(const Config& config) {
  log::configure(config.get(options::kLogLevel), config.get(options::kLogFormat));
}

void apply_library_logging(const Config& config) {
  const bool asked = config.origin(options::kLogLevel).kind != Origin::Kind::kDefault ||
                     config.origin(options::kLogFormat).kind != Origin::Kind::kDefault;
  log::configure_library(asked ? config.get(options::kLogLevel) : log::Level::kOff, config.get(options::kLogFormat));
}

std::vector<std::string> describe_unknown_variables(const Environment& environment) {
  std::vector<std::string> known;
  for (const EnvironmentVariable& row : environment_table()) {
    if (row.owner == "kpt") known.emplace_back(row.name);
  }
  std::vector<std::string> sentences;
  for (const std::string& name : environment.unknown_names()) {
    const auto nearest = find_nearest(name, known);
    sentences.push_back(fmt::format("the environment variable {} is read by nobody{}", printable(name, 100),
                                    nearest ? fmt::format("; did you mean {}?", *nearest) : ""));
  }
  return sentences;
}

void log_unknown_variables(const Environment& environment) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  for (const std::string& sentence : describe_unknown_variables(environment)) {
    if (told.insert(sentence).second) log::warn(sentence);
  }
}

}  // namespace kpt
