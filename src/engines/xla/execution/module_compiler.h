// StableHLO text becomes a program on a client: out of the compile cache, or compiled and put there.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/files.h"
#include "compile_cache/compile_cache.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/compile_options.h"
#include "kpt/status.h"

namespace kpt {

struct ModuleCompilerOptions {
  Environment environment;
  SystemFiles files;
  std::filesystem::path cache_folder;  // empty: nothing is kept
  std::uint64_t cache_bytes = 0;
  std::chrono::milliseconds time_limit{0};         // 0: none, and the compiler runs in this process
  std::vector<pjrt::ClientOption> client_options;  // that the client was made with; a child needs the same
  pjrt::CompileSettings settings;
  // How a program is compiled under the time limit, from the module's text and the encoded options to what
  // Client::deserialize() takes; empty: kpt-pjrt-compile makes a client of its own, which a plugin whose devices belong
  // to one process cannot.
  std::function<Result<std::string>(const std::string& module_text, const std::string& compile_options)>
      compile_elsewhere;
};

// Where a program came from.
enum class ModuleSource : std::uint8_t { kCache, kCompiledHere, kCompiledInChild, kStored };

struct CompiledModule {
  std::shared_ptr<const pjrt::LoadedExecutable> executable;
  ModuleSource source = ModuleSource::kCompiledHere;
};

// Thread safe. The key of an entry holds all that a program depends on: module, options, plugin (interface version, its
// own attributes, size and time of its file), platform and its version, kind of device, and for the CPU the processor's
// features. An entry that the plugin refuses is replaced; a cache that cannot be used is a warning in the log.
class ModuleCompiler {
 public:
  ModuleCompiler(std::shared_ptr<const pjrt::Client> client, ModuleCompilerOptions options);

  // Fails with kCompilation, kCompilationTimeout (only with a time limit) and what the client gives.
  Result<CompiledModule> compile(const std::string& module_text) const;

  // What another process compiled for such a device, without knowing which of them it will be. Fails as the plugin does
  // when it refuses the bytes.
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> load(std::string_view executable) const;

  const pjrt::Client& client() const { return *client_; }
  const std::shared_ptr<const pjrt::Client>& shared_client() const { return client_; }

 private:
  CacheKey make_key(const std::string& module_text) const;
  std::optional<std::string> find_cached(const CacheKey& key) const;
  void keep(const CacheKey& key, const std::string& bytes) const;
  Result<std::string> compile_in_child(const std::string& module_text) const;

  std::shared_ptr<const pjrt::Client> client_;
  ModuleCompilerOptions options_;
  std::string compile_options_;  // encoded
  std::string host_features_;
  mutable std::optional<CompileCache> cache_;  // itself thread safe
};

}  // namespace kpt
