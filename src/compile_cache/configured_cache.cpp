#include "compile_cache/configured_cache.h"

#include "config/automatic.h"
#include "config/options.h"

namespace kpt {

std::filesystem::path compile_cache_folder(const Config& config, const Environment& environment) {
  const std::filesystem::path folder = cache_folder(config, environment);
  return folder.empty() ? folder : folder / "compile";
}

Result<CompileCache> open_compile_cache(const Config& config, const Environment& environment) {
  const std::filesystem::path folder = compile_cache_folder(config, environment);
  if (folder.empty()) {
    return Status(StatusCode::kConfiguration,
                  "there is no cache folder: neither HOME nor XDG_CACHE_HOME is set; set the option cache.dir");
  }
  return CompileCache::open(folder, static_cast<std::uint64_t>(config.get(options::kCacheBudgetBytes)));
}

}  // namespace kpt
