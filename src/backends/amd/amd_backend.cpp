#include "backends/amd/amd_backend.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "backends/amd/amd_program.h"
#include "backends/amd/amd_torch_backend.h"
#include "backends/amd/architecture.h"
#include "backends/amd/architecture_choice.h"
#include "backends/amd/detect_amd.h"
#include "backends/amd/engine_choice.h"
#include "backends/amd/hip_machine.h"
#include "backends/amd/target_traits.h"
#include "base/log.h"
#include "base/own_memory.h"
#include "base/text.h"
#include "engines/native/guarded_executable.h"
#include "engines/native/kept_memory.h"
#include "kernels/gpu/matrix.h"

namespace kpt {
namespace {

// How long a copy may take that somebody waits for.
constexpr std::chrono::minutes kCopyLimit{10};

constexpr std::string_view kOwnTargets[] = {"kpt.add_norm.default", "kpt.attention.default", "kpt.glu.default",
                                            "kpt.linear.default", "kpt.rotary.default"};

// Where targets have their kernels from.
struct KernelSupply {
  KernelSource kernels;
  std::shared_ptr<const KernelStore> store;  // behind it; null when a test gives the kernels
  int threads = 1;                           // for compiling
  std::vector<std::string> options = {};     // of the compiler, beside its own
};

// Who has no compiler may still run models on the GPU: says how.
Status with_other_ways(const Status& failure, const std::string& not_libtorch) {
  if (failure.code() != StatusCode::kUnsupported) return failure;
  return {
      failure.code(),
      fmt::format("{}; the other ways to such a GPU are libtorch's ROCm build (not taken: {}) and, as device xla:rocm, "
                  "a PJRT plugin",
                  failure.message(), not_libtorch),
      Vendor::kAmd};
}

class AmdTarget final : public Target {
 public:
  // `supply` must outlive it.
  AmdTarget(const AmdArchitecture& architecture, const KernelSupply& supply, bool matrix_cores)
      : name_("amd:" + std::string(architecture.gfx_target)),
        architecture_(architecture),
        supply_(supply),
        matrix_cores_(matrix_cores) {
    capabilities_.raw_pointers = true;
    capabilities_.dynamic_shapes = true;
    capabilities_.whole_graph_only = true;
    capabilities_.alignment_bytes = native::kBlockAlignment;
    capabilities_.dtypes = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                            DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat8E4M3FN};
    capabilities_.own_operators.assign(std::begin(kOwnTargets), std::end(kOwnTargets));
    // Only what our products have matrix cores for.
    for (const DType dtype : gpu::matrix_types(traits().shape.matrix)) {
      if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) {
        capabilities_.matrix_dtypes.push_back(dtype);
      } else if (dtype == DType::kInt8) {
        capabilities_.matrix_dtypes.push_back(dtype);
        capabilities_.own_operators.emplace_back("kpt.linear_int8.default");
      } else {
        // Weights are stored in this kind, whichever the instructions take.
        capabilities_.matrix_dtypes.push_back(DType::kFloat8E4M3FN);
        capabilities_.own_operators.emplace_back("kpt.linear_fp8.default");
      }
    }
    capabilities_.float16_operators = capabilities_.own_operators;
    capabilities_.features = {std::string(architecture.gfx_target), to_lower(architecture.name)};
    // What was measured or optimized with them does not hold without.
    if (traits().shape.matrix != gpu::MatrixUnit::kNone) capabilities_.features.emplace_back("matrix-cores");
    capabilities_.features.insert(capabilities_.features.end(), supply.options.begin(), supply.options.end());
    if (const HardwareRates* published = find_amd_target_rates(gfx_target())) {
      rates_ = *published;
      rates_->memory_bytes = 0;  // the fastest product's: a target has several, with other sizes
      // Products without them are arithmetic as all else.
      if (traits().shape.matrix == gpu::MatrixUnit::kNone) {
        rates_->matrix_flops_per_second = rates_->narrow_flops_per_second = 0;
      }
    }
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  const HardwareRates* rates() const override { return rates_ ? &*rates_ : nullptr; }
  std::string_view gfx_target() const { return architecture_.gfx_target; }
  // Compute units do not matter to what a target can do: 0 for one that is not here.
  native::Traits traits(int compute_units = 0) const {
    return native_traits(architecture_, compute_units, matrix_cores_);
  }

