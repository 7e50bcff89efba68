#include "backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include "backends/cpu/detect_cpu.h"
#include "backends/cpu/memory_limit.h"
#include "base/text.h"
#include "device/unsupported_nodes.h"
#include "engines/aten/graph_engine.h"
#include "engines/aten/own_targets.h"
#include "memory/process_memory.h"

namespace kpt {
namespace {

constexpr std::string_view kTarget = "cpu";

// Float32 is what the others are compared with, so it is none of them.
std::vector<DType> matrix_dtypes(const std::vector<Precision>& precisions) {
  std::vector<DType> dtypes;
  for (const Precision precision : precisions) {
    if (precision == Precision::kBf16) dtypes.push_back(DType::kBFloat16);
    if (precision == Precision::kFp16) dtypes.push_back(DType::kFloat16);
    if (precision == Precision::kInt8) dtypes.push_back(DType::kInt8);
  }
  return dtypes;
}

class CpuTarget final : public Target {
 public:
  CpuTarget(std::shared_ptr<LazyAtenEngine> engine, const CpuReport& cpu) : engine_(std::move(engine)) {
    capabilities_.host_processor = true;
    capabilities_.raw_pointers = true;
    capabilities_.dynamic_shapes = true;
#define KPT_ADD_DTYPE(enumerator, name, bytes) capabilities_.dtypes.push_back(DType::enumerator);
    KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
    capabilities_.matrix_dtypes = matrix_dtypes(cpu.matrix_precisions);
    capabilities_.features.push_back(to_lower(cpu.architecture));
    for (const std::string& name : cpu.isa) capabilities_.features.push_back(to_lower(name));
    capabilities_.own_operators.assign(std::begin(aten::kOwnTargets), std::end(aten::kOwnTargets));
  }

  std::string_view name() const override { return kTarget; }
  const Capabilities& capabilities() const override { return capabilities_; }

  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    return engine->check(graph);
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    KPT_ASSIGN_OR_RETURN(const auto answers, supports(graph));
    KPT_RETURN_IF_ERROR(list_unsupported(graph, answers, "cannot run"));
    return std::unique_ptr<Program>(std::make_unique<GraphProgram>(std::string(kTarget), std::move(graph)));
  }

  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return GraphProgram::deserialize(kTarget, bytes);
  }

 private:
  std::shared_ptr<LazyAtenEngine> engine_;
  Capabilities capabilities_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(std::shared_ptr<LazyAtenEngine> engine, const CpuTarget& target, DeviceInfo info, SystemFiles files)
      : engine_(std::move(engine)), target_(target), info_(std::move(info)), files_(std::move(files)) {}
  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    return Tensor::empty(dtype, dims);
  }
  // The host's memory is the device's.
  Result<Tensor> upload(const Tensor& host) override { return host; }
  Result<Tensor> download(const Tensor& tensor) override { return tensor; }
  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    return engine->record(work, false);
  }
  // Of the process as a whole, with the mapped files (weights, libraries) that are in memory.
  Result<MemoryStatistics> memory() override {
    KPT_ASSIGN_OR_RETURN(const ProcessMemory process, read_process_memory(files_));
    MemoryStatistics memory;
    if (info_.memory_bytes > 0) memory.total_bytes = info_.memory_bytes;
    memory.free_bytes = find_memory_left(files_);
    memory.allocated_bytes = process.resident_bytes;
    memory.peak_bytes = process.peak_bytes;
    return memory;
  }
  Status reset_peak_memory() override { return reset_peak(files_); }

 private:
  std::shared_ptr<LazyAtenEngine> engine_;
  const CpuTarget& target_;
  DeviceInfo info_;
  SystemFiles files_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendContext& context) : CpuBackend(context, detect_cpu(context.detection)) {}

  std::string_view name() const override { return "cpu"; }
  std::vector<const Target*> targets() const override { return {&target_}; }
  Result<std::vector<Device*>> devices() override { return std::vector<Device*>{&device_}; }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    if (program->target() != kTarget) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("a program for {} cannot be loaded on the cpu", program->target()));
    }
    if (devices.size() != 1 || devices[0] != &device_) {
      return Status(StatusCode::kInvalidArgument, "the cpu backend loads a program on the one device 'cpu'");
    }
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    // Kernels are chosen when a graph is loaded; another backend of this process may have another setting.
    KPT_RETURN_IF_ERROR(engine->hide_instructions(hidden_isa_));
    return engine->load(static_cast<const GraphProgram&>(*program).shared_graph(), weights);
  }

 private:
  CpuBackend(const BackendContext& context, const CpuReport& cpu)
      : engine_(std::make_shared<LazyAtenEngine>(
            TorchSearch{context.detection.environment, context.torch_dir.string(), context.detection.site_packages},
            context.threads, find_gpu_drivers(context.detection.files))),
        hidden_isa_(context.detection.hidden_isa),
        target_(engine_, cpu),
        device_(engine_, target_, describe(cpu), context.detection.files) {}

  static DeviceInfo describe(const CpuReport& cpu) {
    return {"cpu", cpu.model, cpu.architecture, cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes), true, ""};
  }

  std::shared_ptr<LazyAtenEngine> engine_;
  std::vector<std::string> hidden_isa_;
  CpuTarget target_;
  CpuDevice device_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendContext& context) {
  return std::make_unique<CpuBackend>(context);
}

}  // namespace kpt
