#include "kpt/model.h"

#include <fmt/format.h>

#include "api/artifact_loading.h"
#include "api/backend_list.h"
#include "api/detection.h"
#include "api/model_loading.h"
#include "base/log.h"
#include "base/text.h"
#include "compile_cache/configured_cache.h"
#include "config/automatic.h"
#include "config/config.h"
#include "config/options.h"
#include "runtime/loaded_model.h"

namespace kpt {
namespace {

Result<std::shared_ptr<const detail::LoadedModel>> load_artifact(const std::filesystem::path& path,
                                                                 const LoadOptions& options, PlacedDevice placed,
                                                                 const detail::BatchPolicy& batches) {
  if (!options.weights.empty() || !options.model_name.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is an optimized model: it holds one model, and its weights cannot be replaced; give "
                              "them to `kpt optimize`",
                              path.filename().string()));
  }
  const Target& target = placed.device->target();
  KPT_ASSIGN_OR_RETURN(OpenedArtifact artifact, open_artifact(path, target.name()));
  KPT_RETURN_IF_ERROR(check_needs(path, artifact.needs, target));
  Backend& backend = *placed.backend;
  KPT_ASSIGN_OR_RETURN(auto loaded, detail::LoadedModel::load(std::move(artifact.model), backend, *placed.device,
                                                              std::move(placed.backend), batches, artifact.program));
  if (options.self_check) KPT_RETURN_IF_ERROR(check_samples(path, artifact, loaded));
  return loaded;
}

Result<std::shared_ptr<const detail::LoadedModel>> load_exported(const std::filesystem::path& path,
                                                                 const LoadOptions& options, PlacedDevice placed,
                                                                 const detail::BatchPolicy& batches) {
  ImportOptions import_options;
  import_options.model_name = options.model_name;
  import_options.weights = options.weights;
  KPT_ASSIGN_OR_RETURN(ImportedModel imported, import_model(path, import_options));
  Backend& backend = *placed.backend;
  return detail::LoadedModel::load(std::move(imported), backend, *placed.device, std::move(placed.backend), batches);
}

std::string xla_precision(TpuPrecision precision) {
  switch (precision) {
    case TpuPrecision::kFloat32: return "HIGHEST";
    case TpuPrecision::kBFloat16x3: return "HIGH";
    case TpuPrecision::kBFloat16: return "DEFAULT";
  }
  return "HIGHEST";
}

std::string amd_architecture(const Config& config) {
  const std::string wanted = to_lower(config.get(options::kAmdArchitecture));
  return wanted == "auto" ? "" : wanted;
}

Fp8Scaling fp8_scaling(NvidiaFp8Scaling scaling) {
  switch (scaling) {
    case NvidiaFp8Scaling::kRow: return Fp8Scaling::kRow;
    case NvidiaFp8Scaling::kTensor: return Fp8Scaling::kTensor;
    case NvidiaFp8Scaling::kDelayed: return Fp8Scaling::kDelayed;
  }
  return Fp8Scaling::kRow;
}

Fp8Inputs fp8_inputs(NvidiaFp8Activations inputs) {
  switch (inputs) {
    case NvidiaFp8Activations::kE4M3: return Fp8Inputs::kE4M3;
    case NvidiaFp8Activations::kE5M2: return Fp8Inputs::kE5M2;
    case NvidiaFp8Activations::kAuto: return Fp8Inputs::kByData;
  }
  return Fp8Inputs::kE4M3;
}

NvidiaPolicy nvidia_policy(const Config& config) {
  NvidiaPolicy policy;
  policy.fp8_inputs = fp8_inputs(config.get(options::kNvidiaFp8Activations));
  policy.fp8_scaling = fp8_scaling(config.get(options::kNvidiaFp8Scaling));
  policy.fp8_history = static_cast<std::int32_t>(config.get(options::kNvidiaFp8History));
  policy.tf32 = config.get(options::kNvidiaTf32);
  const NvidiaTune tune = config.get(options::kNvidiaTune);
  policy.tune_products = tune == NvidiaTune::kProducts || tune == NvidiaTune::kAll;
  policy.tune_convolutions = tune == NvidiaTune::kConvolutions || tune == NvidiaTune::kAll;
  policy.nvtx = config.get(options::kNvidiaNvtx);
  return policy;
}

}  // namespace

