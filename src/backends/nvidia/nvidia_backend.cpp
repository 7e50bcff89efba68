#include "backends/nvidia/nvidia_backend.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/nvidia/architecture.h"
#include "backends/nvidia/policy_check.h"
#include "base/text.h"
#include "device/unsupported_nodes.h"
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
  }
  return dtypes;
}

class NvidiaTarget final : public Target {
 public:
  NvidiaTarget(std::shared_ptr<LazyAtenEngine> engine, const NvidiaArchitecture& architecture, std::string arithmetic)
      : engine_(std::move(engine)),
        name_("nvidia:" + nvidia_target_name(architecture.major, architecture.minor)),
        architecture_(architecture),
        arithmetic_(std::move(arithmetic)) {
    capabilities_.raw_pointers = true;
    capabilities_.streams = true;
    capabilities_.graph_capture = true;
    capabilities_.dynamic_shapes = true;
    capabilities_.sizes_cost = true;
    // A norm takes a residual in for nothing; behind a product it would be a pass of its own.
    capabilities_.product_takes_residual = false;
    capabilities_.products_give_either_type = true;
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
      // A row costs an instruction for each weight: with some eight, that takes as long as reading a bfloat16 weight.
      capabilities_.weight_only_rows = 8;
    }
#endif
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string arithmetic() const override { return arithmetic_; }
  const NvidiaArchitecture& architecture() const { return architecture_; }
  bool is(int major, int minor) const { return architecture_.major == major && architecture_.minor == minor; }

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

class NvidiaDevice final : public Device {
 public:
  NvidiaDevice(const NvidiaTarget& target, std::shared_ptr<const AtenEngine> engine, const aten::CudaModuleTable& table,
               std::int32_t index, DeviceInfo info)
      : target_(target),
        engine_(std::move(engine)),
        table_(table),
        index_(index),
        info_(std::move(info)),
        rates_(find_nvidia_rates(info_.description)) {}

  const DeviceInfo& info() const override { return info_; }
  const NvidiaTarget& target() const override { return target_; }
  std::int32_t index() const { return index_; }

  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    if (dims.size() > kMaxRank) {
      return Status(StatusCode::kInvalidArgument, fmt::format("a tensor of rank {} has too many axes", dims.size()));
    }
    if (!count_elements(dims)) return Status(StatusCode::kInvalidArgument, "a tensor has extents without a product");
    Tensor tensor;
    const Dims extents(dims);
    KPT_RETURN_IF_ERROR(to_status(table_.allocate(index_, dtype, &extents, &tensor),
                                  "allocating memory on " + info_.name, Vendor::kNvidia));
    return tensor;
  }

  Result<Tensor> upload(const Tensor& host) override {
    Tensor tensor;
    KPT_RETURN_IF_ERROR(
        to_status(table_.upload(index_, &host, &tensor), "copying a tensor to " + info_.name, Vendor::kNvidia));
    return tensor;
  }

  Result<Tensor> download(const Tensor& tensor) override {
    if (tensor.defined() && tensor.device() == "cpu") return tensor;
    Tensor host;
    KPT_RETURN_IF_ERROR(
        to_status(table_.download(&tensor, &host), "copying a tensor from " + info_.name, Vendor::kNvidia));
    return host;
  }

  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    KPT_ASSIGN_OR_RETURN(std::vector<Activity> activities, engine_->record(work, true));
    const bool heard = std::ranges::any_of(activities, [](const Activity& activity) {
      return activity.kind == Activity::Kind::kKernel || activity.kind == Activity::Kind::kCopy;
    });
    if (heard) return activities;
    return Status(StatusCode::kUnsupported,
                  "CUPTI told of no work on " + info_.name + ": does another profiler hold it?", Vendor::kNvidia);
  }
  Result<MemoryStatistics> memory() override {
    MemoryStatistics statistics;
    KPT_RETURN_IF_ERROR(to_status(table_.memory_statistics(index_, &statistics), "reading the memory of " + info_.name,
                                  Vendor::kNvidia));
    return statistics;
  }
  Status reset_peak_memory() override {
    return to_status(table_.reset_peak_memory(index_), "resetting the peak of memory of " + info_.name,
                     Vendor::kNvidia);
  }
  Status empty_cache() override {
    return to_status(table_.empty_cache(), "giving back memory of " + info_.name, Vendor::kNvidia);
  }
  const HardwareRates* rates() const override { return rates_; }

 private:
  const NvidiaTarget& target_;
  std::shared_ptr<const AtenEngine> engine_;
  const aten::CudaModuleTable& table_;
  std::int32_t index_;
  DeviceInfo info_;
  const HardwareRates* rates_;
};

class NvidiaBackend final : public Backend {
 public:
  explicit NvidiaBackend(const BackendContext& context)
      : engine_(std::make_shared<LazyAtenEngine>(
            TorchSearch{context.detection.environment, context.torch_dir.string(), context.detection.site_packages},
            context.threads, has_nvidia_driver(context.detection.files))),
        limits_{context.nvidia_graph_bytes, context.nvidia_margin_bytes},
        policy_(context.nvidia_policy),
        memory_percent_(context.nvidia_memory_percent) {
    for (const NvidiaArchitecture& architecture : nvidia_architectures()) {
      if (has_libtorch_code(architecture)) targets_.emplace_back(engine_, architecture, describe_arithmetic(policy_));
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
    const NvidiaDevice& device = *found;
    if (program->target() != device.target().name()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("a program for {} cannot be loaded on {}, which is {}", program->target(),
                                device.info().name, device.target().name()));
    }
    KPT_ASSIGN_OR_RETURN(const auto engine, engine_->get());
    KPT_ASSIGN_OR_RETURN(const aten::CudaModuleTable* const table, engine->cuda());
    KPT_RETURN_IF_ERROR(check_nvidia_policy(policy_, device.target().architecture(), table->has_nvtx));
    const auto graph = static_cast<const GraphProgram&>(*program).shared_graph();
    Status status;
    std::unique_ptr<Executable> executable;
    KPT_RETURN_IF_ERROR(
        to_status(table->load_graph(device.index(), &graph, &weights, &limits_, &policy_, &status, &executable),
                  "loading the graph on " + device.info().name, Vendor::kNvidia));
    KPT_RETURN_IF_ERROR(status);
    return executable;
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
      if (target == nullptr) continue;  // find_device() says why that GPU cannot be used
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
