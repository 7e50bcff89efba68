#include "backends/amd/amd_torch_backend.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <mutex>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/architecture_choice.h"
#include "backends/amd/detect_amd.h"
#include "backends/amd/target_traits.h"
#include "backends/amd/torch_kernels.h"
#include "base/log.h"
#include "base/text.h"
#include "device/unsupported_nodes.h"
#include "engines/aten/gpu_device.h"
#include "engines/aten/graph_engine.h"
#include "engines/aten/own_targets.h"
#include "ir/own_operators.h"
#include "kernels/gpu/matrix.h"

namespace kpt {
namespace {

// The table of the module for ROCm, or why there is none; what the CPU's module knows of operators; and our kernels.
struct TorchSource {
  std::function<Result<const aten::CudaModuleTable*>()> table;
  decltype(AmdTorchParts::record) record;
  std::shared_ptr<LazyAtenEngine> engine;
  std::unique_ptr<TorchKernels> kernels;
  std::vector<std::string> compile_options = {};  // of our kernels
  bool matrix_cores = true;                       // whether levels may lower products to what they multiply
};

// Said once in a process, where the option would have kept less than libtorch does.
void warn_of_kept_bytes() {
  static std::atomic_flag said;
  if (said.test_and_set()) return;
  log::warn(
      "amd.memory_kept_bytes has no effect where models run through libtorch's ROCm build, whose allocator keeps all "
      "that it has freed; amd.engine=native heeds it");
}

// Those that levels lower products to by libtorch's own; products of 8 bits are kernels of ours.
std::vector<DType> types_of_matrix_cores(const AmdArchitecture& architecture) {
  std::vector<DType> types;
  for (const Precision precision : architecture.matrix_precisions) {
    if (precision == Precision::kBf16) types.push_back(DType::kBFloat16);
    if (precision == Precision::kFp16) types.push_back(DType::kFloat16);
  }
  return types;
}

class AmdTorchTarget final : public Target {
 public:
  // `source` must outlive it.
  AmdTorchTarget(const AmdArchitecture& architecture, const TorchSource& source)
      : name_("amd:" + std::string(architecture.gfx_target)), architecture_(architecture), source_(source) {
    capabilities_.raw_pointers = true;
    capabilities_.streams = true;
    capabilities_.dynamic_shapes = true;
    capabilities_.alignment_bytes = 256;
#define KPT_ADD_DTYPE(enumerator, name, bytes) capabilities_.dtypes.push_back(DType::enumerator);
    KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
    if (source.matrix_cores) capabilities_.matrix_dtypes = types_of_matrix_cores(architecture);
    // What was optimized for our own kernels does not hold here, nor with matrix cores what was without.
    capabilities_.features = {std::string(architecture.gfx_target), to_lower(architecture.name), "libtorch"};
    if (!capabilities_.matrix_dtypes.empty()) capabilities_.features.emplace_back("matrix-cores");
    unit_ = native_traits(architecture, 0, source.matrix_cores).shape.matrix;
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override {
    std::call_once(looked_for_kernels_, [this] {
      const auto table = source_.table();  // which also opens libtorch
      obstacle_ =
          table.ok() ? source_.kernels->find_obstacle(architecture_.gfx_target) : std::string(table.status().message());
      if (obstacle_.empty()) add_kernels();
    });
    return capabilities_;
  }
  std::string_view gfx_target() const { return architecture_.gfx_target; }

  // Which operators libtorch has does not depend on the device: where its ROCm part is not open, the CPU's module
  // answers. Of ours, the module answers for those that have kernels.
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    std::vector<Support> answers;
    if (const auto table = source_.table(); table.ok()) {
      KPT_RETURN_IF_ERROR(
          to_status((*table)->check_graph(&graph, &answers), "looking up the graph's operators", Vendor::kAmd));
    } else {
      KPT_ASSIGN_OR_RETURN(const auto engine, source_.engine->get());
      KPT_ASSIGN_OR_RETURN(answers, engine->check(graph));
    }
    for (std::size_t index = 0; index < answers.size(); ++index) {
      const std::string& target = graph.nodes[index].target;
      if (!target.starts_with(ir::kOwnPrefix)) continue;
      const std::vector<std::string>& own = capabilities().own_operators;
      if (std::ranges::find(own, target) == own.end()) answers[index] = {false, why_not(target)};
    }
    return answers;
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    KPT_ASSIGN_OR_RETURN(const auto answers, supports(graph));
    KPT_RETURN_IF_ERROR(list_unsupported(graph, answers, "cannot run"));
    return std::unique_ptr<Program>(std::make_unique<GraphProgram>(name_, std::move(graph)));
  }

