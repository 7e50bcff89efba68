#include "backends/tpu/tpu_backend.h"

#include <deque>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "backends/tpu/detect_tpu.h"
#include "backends/tpu/examine_model.h"
#include "backends/tpu/load_program.h"
#include "backends/tpu/topology.h"
#include "backends/tpu/tpu_compiler.h"
#include "backends/tpu/tpu_device_target.h"
#include "backends/tpu/tpu_memory.h"
#include "backends/tpu/tpu_program.h"
#include "base/text.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/detect_plugins.h"
#include "engines/xla/pjrt/plugin_search.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {
namespace {

std::string to_text(const ir::Bindings& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes.entries())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

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
        precision_(context.tpu_precision) {
    capabilities_.whole_graph_only = true;
    capabilities_.matrix_dtypes = {DType::kBFloat16};
    capabilities_.features = {"tpu", std::string(topology_.generation->name)};
#define KPT_ADD_DTYPE(enumerator, name, bytes) \
  if (pjrt::buffer_type_of(DType::enumerator)) capabilities_.dtypes.push_back(DType::enumerator);
    KPT_DTYPES(KPT_ADD_DTYPE)
#undef KPT_ADD_DTYPE
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
    KPT_RETURN_IF_ERROR(check_sizes(graph, sizes));
    KPT_ASSIGN_OR_RETURN(const xla::LoweredModule module, xla::lower(graph, sizes));
    KPT_RETURN_IF_ERROR(check_tensors(module));
    KPT_ASSIGN_OR_RETURN(pjrt::TopologyProgram compiled,
                         compiler_.compile(topology_, set_matrix_precision(module.text, precision_)));
    KPT_RETURN_IF_ERROR(check_figures(compiled.figures));
    return std::unique_ptr<Program>(
        std::make_unique<TpuProgram>(name_, std::move(graph), to_text(sizes), precision_, std::move(compiled)));
  }

  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return deserialize_tpu_program(name_, bytes);
  }
  std::optional<CompileStatistics> compile_statistics() const override { return compiler_.statistics(topology_); }

 private:
  Status check_sizes(const ir::Graph& graph, const ir::Bindings& sizes) const {
    std::string open;
    for (const ir::SymbolRange& symbol : graph.symbols) {
      const auto value = sizes.find(symbol.name);
      if (!value) {
        open += fmt::format("{}{}", open.empty() ? "" : ", ", symbol.name);
        continue;
      }
      if ((symbol.min && *value < *symbol.min) || (symbol.max && *value > *symbol.max)) {
        return {StatusCode::kInvalidArgument, fmt::format("the size {}={} is out of its range", symbol.name, *value)};
      }
    }
    if (open.empty()) return {};
    return {StatusCode::kInvalidArgument,
            fmt::format("a program for a TPU has fixed sizes, and the model leaves {} free; give each a value", open)};
  }

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

  Status check_figures(const CompileFigures& figures) const {
    const auto total = figures.total_bytes();
    if (!total || *total <= memory_.usable_bytes) return {};
    return memory_.too_large(fmt::format("arguments take {}, outputs {}, temporaries {}",
                                         format_bytes(*figures.argument_bytes), format_bytes(*figures.output_bytes),
                                         format_bytes(*figures.temporary_bytes)));
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
    const TpuReport report = detect_tpu(context_.detection);
    if (report.finding.presence != Presence::kPresent) return cannot_be_used(report.finding);
    const auto plugin = detect_plugin(context_.detection, kTpuPluginName, make_plugin_probe(context_.detection));
    if (!plugin) return cannot_be_used({Presence::kAbsent, "libtpu is not installed", "pip install libtpu"});
    if (plugin->finding.presence != Presence::kPresent) return cannot_be_used(plugin->finding);
    target_.emplace(report, context_);
    std::size_t place = 0;
    for (DeviceInfo& info : describe_tpu_devices(report, "")) {
      devices_.emplace_back(*target_, XlaDeviceSetup{std::move(info), *plugin, {}, {place++, context_.pjrt_devices}});
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
