#include "engines/aten/graph_engine.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

void log_warning(const char* text) { log::debug("libtorch warns", {{"text", printable(text)}}); }

constexpr std::string_view kProgramHeader = "kpt-graph-program 1 ";

Status built_without(const AtenModule& module, std::string_view what, Vendor vendor) {
  return {StatusCode::kUnsupported,
          fmt::format("libtorch {} at {} was built without {}; install a {} build of torch",
                      to_string(module.library_version), module.installation.dir.string(), what, what),
          vendor};
}

}  // namespace

GpuDrivers find_gpu_drivers(const SystemFiles& files) {
  return {files.exists("/dev/nvidiactl"), files.exists("/dev/kfd")};
}

Result<std::shared_ptr<const AtenEngine>> AtenEngine::open(const TorchSearch& search, int threads,
                                                           const GpuDrivers& drivers) {
  KPT_ASSIGN_OR_RETURN(AtenModule module, load_aten(search));
  const bool rocm = module.installation.rocm;
  std::optional<Result<AtenCudaModule>> gpu;
  if (rocm ? drivers.amd : drivers.nvidia) {
    gpu.emplace(rocm ? load_aten_rocm(module, search) : load_aten_cuda(module, search));
    if (gpu->ok()) {
      KPT_RETURN_IF_ERROR(
          to_status((*gpu)->table->set_warning_sink(&log_warning), "taking over the GPU module's warnings"));
    } else {
      log::debug("libtorch runs without GPUs", {{"reason", gpu->status().message()}});
    }
  }
  // One run at a time uses the operators' threads; runs side by side are the callers' threads.
  std::int32_t between = 1;
  KPT_RETURN_IF_ERROR(to_status(module.table->set_threads(threads, &between), "setting libtorch's threads"));
  if (between != 1)
    log::info("the program set libtorch's threads between operators first", {{"threads", std::to_string(between)}});
  KPT_RETURN_IF_ERROR(to_status(module.table->set_warning_sink(&log_warning), "taking over libtorch's warnings"));
  std::shared_ptr<AtenEngine> engine(new AtenEngine(std::move(module)));
  engine->gpu_ = std::move(gpu);
  return std::shared_ptr<const AtenEngine>(std::move(engine));
}

Result<const aten::CudaModuleTable*> AtenEngine::cuda() const {
  if (module_.installation.rocm) return built_without(module_, "CUDA", Vendor::kNvidia);
  if (!gpu_) {
    return Status(StatusCode::kDeviceNotAvailable, "this machine has no NVIDIA driver (/dev/nvidiactl is not there)",
                  Vendor::kNvidia);
  }
  if (!gpu_->ok()) return gpu_->status();
  return (*gpu_)->table;
}

Result<const aten::CudaModuleTable*> AtenEngine::rocm() const {
  if (!module_.installation.rocm) return built_without(module_, "ROCm", Vendor::kAmd);
  if (!gpu_) {
    return Status(StatusCode::kDeviceNotAvailable, "this machine has no AMD driver (/dev/kfd is not there)",
                  Vendor::kAmd);
  }
  if (!gpu_->ok()) return gpu_->status();
  return (*gpu_)->table;
}

Result<std::vector<Support>> AtenEngine::check(const ir::Graph& graph) const {
  std::vector<Support> answers;
  KPT_RETURN_IF_ERROR(to_status(module_.table->check_graph(&graph, &answers), "looking up the graph's operators"));
  return answers;
}

Status AtenEngine::hide_instructions(const std::vector<std::string>& words) const {
  return to_status(module_.table->hide_instructions(&words), "hiding instruction sets");
}

Result<std::unique_ptr<Executable>> AtenEngine::load(const std::shared_ptr<const ir::Graph>& graph,
                                                     const Weights& weights) const {
  Status status;
  std::unique_ptr<Executable> executable;
  KPT_RETURN_IF_ERROR(
      to_status(module_.table->load_graph(&graph, &weights, &status, &executable), "loading the graph"));
  KPT_RETURN_IF_ERROR(status);
  return executable;
}

Result<std::vector<Activity>> AtenEngine::record(const std::function<Status()>& work, bool with_gpus) const {
  Status status;
  const std::function<void()> body = [&] { status = work(); };
  std::vector<Activity> activities;
  KPT_RETURN_IF_ERROR(to_status(module_.table->record(&body, with_gpus, &activities), "recording what libtorch does"));
  KPT_RETURN_IF_ERROR(status);
  return activities;
}

Result<std::string> GraphProgram::serialize() const {
  return fmt::format("{}{}\n{}", kProgramHeader, target_, ir::print_graph(*graph_));
}

Result<std::unique_ptr<Program>> GraphProgram::deserialize(std::string_view target, std::string_view bytes) {
  const auto end = bytes.find('\n');
  if (!bytes.starts_with("kpt-graph-program ") || end == std::string_view::npos) {
    return Status(StatusCode::kCorruptData, "the stored program is no graph program");
  }
  if (bytes.substr(0, end) != fmt::format("{}{}", kProgramHeader, target)) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("the stored program is of another version or for another target than {}", target));
  }
  KPT_ASSIGN_OR_RETURN(ir::Graph graph, ir::read_graph(bytes.substr(end + 1)));
  KPT_RETURN_IF_ERROR(ir::verify(graph));
  return std::unique_ptr<Program>(std::make_unique<GraphProgram>(std::string(target), std::move(graph)));
}

}  // namespace kpt
