// Our kernels as code objects for one gfx target, by family: from the cache between processes, else compiled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/amd/hip_compiler.h"
#include "base/shared_work.h"
#include "compile_cache/compile_cache.h"
#include "device/backend_context.h"
#include "kpt/status.h"

namespace kpt {

// Gives the code object of a family of kernels for a gfx target. Thread safe.
using KernelSource = std::function<Result<std::string>(std::string_view family, std::string_view gfx_target)>;

// By the compiler that find_hip_compiler() finds, looked for when first needed. Fails as it and compile_hip() do.
class KernelStore {
 public:
  explicit KernelStore(const BackendContext& context);
  // Each is compiled or taken from the cache once, also when several threads ask; families of one target at once.
  Result<std::string> get(std::string_view family, std::string_view gfx_target);
  // Whether there is a compiler for the target: fails as get() would.
  Status find_compiler(std::string_view gfx_target) { return open(gfx_target).status(); }
  // The compiler's version; empty before it was needed.
  std::string compiler(std::string_view gfx_target) const;
  CompileStatistics statistics(std::string_view gfx_target) const;

 private:
  using Key = std::pair<std::string, std::string>;  // family, target

  Result<HipCompileCache*> open(std::string_view gfx_target);
  std::optional<std::string> find_made(const Key& key) const;

  Environment environment_;
  std::filesystem::path cache_folder_;
  std::uint64_t cache_bytes_;
  std::vector<std::string> options_;  // of the compiler
  mutable std::mutex mutex_;
  std::optional<CompileCache> cache_;
  std::map<std::string, std::unique_ptr<HipCompileCache>, std::less<>> compilers_;  // by target
  std::map<Key, std::string> made_;
  SharedWork<Key, std::string> work_;
};

}  // namespace kpt
