#include "backends/tpu/tpu_compiler.h"

#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/timing.h"
#include "device/machine_architecture.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/pjrt/compile_options.h"

namespace kpt {
namespace {

Status no_libtpu(const DetectionContext& context) {
  const bool native = find_host_architecture(context.files) == "x86_64";
  return {StatusCode::kNotFound,
          fmt::format("compiling for TPUs needs libtpu, which was not found; {}",
                      native ? libtpu_remedy(context, {})
                             : "get the x86_64 package (pip download --no-deps --only-binary=:all: --platform "
                               "manylinux_2_31_x86_64 libtpu), unpack it and set TPU_LIBRARY_PATH to its libtpu.so"),
          Vendor::kTpu};
}

std::optional<CompileCache> open_cache(const BackendContext& context) {
  if (context.compile_cache_folder.empty() || context.compile_cache_bytes == 0) return std::nullopt;
  auto cache = CompileCache::open(context.compile_cache_folder, context.compile_cache_bytes);
  if (cache.ok()) return std::move(*cache);
  log::warn("the compile cache cannot be used", {{"reason", cache.status().message()}});
  return std::nullopt;
}

std::optional<pjrt::TopologyProgram> find_cached(CompileCache& cache, const CacheKey& key) {
  const auto found = cache.get(key);
  if (!found.ok()) log::warn("the compile cache cannot be read", {{"reason", found.status().message()}});
  if (!found.ok() || !*found) return std::nullopt;
  auto program = unpack_topology_program(**found);
  if (program.ok()) return std::move(*program);
  log::warn("a program of the compile cache is compiled anew", {{"reason", program.status().message()}});
  return std::nullopt;
}

std::string describe_file(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? "" : fmt::format("{} bytes of {}", bytes, time.time_since_epoch().count());
}

pjrt::TopologyRequest make_request(const TpuTopology& topology, const Libtpu& libtpu, const std::string& module_text,
                                   const std::string& compile_options) {
  pjrt::TopologyRequest request;
  request.library = libtpu.path;
  request.topology = topology.compiler_name;
  request.chips_per_host = topology.chips_per_host;
  request.chip_config = topology.generation->chip_config;
  request.module_text = module_text;
  request.compile_options = compile_options;
  return request;
}

}  // namespace

CacheKey TpuCompiler::make_key(const pjrt::TopologyRequest& request, const Libtpu& libtpu) const {
  const Environment& environment = context_.detection.environment;
  CacheKey key("tpu");
  key.add("module", request.module_text)
      .add("options", request.compile_options)
      .add("topology", request.topology)
      .add("chips_per_host", fmt::format("{}", fmt::join(request.chips_per_host, ",")))
      .add("chip_config", request.chip_config)
      .add("libtpu", libtpu.version)
      .add("libtpu_file", describe_file(libtpu.path))
      .add("flags", environment.find("XLA_FLAGS").value_or(""))
      .add("libtpu_flags", environment.find("LIBTPU_INIT_ARGS").value_or(""));
  return key;
}

Result<Libtpu> TpuCompiler::find_usable_libtpu() const {
  Libtpu libtpu = find_libtpu(context_.detection);
  if (libtpu.path.empty()) return no_libtpu(context_.detection);
  if (!libtpu.problem.empty()) {
    return Status(
        StatusCode::kVendorLibrary,
        fmt::format("libtpu cannot be used: {}; {}", libtpu.problem, libtpu_remedy(context_.detection, libtpu)),
        Vendor::kTpu);
  }
  return libtpu;
}

Result<pjrt::TopologyProgram> TpuCompiler::compile(const TpuTopology& topology, const std::string& module_text) const {
  KPT_ASSIGN_OR_RETURN(const Libtpu libtpu, find_usable_libtpu());
  const pjrt::TopologyRequest request = make_request(topology, libtpu, module_text, pjrt::encode_compile_options({}));
  const CacheKey key = make_key(request, libtpu);
  std::optional<CompileCache> cache = open_cache(context_);
  std::optional<pjrt::TopologyProgram> kept;
  if (cache) kept = find_cached(*cache, key);
  {
    const std::lock_guard lock(mutex_);
    CompileStatistics& counts = statistics_[topology.target_name()];
    ++(kept ? counts.hits : counts.misses);
    if (!kept) ++counts.compilations;
  }
  if (kept) return std::move(*kept);
  const auto start = std::chrono::steady_clock::now();
  auto program =
      compile_in_child(topology, libtpu, request, {context_.tpu_compile_time_limit, context_.tpu_compile_memory_bytes});
  if (!program.ok()) {
    const std::lock_guard lock(mutex_);
    ++statistics_[topology.target_name()].errors;
    return program;
  }
  log::info("compiled for a TPU",
            {{"target", topology.target_name()}, {"milliseconds", fmt::format("{:.1f}", milliseconds_since(start))}});
  if (cache) {
    const Status status = cache->put(key, pack_topology_program(*program));
    if (!status.ok()) log::warn("the compile cache cannot be written", {{"reason", status.message()}});
  }
  return program;
}

Result<pjrt::TopologyProgram> TpuCompiler::compile_in_child(const TpuTopology& topology, const Libtpu& libtpu,
                                                            const pjrt::TopologyRequest& request,
                                                            const pjrt::TopologyLimits& limits) const {
  KPT_ASSIGN_OR_RETURN(
      pjrt::TopologyProgram program,
      pjrt::compile_topology_in_child(request, limits, context_.detection.environment, context_.detection.files));
  if (const std::int64_t expected = topology.chips * topology.generation->devices_per_chip;
      program.devices != expected) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("this libtpu sees {} devices in {} where {} were expected: its program would be for "
                              "another kind of device; install another release of libtpu",
                              program.devices, topology.compiler_name, expected),
                  Vendor::kTpu);
  }
  if (!libtpu.version.empty()) {
    program.figures.compiler = fmt::format("libtpu {}; {}", libtpu.version, program.figures.compiler);
  }
  return program;
}

Result<std::string> TpuCompiler::compile_beside_client(const TpuTopology& topology, const std::string& module_text,
                                                       const std::string& compile_options) const {
  KPT_ASSIGN_OR_RETURN(const Libtpu libtpu, find_usable_libtpu());
  pjrt::TopologyLimits limits{context_.compile_time_limit, context_.tpu_compile_memory_bytes};
  limits.time_option = "pjrt.compile_timeout_ms";
  limits.beside_client = true;
  KPT_ASSIGN_OR_RETURN(
      pjrt::TopologyProgram program,
      compile_in_child(topology, libtpu, make_request(topology, libtpu, module_text, compile_options), limits));
  return std::move(program.executable);
}

CompileStatistics TpuCompiler::statistics(const TpuTopology& topology) const {
  const std::lock_guard lock(mutex_);
  const auto found = statistics_.find(topology.target_name());
  return found == statistics_.end() ? CompileStatistics{} : found->second;
}

}  // namespace kpt
