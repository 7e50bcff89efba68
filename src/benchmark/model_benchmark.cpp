#include "benchmark/model_benchmark.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "archive/mapped_file.h"
#include "backends/cpu/detect_cpu.h"
#include "base/build_info.h"
#include "base/sha256.h"
#include "engines/aten/torch_installation.h"
#include "memory/process_memory.h"
#include "runtime/generate_inputs.h"

namespace kpt {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool writes_inputs(const ir::Graph& graph) {
  return std::ranges::any_of(
      graph.outputs, [](const ir::GraphOutput& output) { return output.kind == ir::OutputKind::kInputMutation; });
}

// One model with inputs of one size.
class PointRun {
 public:
  static Result<PointRun> make(const std::shared_ptr<const detail::LoadedModel>& model, const Sizes& sizes,
                               const ModelBenchmarkOptions& options) {
    GenerateOptions generate{options.seed, sizes, {}};
    for (const NamedTensor& input : options.inputs) generate.given.push_back(input.name);
    KPT_ASSIGN_OR_RETURN(std::vector<NamedTensor> named, generate_inputs(model->graph(), generate));
    named.insert(named.begin(), options.inputs.begin(), options.inputs.end());
    KPT_ASSIGN_OR_RETURN(Session session, Model(model).start_session());
    PointRun run(std::move(session));
    KPT_ASSIGN_OR_RETURN(run.originals_, model->order_inputs(named));
    for (const Tensor& input : run.originals_) {
      KPT_ASSIGN_OR_RETURN(Tensor copy, input.contiguous_copy());  // not memory of a mapped file
      run.inputs_.push_back(std::move(copy));
    }
    run.renews_inputs_ = writes_inputs(model->graph());
    run.stateful_ = model->executable().is_stateful();
    run.items_ = count_items(named);
    return run;
  }

  std::int64_t items() const { return items_; }

  MeasuredRun measured() {
    return {[this] { return prepare(); }, [this] { return session_.run(inputs_, outputs_); }};
  }

 private:
  explicit PointRun(Session session) : session_(std::move(session)) {}

  // Each run starts from the same state; what that costs is not the model's time.
  Status prepare() {
    if (stateful_) KPT_RETURN_IF_ERROR(session_.reset());
    if (!renews_inputs_) return {};
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      KPT_ASSIGN_OR_RETURN(inputs_[index], originals_[index].contiguous_copy());
    }
    return {};
  }

  Session session_;
  std::vector<Tensor> originals_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  bool renews_inputs_ = false;
  bool stateful_ = false;
  std::int64_t items_ = 1;
};

void read_memory(const SystemFiles& files, std::uint64_t anonymous_before, bool peak_was_reset, PointReport& point,
                 std::vector<std::string>& notes) {
  const auto memory = read_process_memory(files);
  if (!memory.ok()) {
    if (notes.empty()) notes.push_back("no figures of memory: " + memory.status().message());
    return;
  }
  if (peak_was_reset) point.peak_bytes = memory->peak_bytes;
  point.grown_bytes = memory->anonymous_bytes - std::min(memory->anonymous_bytes, anonymous_before);
}

// The memory of a device beside the host, whose peak begins anew before each point where that can be.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device* device)
      : device_(device == nullptr || device->target().capabilities().host_processor ? nullptr : device) {}

  void reset() {
    if (device_ != nullptr) reset_ = device_->reset_peak_memory();
  }
  void read(PointReport& point, std::vector<std::string>& notes) {
    if (device_ == nullptr) return;
    const auto memory = device_->memory();
    if (memory.ok()) point.device_peak_bytes = memory->peak_bytes;
    if (std::exchange(told_, true)) return;
    if (!point.device_peak_bytes) {
      notes.push_back("no peak of the device's memory: " +
                      (memory.ok() ? device_->info().name + " does not tell it" : memory.status().message()));
    } else if (!reset_.ok()) {
      notes.push_back("the peak of the device's memory is that of the whole process: " + reset_.message());
    }
  }

 private:
  Device* device_;
  Status reset_;
  bool told_ = false;
};

}  // namespace

Result<std::vector<PointReport>> benchmark_points(const std::shared_ptr<const detail::LoadedModel>& model,
                                                  std::span<const Sizes> points, const ModelBenchmarkOptions& options,
                                                  const SystemFiles& files, std::vector<std::string>& notes) {
  std::vector<PointReport> reports;
  DeviceMemory device_memory(options.device);
  for (std::size_t index = 0; index < points.size(); ++index) {
    PointReport point;
    point.sizes = points[index];
    point.label = describe_sizes(point.sizes, options.batch_symbol);
    if (options.on_point) options.on_point(index, points.size(), point.label);
    const Status reset = reset_peak(files);
    if (!reset.ok() && index == 0) notes.push_back("no peak of memory for each size: " + reset.message());
    device_memory.reset();
    KPT_ASSIGN_OR_RETURN(PointRun run, PointRun::make(model, point.sizes, options));
    point.items = run.items();
    Result<Measurement> measured = measure(run.measured(), options.measure);
    if (!measured.ok()) {
      const Status& status = measured.status();
      if (point.label.empty()) return status;
      return Status(status.code(), fmt::format("at {}: {}", point.label, status.message()), status.vendor());
    }
    point.measurement = std::move(measured).value();
    read_memory(files, options.anonymous_bytes_before, reset.ok(), point, notes);
    device_memory.read(point, notes);
    reports.push_back(std::move(point));
  }
  return reports;
}

Result<BenchmarkContext> describe_benchmark(const std::filesystem::path& model, const detail::LoadedModel& loaded,
                                            const Device& device, const BackendContext& backend_context) {
  BenchmarkContext context;
  KPT_ASSIGN_OR_RETURN(const auto file, MappedFile::open(model));
  Sha256 hash;
  const auto bytes = file->bytes();
  hash.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  context.model_sha256 = hash.hex_digest();
  context.model = model.filename().string();
  context.date = utc_now();
  context.host_name = host_name();
  context.device = loaded.executable().device();
  if (!device.target().capabilities().host_processor) context.device_model = device.info().description;
  const CpuReport cpu = detect_cpu(backend_context.detection);
  context.cpu_model = cpu.model;
  context.cpus = cpu.usable_cpus;
  context.threads = backend_context.threads;
  const BuildInfo& build = build_info();
  context.kpt_version = build.version;
  context.commit = build.commit;
  context.build_type = build.build_type;
  const TorchSearch search{backend_context.detection.environment, backend_context.torch_dir.string(),
                           backend_context.detection.site_packages};
  const auto torch = find_torch_installation(search);
  if (torch.ok()) context.torch_version = torch->version_text;
  return context;
}

}  // namespace kpt