  // Code objects of ours are none of libtorch's: the graph beside them is compiled anew.
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    if (bytes.starts_with("kpt-amd-program ")) {
      return Status(StatusCode::kVersionMismatch,
                    "the stored program launches our own kernels, and models run through libtorch here; set "
                    "amd.engine=native to use it");
    }
    return GraphProgram::deserialize(name_, bytes);
  }

 private:
  // What kernels of ours add.
  void add_kernels() const {
    for (const aten::RocmOwnTarget& own : aten::kRocmOwnTargets) {
      if (own.needed_product) {
        if (!gpu::find_row_type(*own.needed_product, unit_)) continue;
        // Weights are stored in this type, whichever flavour of FP8 the instructions take.
        capabilities_.matrix_dtypes.push_back(*own.needed_product);
      }
      capabilities_.own_operators.emplace_back(own.target);
    }
    capabilities_.float16_operators = capabilities_.own_operators;
    // As on NVIDIA GPUs: with more rows, reading a bfloat16 weight takes no longer. Not measured here.
    capabilities_.weight_only_rows = 8;
    capabilities_.product_takes_residual = false;
    capabilities_.features.emplace_back("own-kernels");
    std::ranges::copy(source_.compile_options, std::back_inserter(capabilities_.features));
  }

  // Why an operator of ours does not run here, one clause.
  std::string why_not(std::string_view target) const {
    if (!obstacle_.empty()) return "kernels of ours do not run beside libtorch here: " + obstacle_;
    const auto row = std::ranges::find(aten::kRocmOwnTargets, target, &aten::RocmOwnTarget::target);
    if (row == std::end(aten::kRocmOwnTargets) || !row->needed_product) {
      return "there is no kernel of ours for it; run `kpt optimize` here again";
    }
    if (!source_.matrix_cores) return "amd.matrix_cores=false leaves alone the matrix cores that it needs";
    return fmt::format("{} has no matrix cores for {}; run `kpt optimize` here again", architecture_.gfx_target,
                       to_string(*row->needed_product));
  }

  std::string name_;
  const AmdArchitecture& architecture_;
  const TorchSource& source_;
  gpu::MatrixUnit unit_ = gpu::MatrixUnit::kNone;  // that kernels of ours may use
  mutable std::once_flag looked_for_kernels_;
  mutable std::string obstacle_;       // why there are no kernels of ours
  mutable Capabilities capabilities_;  // whole once kernels were looked for
};

class AmdTorchDevice final : public AtenGpuDevice {
 public:
  // `source` must outlive it.
  AmdTorchDevice(const AmdTorchTarget& target, const TorchSource& source, const aten::CudaModuleTable& table,
                 AmdGpu gpu)
      : AtenGpuDevice(target, table, gpu.index,
                      DeviceInfo{fmt::format("amd:{}", gpu.index), gpu.name, gpu.gfx_target + " " + gpu.architecture,
                                 gpu.memory_total_bytes, true, ""},
                      Vendor::kAmd, find_amd_rates(gpu.name)),
        source_(source),
        gpu_(std::move(gpu)) {}
  const AmdGpu& gpu() const { return gpu_; }

  // ROCm's tracer hears of kernels of ours, too: it listens to the runtime.
  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    KPT_ASSIGN_OR_RETURN(std::vector<Activity> activities, source_.record(work));
    return require_gpu_work(std::move(activities), info().name, Vendor::kAmd,
                            "ROCm's tracer behind libtorch's profiler",
                            "see whether this libtorch has one and nobody else holds it, or set amd.engine=native, "
                            "which times kernels by itself");
  }

 private:
  const TorchSource& source_;
  AmdGpu gpu_;
};

