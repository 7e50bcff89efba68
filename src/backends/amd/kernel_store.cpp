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
      cache_bytes_(context.compile_cache_bytes) {}

Status KernelStore::open(std::string_view gfx_target) {
  if (compilers_.contains(gfx_target)) return {};
  auto compiler = find_hip_compiler(environment_, gfx_target);
  if (!compiler.ok()) return {compiler.status().code(), compiler.status().message(), Vendor::kAmd};
  if (!cache_ && !cache_folder_.empty() && cache_bytes_ > 0) {
    auto cache = CompileCache::open(cache_folder_, cache_bytes_);
    if (cache.ok()) {
      cache_.emplace(std::move(cache).value());
    } else {
      log::warn("kernels are compiled anew each time: no cache", {{"reason", cache.status().message()}});
    }
  }
  compilers_.emplace(gfx_target, std::make_unique<HipCompileCache>(std::move(compiler).value(),
                                                                   cache_ ? &*cache_ : nullptr, kCompileLimit));
  return {};
}

Result<std::string> KernelStore::get(std::string_view family, std::string_view gfx_target) {
  HipCompileCache* compiler = nullptr;
  {
    const std::lock_guard lock(mutex_);
    KPT_RETURN_IF_ERROR(open(gfx_target));
    compiler = compilers_.find(gfx_target)->second.get();
  }
  KPT_ASSIGN_OR_RETURN(const HipSource source, own_kernels(family));
  return compiler->compile(source, gfx_target);
}

}  // namespace kpt
