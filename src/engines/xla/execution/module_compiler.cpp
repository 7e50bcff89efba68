#include "engines/xla/execution/module_compiler.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/build_info.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/timing.h"
#include "engines/xla/pjrt/compile_process.h"

namespace kpt {
namespace {

// Code for a processor holds instructions that another may lack, and cache folders travel.
std::string find_host_features(const SystemFiles& files) {
  const auto text = files.read("/proc/cpuinfo");
  if (!text.ok()) return "";
  std::vector<std::string> seen;
  for (const std::string_view line : split(*text, '\n')) {
    const std::string_view key = trim(line.substr(0, line.find(':')));
    if (line.empty() && !seen.empty()) break;  // one processor is enough
    for (const std::string_view wanted : {"flags", "Features", "model name", "CPU implementer", "CPU part"}) {
      if (key == wanted) seen.emplace_back(line);
    }
  }
  return join(seen, ";");
}

void warn_about_cache(std::string_view what, const Status& status) {
  log::warn("the compile cache cannot be used", {{"what", std::string(what)}, {"reason", status.message()}});
}

}  // namespace

CompileConditions find_conditions(const pjrt::Client& client, const ModuleCompilerOptions& options) {
  CompileConditions conditions;
  conditions.plugin = client.plugin().release();
  conditions.platform = client.platform_name();
  conditions.platform_version = client.platform_version();
  if (client.platform_name() == "cpu") conditions.host = sha256_hex(find_host_features(options.files));
  // Another build of ours may lower the graph to a module with other arguments.
  conditions.options = sha256_hex(fmt::format("{} {} {}", build_info().version, build_info().commit,
                                              pjrt::encode_compile_options(options.settings)));
  return conditions;
}

ModuleCompiler::ModuleCompiler(std::shared_ptr<const pjrt::Client> client, ModuleCompilerOptions options)
    : client_(std::move(client)),
      options_(std::move(options)),
      compile_options_(pjrt::encode_compile_options(options_.settings)) {
  if (client_->platform_name() == "cpu") host_features_ = find_host_features(options_.files);
  if (options_.cache_folder.empty() || options_.cache_bytes == 0) return;
  auto cache = CompileCache::open(options_.cache_folder, options_.cache_bytes);
  if (!cache.ok()) {
    warn_about_cache("open", cache.status());
    return;
  }
  cache_.emplace(std::move(*cache));
}

CacheKey ModuleCompiler::make_key(const std::string& module_text) const {
  CacheKey key("xla");
  key.add("module", module_text)
      .add("options", compile_options_)
      .add("plugin", client_->plugin().identity())
      .add("platform", client_->platform_name())
      .add("platform_version", client_->platform_version())
      .add("device", client_->devices().front().kind)
      .add("devices", static_cast<std::uint64_t>(client_->devices().size()))
      .add("host", host_features_)
      .add("flags", options_.environment.find("XLA_FLAGS").value_or(""))
      .add("libtpu_flags", options_.environment.find("LIBTPU_INIT_ARGS").value_or(""))
      .add("made", options_.compile_elsewhere ? "elsewhere" : "here");  // they are loaded differently
  return key;
}

std::optional<std::string> ModuleCompiler::find_cached(const CacheKey& key) const {
  if (!cache_) return std::nullopt;
  auto found = cache_->get(key);
  if (found.ok()) return std::move(*found);
  warn_about_cache("read", found.status());
  return std::nullopt;
}

void ModuleCompiler::keep(const CacheKey& key, const std::string& bytes) const {
  if (!cache_) return;
  const Status status = cache_->put(key, bytes);
  if (!status.ok()) warn_about_cache("write", status);
}

Result<std::string> ModuleCompiler::compile_in_child(const std::string& module_text) const {
  if (options_.compile_elsewhere) return options_.compile_elsewhere(module_text, compile_options_);
  pjrt::CompileRequest request;
  request.plugin_path = client_->plugin().path();
  request.plugin_name = client_->plugin().name();
  request.client_options = options_.client_options;
  request.module_text = module_text;
  request.compile_options = compile_options_;
  return pjrt::compile_in_child(request, options_.time_limit, options_.environment);
}

Result<std::shared_ptr<const pjrt::LoadedExecutable>> ModuleCompiler::load(std::string_view executable) const {
  return deserialize(std::string(executable), compile_options_);
}

// A plugin that keeps a program for itself would keep every further one, too.
Status ModuleCompiler::check_answers() const {
  if (threads_.given_up() == 0) return {};
  const pjrt::Plugin& plugin = client_->plugin();
  return {StatusCode::kDeviceNotAvailable,
          fmt::format("PJRT plugin {} does not answer: it has not come back from an earlier request; see whether the "
                      "device is there and free (kpt doctor), and start the program again",
                      plugin.name()),
          plugin.vendor()};
}

template <typename T, typename Late>
Result<T> ModuleCompiler::ask_within(std::chrono::milliseconds limit, const Late& late,
                                     std::function<Result<T>()> work) const {
  if (limit.count() == 0) return work();
  KPT_RETURN_IF_ERROR(check_answers());
  return call_within<T>(threads_, limit, late, std::move(work));
}

template <typename T>
Result<T> ModuleCompiler::ask(std::string_view what, std::function<Result<T>()> work) const {
  // A short limit for the compiler says nothing of how long a large program takes to load.
  const std::chrono::milliseconds own = options_.call_limit.count() == 0 ? pjrt::kLongestCompile : options_.call_limit;
  const bool limits = options_.time_limit.count() > 0;
  const std::chrono::milliseconds limit = limits ? std::max(options_.time_limit, own) : options_.call_limit;
  const pjrt::Plugin& plugin = client_->plugin();
  return ask_within<T>(
      limit, [&] { return pjrt::no_answer(plugin.name(), what, limit, plugin.vendor()); }, std::move(work));
}

Result<std::shared_ptr<const pjrt::LoadedExecutable>> ModuleCompiler::compile_here(
    const std::string& module_text) const {
  const auto late = [this] {
    const pjrt::Plugin& plugin = client_->plugin();
    return Status(StatusCode::kCompilationTimeout,
                  fmt::format("PJRT plugin {} has not compiled the program within {:.1f} s; see whether the device is "
                              "there and free (kpt doctor), or give it longer with pjrt.compile_timeout_ms",
                              plugin.name(), static_cast<double>(options_.call_limit.count()) / 1000.0),
                  plugin.vendor());
  };
  return ask_within<std::shared_ptr<const pjrt::LoadedExecutable>>(
      options_.call_limit, late,
      [client = client_, module_text, options = compile_options_] { return client->compile(module_text, options); });
}

Result<std::shared_ptr<const pjrt::LoadedExecutable>> ModuleCompiler::deserialize(std::string bytes,
                                                                                  std::string options) const {
  return ask<std::shared_ptr<const pjrt::LoadedExecutable>>(
      "load a program", [client = client_, bytes = std::move(bytes), options = std::move(options)] {
        return client->deserialize(bytes, options);
      });
}

Result<std::string> ModuleCompiler::serialize(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const {
  return ask<std::string>("serialize a program", [executable] { return executable->serialize(); });
}

Result<pjrt::ProgramMemory> ModuleCompiler::memory(
    const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const {
  return ask<pjrt::ProgramMemory>("tell what memory a program needs", [executable] { return executable->memory(); });
}

Result<pjrt::ProgramCosts> ModuleCompiler::costs(
    const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const {
  return ask<pjrt::ProgramCosts>("tell what a program costs", [executable] { return executable->costs(); });
}

Result<CompiledModule> ModuleCompiler::compile(const std::string& module_text) const {
  KPT_RETURN_IF_ERROR(check_answers());
  const CacheKey key = make_key(module_text);
  if (auto bytes = find_cached(key)) {
    auto loaded = deserialize(*bytes, own_options());
    if (loaded.ok()) return CompiledModule{std::move(*loaded), ModuleSource::kCache, std::move(*bytes)};
    if (threads_.given_up() > 0) return loaded.status();
    log::warn("a program of the compile cache is compiled anew", {{"reason", loaded.status().message()}});
  }
  const auto start = std::chrono::steady_clock::now();
  const auto log_compiled = [&] {
    log::info("XLA program compiled", {{"plugin", std::string(client_->plugin().name())},
                                       {"milliseconds", fmt::format("{:.1f}", milliseconds_since(start))}});
  };
  if (options_.time_limit.count() > 0) {
    KPT_ASSIGN_OR_RETURN(std::string bytes, compile_in_child(module_text));
    log_compiled();
    KPT_ASSIGN_OR_RETURN(auto loaded, deserialize(bytes, own_options()));
    keep(key, bytes);
    return CompiledModule{std::move(loaded), ModuleSource::kCompiledInChild, std::move(bytes)};
  }
  KPT_ASSIGN_OR_RETURN(auto compiled, compile_here(module_text));
  log_compiled();
  CompiledModule made{std::move(compiled), ModuleSource::kCompiledHere, ""};
  if (cache_) {
    auto bytes = serialize(made.executable);
    if (bytes.ok()) keep(key, *bytes);
    if (!bytes.ok()) log::info("the program cannot be kept", {{"reason", bytes.status().message()}});
    if (bytes.ok()) made.bytes = std::move(*bytes);
  }
  return made;
}

Result<CompiledModule> ModuleCompiler::compile_serialized(const std::string& module_text) const {
  KPT_ASSIGN_OR_RETURN(CompiledModule made, compile(module_text));
  if (!made.bytes.empty()) return made;
  auto bytes = serialize(made.executable);
  if (bytes.ok() && !bytes->empty()) {
    made.bytes = std::move(*bytes);
    return made;
  }
  const pjrt::Plugin& plugin = client_->plugin();
  return Status(bytes.ok() ? StatusCode::kVendorLibrary : bytes.status().code(),
                fmt::format("PJRT plugin {} compiled the program and cannot serialize it: {}", plugin.name(),
                            bytes.ok() ? "it gives no bytes; update the plugin" : bytes.status().message()),
                plugin.vendor());
}

}  // namespace kpt
