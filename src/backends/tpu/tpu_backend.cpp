#include "backends/tpu/tpu_backend.h"

#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/tpu/detect_tpu.h"
#include "backends/tpu/examine_model.h"
#include "backends/tpu/libtpu.h"
#include "backends/tpu/load_program.h"
#include "backends/tpu/topology.h"
#include "backends/tpu/topology_choice.h"
#include "backends/tpu/tpu_compiler.h"
#include "backends/tpu/tpu_device_target.h"
#include "backends/tpu/tpu_memory.h"
#include "base/text.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/detect_plugins.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {
namespace {

// Of all tensors; nothing when the number passes 64 bits.
std::optional<std::uint64_t> count_bytes(const std::vector<xla::ModulePlace>& places, std::size_t count) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bytes = element_bytes(places[i].dtype);
    for (const std::int64_t dim : places[i].dims) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) return std::nullopt;
    }
    if (__builtin_add_overflow(total, bytes, &total)) return std::nullopt;
  }
  return total;
}

class TpuTarget final : public Target, public ModelExaminer {
 public:
  TpuTarget(TpuTopology topology, const TpuCompiler& compiler, const BackendContext& context)
      : topology_(std::move(topology)),
        compiler_(compiler),
        name_(topology_.target_name()),
        rates_(rates_of(*topology_.generation)),
        memory_(name_, rates_.memory_bytes, context.tpu_memory_percent),
        precision_(context.tpu_precision),
        capabilities_(xla_capabilities()) {
    rates_.wide_flops_per_second = rates_.matrix_flops_per_second / count_passes(precision_);
    capabilities_.dynamic_shapes = false;
    capabilities_.matrix_dtypes = matrix_dtypes_of(*topology_.generation);
    capabilities_.features = {"tpu", std::string(topology_.generation->name)};
  }

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  const HardwareRates* rates() const override { return &rates_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }

  std::vector<ModelFinding> examine(const ir::Graph& graph, const ir::Bindings& sizes) const override {
    return examine_model(graph, sizes, *topology_.generation, memory_.usable_bytes);
  }

  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return compile_sized(std::move(graph), {});
  }

  Result<std::unique_ptr<Program>> compile_sized(ir::Graph graph, const ir::Bindings& sizes) const override {
    KPT_RETURN_IF_ERROR(check_sizes(graph, sizes, "a TPU"));
    KPT_ASSIGN_OR_RETURN(const xla::LoweredModule module, xla::lower(graph, sizes));
    KPT_RETURN_IF_ERROR(check_tensors(module));
    MainAttributes attributes;
    mark_donated_buffers(graph, module, attributes);
    const std::string text = set_matrix_precision(add_attributes(module.text, attributes), precision_);
    KPT_ASSIGN_OR_RETURN(pjrt::TopologyProgram compiled, compiler_.compile(topology_, text));
    KPT_RETURN_IF_ERROR(memory_.check(compiled.figures));
    AheadFacts facts{write_sizes(sizes), hash_module(module), precision_};
    return std::unique_ptr<Program>(
        std::make_unique<AheadProgram>(kTpuForm, name_, std::move(graph), std::move(facts), std::move(compiled)));
  }

  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return deserialize_tpu_program(name_, bytes);
  }
  std::optional<CompileStatistics> compile_statistics() const override { return compiler_.statistics(topology_); }

 private:
  // Before the compiler is asked: it takes minutes.
  Status check_tensors(const xla::LoweredModule& module) const {
    const auto arguments = count_bytes(module.arguments, module.arguments.size());
    const auto outputs = count_bytes(module.results, module.output_count);
    std::uint64_t total = 0;
    if (arguments && outputs && !__builtin_add_overflow(*arguments, *outputs, &total) &&
        total <= memory_.usable_bytes) {
      return {};
    }
    return memory_.too_large(fmt::format("weights and inputs take {}, outputs {}",
                                         arguments ? format_bytes(*arguments) : "more than can be counted",
                                         outputs ? format_bytes(*outputs) : "more than can be counted"));
  }

  TpuTopology topology_;
  const TpuCompiler& compiler_;
  std::string name_;
  HardwareRates rates_;
  TpuMemory memory_;
  std::string precision_;  // as XLA calls it
  Capabilities capabilities_;
};

Status cannot_be_used(const Finding& finding) {
  return {StatusCode::kDeviceNotAvailable,
          fmt::format("no TPU can be used: {}{}{}", finding.reason, finding.remedy.empty() ? "" : "; ", finding.remedy),
          Vendor::kTpu};
}

class TpuBackend final : public Backend {
 public:
  explicit TpuBackend(const BackendContext& context) : context_(context), compiler_(context) {
    for (TpuTopology& topology : tpu_topologies()) {
      targets_.emplace_back(std::move(topology), compiler_, context_);
    }
  }

  std::string_view name() const override { return "tpu"; }

  std::vector<const Target*> targets() const override {
    std::vector<const Target*> all;
    for (const TpuTarget& target : targets_) all.push_back(&target);
    return all;
  }

  Result<std::vector<Device*>> devices() override {
    const std::lock_guard lock(mutex_);
    if (devices_.empty()) {
      KPT_RETURN_IF_ERROR(detect());
    }
    std::vector<Device*> all;
    for (XlaDevice& device : devices_) all.push_back(&device);
    return all;
  }

  Result<std::unique_ptr<Executable>> load(std::shared_ptr<const Program> program, const Weights& weights,
                                           std::span<Device* const> devices) override {
    auto* const device = devices.size() == 1 ? dynamic_cast<XlaDevice*>(devices[0]) : nullptr;
    if (device == nullptr) {
      return Status(StatusCode::kInvalidArgument, "the tpu backend loads a program on one of its own devices",
                    Vendor::kTpu);
    }
    return load_tpu_program(program, weights, *device, compiler_, context_);
  }

 private:
  // Chips, libtpu, and an answer of libtpu in a child process; the devices themselves are opened when they are used.
  Status detect() {
    TpuReport found = detect_tpu(context_.detection);
    if (found.finding.presence != Presence::kPresent) return cannot_be_used(found.finding);
    KPT_ASSIGN_OR_RETURN(const TpuReport report, apply_chosen_topology(context_.tpu_topology, std::move(found)));
    const PjrtPlugin plugin = ask_libtpu(context_.detection, make_plugin_probe(context_.detection));
    if (plugin.finding.presence != Presence::kPresent) return cannot_be_used(plugin.finding);
    target_.emplace(report, context_);
    std::size_t place = 0;
    for (DeviceInfo& info : describe_tpu_devices(report, "")) {
      XlaDeviceSetup setup;
      setup.info = std::move(info);
      setup.plugin = plugin;
      setup.devices = {place++, context_.pjrt_devices};
      devices_.emplace_back(*target_, std::move(setup));
    }
    return {};
  }

  BackendContext context_;
  TpuCompiler compiler_;
  std::deque<TpuTarget> targets_;  // they refer to the compiler
  std::mutex mutex_;
  std::optional<TpuDeviceTarget> target_;  // of the devices
  std::deque<XlaDevice> devices_;
};

}  // namespace

std::unique_ptr<Backend> make_tpu_backend(const BackendContext& context) {
  return std::make_unique<TpuBackend>(context);
}

}  // namespace kpt