class AmdTorchBackend final : public Backend {
 public:
  AmdTorchBackend(const BackendContext& context, AmdTorchParts parts)
      : detection_(context.detection),
        detect_(parts.detect ? std::move(parts.detect) : detect_amd),
        limits_{0, context.amd_margin_bytes},
        kept_bytes_(context.amd_kept_bytes),
        memory_percent_(context.amd_memory_percent),
        chosen_target_(context.amd_architecture) {
    source_.engine = std::make_shared<LazyAtenEngine>(
        TorchSearch{context.detection.environment, context.torch_dir.string(), context.detection.site_packages},
        context.threads, find_gpu_drivers(context.detection.files));
    source_.kernels = std::make_unique<TorchKernels>(context, std::move(parts.hip_library), std::move(parts.kernels));
    source_.compile_options = context.amd_compile_options;
    source_.matrix_cores = context.amd_matrix_cores;
    source_.table = std::move(parts.table);
    if (!source_.table) {
      source_.table = [engine = source_.engine]() -> Result<const aten::CudaModuleTable*> {
        KPT_ASSIGN_OR_RETURN(const auto opened, engine->get());
        return opened->rocm();
      };
    }
    source_.record = std::move(parts.record);
    if (!source_.record) {
      source_.record = [engine = source_.engine](const auto& work) -> Result<std::vector<Activity>> {
        KPT_ASSIGN_OR_RETURN(const auto opened, engine->get());
        return opened->record(work, true);
      };
    }
    for (const AmdArchitecture& architecture : amd_architectures()) targets_.emplace_back(architecture, source_);
  }

  std::string_view name() const override { return "amd"; }

  std::vector<const Target*> targets() const override {
    std::vector<const Target*> all;
    for (const AmdTorchTarget& target : targets_) all.push_back(&target);
    return all;
  }

  // A machine without a GPU that can be used has no devices; find_device() says why.
  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (devices_.empty()) KPT_RETURN_IF_ERROR(find_devices());
    std::vector<Device*> all;
    for (AmdTorchDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    const AmdTorchDevice* const device = devices.size() == 1 ? find_own(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the amd backend loads a program on one device of its own");
    }
    KPT_RETURN_IF_ERROR(check_chosen_target(chosen_target_, device->info().name, device->gpu().gfx_target));
    if (kept_bytes_ < device->gpu().memory_total_bytes) warn_of_kept_bytes();
    KPT_ASSIGN_OR_RETURN(const auto launcher, source_.kernels->make_launcher(device->gpu(), program->graph()));
    return device->load(*program, weights, limits_, {}, launcher);
  }

 private:
  const AmdTorchDevice* find_own(const Device* device) {
    const std::lock_guard lock(mutex_);
    for (const AmdTorchDevice& own : devices_) {
      if (&own == device) return &own;
    }
    return nullptr;
  }

  // The HIP runtime is asked in a child process first: it is known to abort on GPUs newer than itself. It says what the
  // GPUs are; libtorch counts them in the same order.
  Status find_devices() {
    const AmdReport report = detect_(detection_);
    if (report.finding.presence != Presence::kPresent) return {};
    KPT_ASSIGN_OR_RETURN(const aten::CudaModuleTable* const table, source_.table());
    std::int32_t count = 0;
    KPT_RETURN_IF_ERROR(to_status(table->device_count(&count), "counting AMD GPUs", Vendor::kAmd));
    if (count == 0) {
      return {StatusCode::kDeviceNotAvailable, "libtorch's ROCm library sees no AMD GPU here", Vendor::kAmd};
    }
    for (const AmdGpu& gpu : report.gpus) {
      const auto target = std::ranges::find(targets_, gpu.gfx_target, &AmdTorchTarget::gfx_target);
      if (target == targets_.end()) continue;  // find_device() says why that GPU cannot be used
      if (gpu.index >= count) {
        log::warn("an AMD GPU is left out",
                  {{"gpu", std::to_string(gpu.index)}, {"reason", fmt::format("libtorch sees {} GPUs", count)}});
        continue;
      }
      if (memory_percent_ < 100) {
        KPT_RETURN_IF_ERROR(to_status(table->limit_memory(gpu.index, memory_percent_),
                                      "limiting the memory of an AMD GPU", Vendor::kAmd));
      }
      devices_.emplace_back(*target, source_, *table, gpu);
    }
    return {};
  }

  DetectionContext detection_;
  std::function<AmdReport(const DetectionContext&)> detect_;
  aten::CudaMemoryLimits limits_;
  std::uint64_t kept_bytes_;
  int memory_percent_;
  std::string chosen_target_;  // empty: any
  TorchSource source_;
  std::deque<AmdTorchTarget> targets_;  // a deque, because targets and devices do not move
  std::mutex mutex_;
  std::deque<AmdTorchDevice> devices_;
};

}  // namespace

std::unique_ptr<Backend> make_amd_torch_backend(const BackendContext& context, AmdTorchParts parts) {
  return std::make_unique<AmdTorchBackend>(context, std::move(parts));
}

}  // namespace kpt