  Result<std::vector<Support>> supports(const ir::Graph& graph) const override {
    return native::check_nodes(graph, traits());
  }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    KPT_ASSIGN_OR_RETURN(auto program, AmdProgram::make(architecture_, std::move(graph), supply_.kernels,
                                                        supply_.threads, matrix_cores_));
    program->set_compiler(supply_.store ? supply_.store->compiler(gfx_target()) : "", supply_.options);
    return std::unique_ptr<Program>(std::move(program));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return AmdProgram::deserialize(architecture_, bytes, matrix_cores_);
  }
  std::optional<CompileStatistics> compile_statistics() const override {
    return supply_.store ? std::optional(supply_.store->statistics(gfx_target())) : std::nullopt;
  }

 private:
  std::string name_;
  const AmdArchitecture& architecture_;
  const KernelSupply& supply_;
  bool matrix_cores_;
  Capabilities capabilities_;
  std::optional<HardwareRates> rates_;
};

class AmdDevice final : public Device {
 public:
  AmdDevice(const AmdTarget& target, DeviceInfo info, HipDevice device, int compute_units, const KernelSource& kernels,
            GpuShare share)
      : target_(target),
        info_(std::move(info)),
        rates_(find_amd_rates(info_.description)),
        calls_(std::move(share.calls)),
        machine_(std::make_shared<HipMachine>(info_.name, std::move(device), target.traits(compute_units), kernels,
                                              std::move(share.pool))) {}
  AmdDevice(const AmdDevice&) = delete;
  AmdDevice& operator=(const AmdDevice&) = delete;
  ~AmdDevice() override { calls_->let_go(Leaving(std::move(machine_))); }

  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  std::string_view gfx_target() const { return target_.gfx_target(); }
  const std::shared_ptr<HipMachine>& machine() const { return machine_; }
  const std::shared_ptr<native::DeviceCalls>& calls() const { return calls_; }

  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    if (dims.size() > kMaxRank) {
      return Status(StatusCode::kInvalidArgument, fmt::format("a tensor of rank {} has too many axes", dims.size()));
    }
    const auto count = count_elements(dims);
    if (!count) return Status(StatusCode::kInvalidArgument, "a tensor has extents without a product");
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<std::size_t>(*count), element_bytes(dtype), &bytes)) {
      return Status(StatusCode::kInvalidArgument, "a tensor has more bytes than can be counted");
    }
    KPT_ASSIGN_OR_RETURN(auto buffer, calls_->ask([machine = machine_, bytes] {
      return machine->allocate(std::max<std::size_t>(bytes, 1));
    }));
    return Tensor::unchecked(std::move(buffer), dtype, dims, contiguous_strides(dims), 0);
  }

  Result<Tensor> upload(const Tensor& host) override {
    KPT_ASSIGN_OR_RETURN(Tensor dense, own_memory(host));
    if (!dense.is_contiguous()) {
      KPT_ASSIGN_OR_RETURN(dense, host.contiguous_copy());
    }
    KPT_ASSIGN_OR_RETURN(Tensor tensor, allocate(host.dtype(), host.dims()));
    KPT_RETURN_IF_ERROR(calls_->ask([machine = machine_, tensor, dense]() -> Status {
      KPT_ASSIGN_OR_RETURN(auto stream, machine->make_stream());
      const Status queued = stream->copy_to_device(tensor.data(), dense.data(), dense.bytes());
      const Status ended = native::finish(std::move(stream), kCopyLimit, {tensor.buffer(), dense.buffer()});
      return queued.ok() ? ended : queued;
    }));
    return tensor;
  }

  Result<Tensor> download(const Tensor& tensor) override {
    if (tensor.defined() && tensor.device() == "cpu") return tensor;
    if (tensor.device() != info_.name || !tensor.is_contiguous()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{} is not a tensor without gaps on {}", tensor.to_string(), info_.name));
    }
    KPT_ASSIGN_OR_RETURN(Tensor host, Tensor::empty(tensor.dtype(), tensor.dims()));
    KPT_RETURN_IF_ERROR(calls_->ask([machine = machine_, tensor, host]() -> Status {
      KPT_ASSIGN_OR_RETURN(auto stream, machine->make_stream());
      const Status queued = stream->copy_to_host(host.data(), tensor.data(), host.bytes());
      const Status ended = native::finish(std::move(stream), kCopyLimit, {tensor.buffer(), host.buffer()});
      return queued.ok() ? ended : queued;
    }));
    return host;
  }

  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    KPT_RETURN_IF_ERROR(calls_->ask([machine = machine_] { return machine->recorder().start(); }));
    const Status status = work();
    if (status.ok()) return calls_->ask([machine = machine_] { return machine->recorder().finish(); });
    static_cast<void>(calls_->run([machine = machine_] { machine->recorder().drop(); }));  // it has failed anyway
    return status;
  }
  Result<MemoryStatistics> memory() override {
    return calls_->ask([machine = machine_]() -> Result<MemoryStatistics> { return machine->pool().statistics(); });
  }
  Status reset_peak_memory() override {
    machine_->pool().reset_peak();
    return {};
  }
  Status empty_cache() override {
    return calls_->run([machine = machine_] { machine->pool().release_kept(); });
  }
  const HardwareRates* rates() const override { return rates_; }

 private:
  // What its models leave behind may suit nobody else.
  class Leaving {
   public:
    explicit Leaving(std::shared_ptr<HipMachine> machine) : machine_(std::move(machine)) {}
    Leaving(Leaving&&) = default;
    Leaving& operator=(Leaving&&) = delete;
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
    ~Leaving() {
      if (machine_ != nullptr) machine_->pool().release_kept();
    }

   private:
    std::shared_ptr<HipMachine> machine_;
  };

  const AmdTarget& target_;
  DeviceInfo info_;
  const HardwareRates* rates_;
  std::shared_ptr<native::DeviceCalls> calls_;
  std::shared_ptr<HipMachine> machine_;
};

