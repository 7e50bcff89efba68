#include "config/automatic.h"

#include <algorithm>

#include "base/log.h"
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

}  // namespace kpt
