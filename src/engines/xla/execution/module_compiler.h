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

#include "base/call_threads.h"
#include "base/environment.h"
#include "base/files.h"
#include "compile_cache/compile_cache.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/pjrt/plugin_calls.h"
#include "kpt/status.h"

namespace kpt {

struct ModuleCompilerOptions {
  Environment environment;
  SystemFiles files;
  std::filesystem::path cache_folder;  // empty: nothing is kept
  std::uint64_t cache_bytes = 0;
  std::chrono::milliseconds time_limit{0};  // 0: none, and the compiler runs in this process
  // What the plugin may then take here to compile a program, and always to load, serialize or describe one, which has
  // time_limit where that is longer; 0: as long as it likes.
  std::chrono::milliseconds call_limit{0};
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
  std::string bytes = {};  // the same, serialized, where that was made on the way
};

// What must be alike where a stored program is used, beside the kind of device. Flags of the environment are the
// business of whoever stores it.
struct CompileConditions {
  std::string plugin;  // Plugin::release()
  std::string platform;
  std::string platform_version;
  std::string host;     // of the CPU: a hash of the processor's features
  std::string options;  // a hash of the encoded ones
};
CompileConditions find_conditions(const pjrt::Client& client, const ModuleCompilerOptions& options);

// Thread safe. The key of an entry holds all that a program depends on: module, options, plugin (interface version, its
// own attributes, size and time of its file), platform and its version, kind of device, and for the CPU the processor's
// features. An entry that the plugin refuses is replaced; a cache that cannot be used is a warning in the log.
class ModuleCompiler {
 public:
  ModuleCompiler(std::shared_ptr<const pjrt::Client> client, ModuleCompilerOptions options);

  // Fails with kCompilation, kCompilationTimeout and kDeadlineExceeded (with a limit: compiling, and loading what was
  // compiled), with kDeviceNotAvailable while the plugin has not come back from what passed a limit, and as the client
  // does.
  Result<CompiledModule> compile(const std::string& module_text) const;

  // The same with its bytes. Fails also when the plugin cannot serialize a program, as it says why.
  Result<CompiledModule> compile_serialized(const std::string& module_text) const;

  // What another process compiled for such a device, without knowing which of them it will be. Fails as the plugin does
  // when it refuses the bytes.
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> load(std::string_view executable) const;

  // What the plugin tells of a program of its client's, within the limit. Fails as the program does, and as compile()
  // does for a plugin that does not answer.
  Result<pjrt::ProgramMemory> memory(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const;
  Result<pjrt::ProgramCosts> costs(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const;

  const pjrt::Client& client() const { return *client_; }
  const std::shared_ptr<const pjrt::Client>& shared_client() const { return client_; }

 private:
  CacheKey make_key(const std::string& module_text) const;
  std::optional<std::string> find_cached(const CacheKey& key) const;
  void keep(const CacheKey& key, const std::string& bytes) const;
  Result<std::string> compile_in_child(const std::string& module_text) const;
  // Within the limit, where there is one; `late` is what is said beyond it. `work` owns what it uses.
  template <typename T, typename Late>
  Result<T> ask_within(std::chrono::milliseconds limit, const Late& late, std::function<Result<T>()> work) const;
  // The same beside compiling, with no_answer().
  template <typename T>
  Result<T> ask(std::string_view what, std::function<Result<T>()> work) const;
  Status check_answers() const;
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> compile_here(const std::string& module_text) const;
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> deserialize(std::string bytes, std::string options) const;
  Result<std::string> serialize(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const;
  std::string own_options() const { return options_.compile_elsewhere ? compile_options_ : std::string(); }

  std::shared_ptr<const pjrt::Client> client_;
  ModuleCompilerOptions options_;
  std::string compile_options_;  // encoded
  std::string host_features_;
  mutable std::optional<CompileCache> cache_;  // itself thread safe
  mutable CallThreads threads_;
};

}  // namespace kpt