class AmdBackend final : public Backend {
 public:
  AmdBackend(const BackendContext& context, AmdBackendParts parts)
      : detection_(context.detection),
        parts_(std::move(parts)),
        margin_bytes_(context.amd_margin_bytes),
        kept_bytes_(context.amd_kept_bytes),
        memory_percent_(context.amd_memory_percent),
        chosen_target_(context.amd_architecture) {
    if (!parts_.detect) parts_.detect = detect_amd;
    if (!parts_.pools) parts_.pools = DevicePools::of_process();
    supply_ = {parts_.kernels, nullptr, context.threads, context.amd_compile_options};
    if (!supply_.kernels) {
      const auto store = std::make_shared<KernelStore>(context);
      supply_.kernels = [store, reason = parts_.not_libtorch](std::string_view family,
                                                              std::string_view gfx_target) -> Result<std::string> {
        auto code = store->get(family, gfx_target);
        if (!code.ok()) return with_other_ways(code.status(), reason);
        return code;
      };
      supply_.store = store;
    }
    for (const AmdArchitecture& architecture : amd_architectures()) {
      targets_.emplace_back(architecture, supply_, context.amd_matrix_cores);
    }
  }

  std::string_view name() const override { return "amd"; }

  std::vector<const Target*> targets() const override {
    std::vector<const Target*> all;
    for (const AmdTarget& target : targets_) all.push_back(&target);
    return all;
  }

