#include "backends/amd/kernel_store.h"

#include "base/log.h"

namespace kpt {
namespace {

// One family takes seconds; on a machine that does much else, minutes.
constexpr std::chrono::minutes kCompileLimit{5};

}  // namespace

KernelStore::KernelStore(const BackendContext& context)
    : environment_(context.detection.environment),
      cache_folder_(context.compile_cache_folder),
      cache_bytes_(context.compile_cache_bytes),
      options_(context.amd_compile_options) {}

Result<HipCompileCache*> KernelStore::open(std::string_view gfx_target) {
  const std::lock_guard lock(mutex_);
  if (const auto found = compilers_.find(gfx_target); found != compilers_.end()) return found->second.get();
  auto compiler = find_hip_compiler(environment_, gfx_target);
  if (!compiler.ok()) return Status(compiler.status().code(), compiler.status().message(), Vendor::kAmd);
  if (!cache_ && !cache_folder_.empty() && cache_bytes_ > 0) {
    auto cache = CompileCache::open(cache_folder_, cache_bytes_);
    if (cache.ok()) {
      cache_.emplace(std::move(cache).value());
    } else {
      log::warn("kernels are compiled anew each time: no cache", {{"reason", cache.status().message()}});
    }
  }
  const auto made = compilers_.emplace(
      gfx_target, std::make_unique<HipCompileCache>(std::move(compiler).value(), cache_ ? &*cache_ : nullptr,
                                                    kCompileLimit, options_));
  return made.first->second.get();
}

std::optional<std::string> KernelStore::find_made(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(key);
  return found == made_.end() ? std::nullopt : std::optional(found->second);
}

Result<std::string> KernelStore::get(std::string_view family, std::string_view gfx_target) {
  const Key key(family, gfx_target);
  return work_.run(key, [&]() -> Result<std::string> {
    if (auto made = find_made(key)) return *std::move(made);
    KPT_ASSIGN_OR_RETURN(HipCompileCache* const compiler, open(gfx_target));
    KPT_ASSIGN_OR_RETURN(const HipSource source, own_kernels(family));
    KPT_ASSIGN_OR_RETURN(std::string object, compiler->compile(source, gfx_target));
    const std::lock_guard lock(mutex_);
    return made_.emplace(key, std::move(object)).first->second;
  });
}

std::string KernelStore::compiler(std::string_view gfx_target) const {
  const std::lock_guard lock(mutex_);
  const auto found = compilers_.find(gfx_target);
  return found == compilers_.end() ? "" : found->second->compiler().version;
}

CompileStatistics KernelStore::statistics(std::string_view gfx_target) const {
  const std::lock_guard lock(mutex_);
  const auto found = compilers_.find(gfx_target);
  return found == compilers_.end() ? CompileStatistics{} : found->second->statistics();
}

}  // namespace kpt
