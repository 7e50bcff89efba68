#include "backends/nvidia/nvidia_backend.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/nvidia/architecture.h"
#include "backends/nvidia/examine_model.h"
#include "backends/nvidia/policy_check.h"
#include "base/text.h"
#include "device/model_findings.h"
#include "device/unsupported_nodes.h"
#include "engines/aten/gpu_device.h"
#include "engines/aten/graph_engine.h"
#include "engines/aten/own_targets.h"
#include "ir/own_operators.h"

namespace kpt {
namespace {

// What libtorch's wheels of this range have code for.
constexpr int kOldestMajor = 7;
constexpr int kOldestMinor = 5;

bool has_libtorch_code(const NvidiaArchitecture& architecture) {
  return architecture.major > kOldestMajor ||
         (architecture.major == kOldestMajor && architecture.minor >= kOldestMinor);
}

std::vector<DType> matrix_dtypes(const NvidiaArchitecture& architecture) {
  std::vector<DType> dtypes;
  for (const Precision precision : architecture.matrix_precisions) {
    if (precision == Precision::kBf16) dtypes.push_back(DType::kBFloat16);
    if (precision == Precision::kFp16) dtypes.push_back(DType::kFloat16);
    if (precision == Precision::kFp8) dtypes.push_back(DType::kFloat8E4M3FN);
    if (precision == Precision::kInt8) dtypes.push_back(DType::kInt8);
  }
  return dtypes;
}

class NvidiaTarget final : public Target, public ModelExaminer {
 public:
  NvidiaTarget(std::shared_ptr<LazyAtenEngine> engine, const NvidiaArchitecture& architecture,
               const NvidiaPolicy& policy)
      : engine_(std::move(engine)),
        name_("nvidia:" + nvidia_target_name(architecture.major, architecture.minor)),
        architecture_(architecture),
        arithmetic_(describe_arithmetic(policy)) {
    capabilities_.raw_pointers = true;
    capabilities_.streams = true;
    capabilities_.graph_capture = true;
    capabilities_.dynamic_shapes = true;
    capabilities_.sizes_cost = true;
    // A norm takes a residual in for nothing; behind a product it would be a pass of its own.
    capabilities_.product_takes_residual = false;
    capabilities_.products_give_either_type = true;
    capabilities_.attention_adds_masks = true;
    capabilities_.alignment_bytes = 256;
#define KPT_ADD_DTYPE(enumerator, name, bytes) capabilities_.dtypes.push_back(DType::enumerator);
    KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
    capabilities_.matrix_dtypes = matrix_dtypes(architecture);
    capabilities_.features = {nvidia_target_name(architecture.major, architecture.minor), to_lower(architecture.name)};
#if defined(KPT_HAS_CUDA_KERNELS)
    // Ampere is the oldest that our kernels are compiled for.
    if (architecture.major >= 8) {
      capabilities_.own_operators.assign(std::begin(aten::kCudaOwnTargets), std::end(aten::kCudaOwnTargets));
      capabilities_.float16_operators.assign(std::begin(aten::kCudaFloat16Targets),
                                             std::end(aten::kCudaFloat16Targets));
      // A row costs an instruction for each weight: with some eight, that takes as long as reading a bfloat16 weight.
      capabilities_.weight_only_rows = 8;
      capabilities_.int8_multiple = 8;  // what libtorch's product takes; others are copied into larger ones first
      capabilities_.fp8_inputs = policy.fp8_inputs;
      capabilities_.fp8_row_scales = policy.fp8_scaling == Fp8Scaling::kRow;
    }
#endif
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string arithmetic() const override { return arithmetic_; }
  const NvidiaArchitecture& architecture() const { return architecture_; }
  bool is(int major, int minor) const { return architecture_.major == major && architecture_.minor == minor; }

  std::vector<ModelFinding> examine(const ir::Graph& graph, const ir::Bindings& sizes) const override {
    return examine_model(graph, sizes, architecture_);
  }
  bool tells_operators() const override { return false; }

  // Which operators libtorch has does not depend on the device: where its CUDA part is not open, the CPU's module
  // answers for its nodes, and the table of this target for those of ours.
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    const auto cuda = engine->cuda();
    std::vector<Support> answers;
    if (!cuda.ok()) {
      KPT_ASSIGN_OR_RETURN(answers, engine->check(graph));
      for (std::size_t index = 0; index < answers.size(); ++index) {
        const std::string& target = graph.nodes[index].target;
        if (!target.starts_with(ir::kOwnPrefix)) continue;
        const bool has = std::ranges::find(capabilities_.own_operators, target) != capabilities_.own_operators.end();
        answers[index] = has ? Support{} : Support{false, "this target has no kernel for it"};
      }
      return answers;
    }
    KPT_RETURN_IF_ERROR(
        to_status((*cuda)->check_graph(&graph, &answers), "looking up the graph's operators", Vendor::kNvidia));
    return answers;
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    KPT_ASSIGN_OR_RETURN(const auto answers, supports(graph));
    KPT_RETURN_IF_ERROR(list_unsupported(graph, answers, "cannot run"));
    return std::unique_ptr<Program>(std::make_unique<GraphProgram>(name_, std::move(graph)));
  }

  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return GraphProgram::deserialize(name_, bytes);
  }