Result<BackendContext> make_backend_context(const Config& config, const Environment& environment) {
  BackendContext context;
  SystemFiles files(environment.find("KPT_SYSTEM_ROOT").value_or("/"));
  context.threads = thread_count(config, files, environment);
  context.torch_dir = torch_folder(config, environment);
  context.compile_cache_folder = compile_cache_folder(config, environment);
  context.compile_cache_bytes = static_cast<std::uint64_t>(config.get(options::kCacheBudgetBytes));
  context.compile_time_limit = std::chrono::milliseconds(config.get(options::kPjrtCompileTimeoutMs));
  context.pjrt_devices = static_cast<std::size_t>(config.get(options::kPjrtDevices));
  context.pjrt_split_weights = config.get(options::kPjrtSharding) == PjrtSharding::kWeights;
  context.tpu_compile_time_limit = std::chrono::milliseconds(config.get(options::kTpuCompileTimeoutMs));
  context.tpu_compile_memory_bytes = static_cast<std::uint64_t>(config.get(options::kTpuCompileMemoryBytes));
  context.tpu_memory_percent = static_cast<int>(config.get(options::kTpuMemoryPercent));
  context.tpu_precision = xla_precision(config.get(options::kTpuPrecision));
  context.tpu_topology = tpu_topology(config);
  context.nvidia_graph_bytes = static_cast<std::uint64_t>(config.get(options::kNvidiaGraphMemoryBytes));
  context.nvidia_margin_bytes = static_cast<std::uint64_t>(config.get(options::kNvidiaMemoryMarginBytes));
  context.nvidia_memory_percent = static_cast<int>(config.get(options::kNvidiaMemoryPercent));
  context.nvidia_policy = nvidia_policy(config);
  context.amd_margin_bytes = static_cast<std::uint64_t>(config.get(options::kAmdMemoryMarginBytes));
  context.amd_kept_bytes = static_cast<std::uint64_t>(config.get(options::kAmdMemoryKeptBytes));
  context.amd_memory_percent = static_cast<int>(config.get(options::kAmdMemoryPercent));
  context.amd_engine = amd_engine(config);
  context.amd_architecture = amd_architecture(config);
  context.amd_compile_options = config.get(options::kAmdCompileOptions);
  context.amd_matrix_cores = config.get(options::kAmdMatrixCores);
  context.split_batches = config.get(options::kMemorySplitBatches);
  context.batch_buckets = config.get(options::kMemoryBatchBuckets);
  context.sequence_buckets = config.get(options::kMemorySequenceBuckets);
  context.split_graphs = config.get(options::kPlacementSplit);
  context.detection = make_detection_context(config, environment, std::move(files));
  return context;
}

Result<std::shared_ptr<const detail::LoadedModel>> load_model_with(const std::filesystem::path& path,
                                                                   const LoadOptions& options,
                                                                   const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(PlacedDevice placed, find_runnable_device(options.device, context));
  return load_model_on(std::move(placed), path, options, context);
}

Result<std::shared_ptr<const detail::LoadedModel>> load_model_on(PlacedDevice placed, const std::filesystem::path& path,
                                                                 const LoadOptions& options,
                                                                 const BackendContext& context) {
  // One scale for a whole tensor in fp8 would be that of the padding too.
  const bool sequences = context.sequence_buckets && context.nvidia_policy.fp8_scaling == Fp8Scaling::kRow;
  const detail::BatchPolicy batches{context.split_batches, context.batch_buckets, sequences};
  auto loaded = is_artifact(path) ? load_artifact(path, options, std::move(placed), batches)
                                  : load_exported(path, options, std::move(placed), batches);
  if (loaded.ok()) {
    log::info("model loaded", {{"path", path.string()}, {"device", std::string((*loaded)->executable().device())}});
  }
  return loaded;
}

Result<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(const Config config, load_library_config(environment));
  KPT_ASSIGN_OR_RETURN(const BackendContext context, make_backend_context(config, environment));
  KPT_ASSIGN_OR_RETURN(auto loaded, load_model_with(path, options, context));
  for (const std::string& note : loaded->notes()) log::warn(note);
  return Model(std::move(loaded));
}

const std::vector<TensorSpec>& Model::inputs() const { return loaded_->inputs(); }
const std::vector<TensorSpec>& Model::outputs() const { return loaded_->outputs(); }
std::string_view Model::device() const { return loaded_->executable().device(); }
bool Model::is_stateful() const { return loaded_->executable().is_stateful(); }

Result<Session> Model::start_session() const { return detail::start_session(loaded_); }

}  // namespace kpt
