#include "engines/xla/execution/module_compiler.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
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
  return client_->deserialize(executable, compile_options_);
}

Result<CompiledModule> ModuleCompiler::compile(const std::string& module_text) const {
  const CacheKey key = make_key(module_text);
  if (const auto bytes = find_cached(key)) {
    auto loaded = options_.compile_elsewhere ? load(*bytes) : client_->deserialize(*bytes);
    if (loaded.ok()) return CompiledModule{std::move(*loaded), ModuleSource::kCache};
    log::warn("a program of the compile cache is compiled anew", {{"reason", loaded.status().message()}});
  }
  if (options_.time_limit.count() > 0) {
    KPT_ASSIGN_OR_RETURN(const std::string bytes, compile_in_child(module_text));
    KPT_ASSIGN_OR_RETURN(auto loaded, options_.compile_elsewhere ? load(bytes) : client_->deserialize(bytes));
    keep(key, bytes);
    return CompiledModule{std::move(loaded), ModuleSource::kCompiledInChild};
  }
  KPT_ASSIGN_OR_RETURN(auto compiled, client_->compile(module_text, compile_options_));
  if (cache_) {
    const auto bytes = compiled->serialize();
    if (bytes.ok()) keep(key, *bytes);
    if (!bytes.ok()) log::info("the program cannot be kept", {{"reason", bytes.status().message()}});
  }
  return CompiledModule{std::move(compiled), ModuleSource::kCompiledHere};
}

}  // namespace kpt