 private:
  std::shared_ptr<LazyAtenEngine> engine_;
  std::string name_;
  const NvidiaArchitecture& architecture_;
  std::string arithmetic_;
  Capabilities capabilities_;
};

class NvidiaDevice final : public AtenGpuDevice {
 public:
  NvidiaDevice(const NvidiaTarget& target, std::shared_ptr<const AtenEngine> engine, const aten::CudaModuleTable& table,
               std::int32_t index, const DeviceInfo& info)
      : AtenGpuDevice(target, table, index, info, Vendor::kNvidia, find_nvidia_rates(info.description)),
        target_(target),
        engine_(std::move(engine)),
        has_nvtx_(table.has_nvtx) {}

  const NvidiaTarget& target() const override { return target_; }
  bool has_nvtx() const { return has_nvtx_; }

  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    KPT_ASSIGN_OR_RETURN(std::vector<Activity> activities, engine_->record(work, true));
    return require_gpu_work(std::move(activities), info().name, Vendor::kNvidia, "CUPTI",
                            "does another profiler hold it?");
  }

 private:
  const NvidiaTarget& target_;
  std::shared_ptr<const AtenEngine> engine_;
  bool has_nvtx_;
};

class NvidiaBackend final : public Backend {
 public:
  explicit NvidiaBackend(const BackendContext& context)
      : engine_(std::make_shared<LazyAtenEngine>(
            TorchSearch{context.detection.environment, context.torch_dir.string(), context.detection.site_packages},
            context.threads, find_gpu_drivers(context.detection.files))),
        limits_{context.nvidia_graph_bytes, context.nvidia_margin_bytes},
        policy_(context.nvidia_policy),
        memory_percent_(context.nvidia_memory_percent) {
    for (const NvidiaArchitecture& architecture : nvidia_architectures()) {
      if (has_libtorch_code(architecture)) targets_.emplace_back(engine_, architecture, policy_);
    }
  }

  std::string_view name() const override { return "nvidia"; }

  std::vector<const Target*> targets() const override {
    std::vector<const Target*> all;
    for (const NvidiaTarget& target : targets_) all.push_back(&target);
    return all;
  }

  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (devices_.empty()) KPT_RETURN_IF_ERROR(find_devices());
    std::vector<Device*> all;
    for (NvidiaDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    const NvidiaDevice* const found = devices.size() == 1 ? find_own(devices[0]) : nullptr;
    if (found == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the nvidia backend loads a program on one device of its own");
    }
    KPT_RETURN_IF_ERROR(check_nvidia_policy(policy_, found->target().architecture(), found->has_nvtx()));
    return found->load(*program, weights, limits_, policy_);
  }

 private:
  const NvidiaDevice* find_own(const Device* device) {
    const std::lock_guard lock(mutex_);
    for (const NvidiaDevice& own : devices_) {
      if (&own == device) return &own;
    }
    return nullptr;
  }

  Status find_devices() {
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    KPT_ASSIGN_OR_RETURN(const aten::CudaModuleTable* const table, engine->cuda());
    std::int32_t count = 0;
    KPT_RETURN_IF_ERROR(to_status(table->device_count(&count), "counting NVIDIA GPUs", Vendor::kNvidia));
    for (std::int32_t index = 0; index < count; ++index) {
      aten::CudaDeviceFacts facts{};
      KPT_RETURN_IF_ERROR(to_status(table->describe_device(index, &facts), "asking an NVIDIA GPU", Vendor::kNvidia));
      const NvidiaTarget* target = find_target(facts.capability_major, facts.capability_minor);
      if (target == nullptr) continue;  // who asks for it by name hears find_device()'s kInvalidArchitecture
      if (memory_percent_ < 100) {      // all of it may be what the program around us has changed
        KPT_RETURN_IF_ERROR(to_status(table->limit_memory(index, memory_percent_),
                                      "limiting the memory of an NVIDIA GPU", Vendor::kNvidia));
      }
      devices_.emplace_back(
          *target, engine, *table, index,
          DeviceInfo{fmt::format("nvidia:{}", index), facts.name,
                     fmt::format("{} {}", nvidia_target_name(facts.capability_major, facts.capability_minor),
                                 nvidia_architecture_name(facts.capability_major, facts.capability_minor)),
                     facts.memory_total_bytes, true, ""});
    }
    return {};
  }

  const NvidiaTarget* find_target(int major, int minor) const {
    for (const NvidiaTarget& target : targets_) {
      if (target.is(major, minor)) return &target;
    }
    return nullptr;
  }

  std::shared_ptr<LazyAtenEngine> engine_;
  aten::CudaMemoryLimits limits_;
  NvidiaPolicy policy_;
  int memory_percent_;
  std::deque<NvidiaTarget> targets_;  // a deque, because targets and devices do not move
  std::mutex mutex_;
  std::deque<NvidiaDevice> devices_;
};

}  // namespace

std::unique_ptr<Backend> make_nvidia_backend(const BackendContext& context) {
  return std::make_unique<NvidiaBackend>(context);
}

bool has_nvidia_target(int capability_major, int capability_minor) {
  const NvidiaArchitecture* architecture = find_nvidia_architecture(capability_major, capability_minor);
  return architecture != nullptr && has_libtorch_code(*architecture);
}

}  // namespace kpt