  // A machine without a GPU that can be used has no devices; find_device() says why.
  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (devices_.empty()) KPT_RETURN_IF_ERROR(find_devices());
    std::vector<Device*> all;
    for (AmdDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    AmdDevice* const device = devices.size() == 1 ? find_own(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the amd backend loads a program on one device of its own");
    }
    if (program->target() != device->target().name()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("a program for {} cannot be loaded on {}, which is {}", program->target(),
                                device->info().name, device->target().name()));
    }
    KPT_RETURN_IF_ERROR(check_chosen_target(chosen_target_, device->info().name, device->gfx_target()));
    const auto own = std::static_pointer_cast<const AmdProgram>(std::move(program));
    std::shared_ptr<native::Machine> machine = device->machine();
    if (own->is_stored() && own->has_options(supply_.options))
      machine = std::make_shared<ProgramMachine>(device->machine(), own);
    return native::GuardedExecutable::load(own->shared_graph(), weights, std::move(machine), device->calls());
  }

 private:
  AmdDevice* find_own(const Device* device) {
    const std::lock_guard lock(mutex_);
    for (AmdDevice& own : devices_) {
      if (&own == device) return &own;
    }
    return nullptr;
  }

  // The runtime is asked in a child process first: it is known to abort on GPUs newer than itself.
  Status find_devices() {
    const AmdReport report = parts_.detect(detection_);
    if (report.finding.presence != Presence::kPresent) return {};
    KPT_ASSIGN_OR_RETURN(auto opened, parts_.pools->opening()->ask(
                                          [libraries = parts_.libraries, gpus = report.gpus,
                                           percent = memory_percent_] { return open_gpus(libraries, gpus, percent); }));
    Status refused;
    for (OpenedGpu& gpu : opened) {
      const Status added = add_device(gpu);
      if (added.ok()) continue;
      refused = added;
      // Others may still be of use.
      log::warn("an AMD GPU is left out", {{"gpu", std::to_string(gpu.gpu.index)}, {"reason", refused.message()}});
    }
    return devices_.empty() ? refused : Status();
  }

  struct OpenedGpu {
    AmdGpu gpu;
    Result<HipDevice> device;
    Result<std::uint64_t> most_bytes;  // that this process may take
  };

  // What it takes of HIP to open the GPUs.
  static Result<std::vector<OpenedGpu>> open_gpus(const std::vector<std::string>& libraries,
                                                  const std::vector<AmdGpu>& gpus, int memory_percent) {
    KPT_ASSIGN_OR_RETURN(const auto runtime, HipRuntime::open(libraries));
    std::vector<OpenedGpu> opened;
    for (const AmdGpu& gpu : gpus) {
      auto device = HipRuntime::open_device(runtime, gpu.index);
      auto most = device.ok() ? find_most_bytes(gpu, *device, memory_percent) : device.status();
      opened.push_back({gpu, std::move(device), std::move(most)});
    }
    return opened;
  }

  static Result<std::uint64_t> find_most_bytes(const AmdGpu& gpu, const HipDevice& device, int memory_percent) {
    if (memory_percent >= 100) return MemoryLimits().most_bytes;
    std::uint64_t total = gpu.memory_total_bytes;
    if (total == 0) {  // detection may not have learned it
      KPT_ASSIGN_OR_RETURN(const HipMemoryInfo info, device.memory_info());
      total = info.total_bytes;
    }
    if (total == 0) {
      return Status(StatusCode::kDevice,
                    fmt::format("amd.memory_percent is {}, and nobody says how much memory GPU {} has", memory_percent,
                                gpu.index),
                    Vendor::kAmd);
    }
    return total / 100 * static_cast<std::uint64_t>(memory_percent);
  }

  Status add_device(const OpenedGpu& opened) {
    KPT_RETURN_IF_ERROR(opened.device.status());
    KPT_RETURN_IF_ERROR(opened.most_bytes.status());
    const AmdGpu& gpu = opened.gpu;
    const HipDevice& device = *opened.device;
    const std::string name = fmt::format("amd:{}", gpu.index);
    KPT_ASSIGN_OR_RETURN(GpuShare share,
                         parts_.pools->get(name, device, {*opened.most_bytes, margin_bytes_, kept_bytes_}));
    const auto target = std::ranges::find(targets_, device.architecture().gfx_target,
                                          [](const AmdTarget& t) { return t.gfx_target(); });
    devices_.emplace_back(
        *target, DeviceInfo{name, gpu.name, gpu.gfx_target + " " + gpu.architecture, gpu.memory_total_bytes, true, ""},
        device, gpu.compute_units, supply_.kernels, std::move(share));
    return {};
  }

  DetectionContext detection_;
  AmdBackendParts parts_;
  std::uint64_t margin_bytes_;
  std::uint64_t kept_bytes_;
  int memory_percent_;
  std::string chosen_target_;  // empty: any
  KernelSupply supply_;
  std::deque<AmdTarget> targets_;  // a deque, because targets and devices do not move
  std::mutex mutex_;
  std::deque<AmdDevice> devices_;
};

}  // namespace

std::unique_ptr<Backend> make_amd_backend(const BackendContext& context) {
  const TorchSearch search{context.detection.environment, context.torch_dir.string(), context.detection.site_packages};
  const AmdEngineDecision engine = choose_amd_engine(search, context.detection.files, context.amd_engine);
  log::debug("the engine for AMD GPUs is chosen",
             {{"engine", engine.libtorch ? "libtorch" : "native"}, {"reason", engine.reason}});
  if (engine.libtorch) return make_amd_torch_backend(context);
  AmdBackendParts parts;
  parts.not_libtorch = engine.reason;
  return make_amd_backend(context, std::move(parts));
}

std::unique_ptr<Backend> make_amd_backend(const BackendContext& context, AmdBackendParts parts) {
  return std::make_unique<AmdBackend>(context, std::move(parts));
}

}  // namespace kpt
