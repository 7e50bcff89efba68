// The cache that the options name.
#pragma once

#include <filesystem>

#include "base/environment.h"
#include "compile_cache/compile_cache.h"
#include "config/config.h"
#include "kpt/status.h"

namespace kpt {

// `compile` in the cache folder (option cache.dir); empty when there is no cache folder.
std::filesystem::path compile_cache_folder(const Config& config, const Environment& environment);

// With the budget of cache.budget_bytes. Fails with kConfiguration when there is no cache folder, and as open() does.
Result<CompileCache> open_compile_cache(const Config& config, const Environment& environment);

}  // namespace kpt
