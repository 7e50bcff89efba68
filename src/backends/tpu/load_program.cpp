#include "backends/tpu/load_program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backends/tpu/tpu_device_target.h"
#include "backends/tpu/tpu_memory.h"
#include "base/text.h"
#include "engines/xla/execution/compile_ahead.h"
#include "engines/xla/pjrt/topology_process.h"

namespace kpt {
namespace {

constexpr std::string_view kPackage = "libtpu ";

// Of figures: "libtpu 0.0.51; PJRT 0.116; …", without the package where its version was not known.
struct CompilerName {
  std::string_view package;  // "0.0.51"
  std::string_view itself;   // of describe_compiler()
};

CompilerName read_compiler(std::string_view text) {
  if (!text.starts_with(kPackage)) return {"", text};
  const auto end = text.find("; ");
  if (end == std::string_view::npos) return {text.substr(kPackage.size()), ""};
  return {text.substr(kPackage.size(), end - kPackage.size()), text.substr(end + 2)};
}

// What the plugin says of the device's memory, else what is published; nothing where neither is known. Fails when the
// plugin does not answer at all: it would keep all that follows, too.
Result<std::optional<TpuMemory>> find_memory(XlaDevice& device, int percent) {
  const auto told = device.first_memory();
  const StatusCode code = told.status().code();
  if (code == StatusCode::kDeadlineExceeded || code == StatusCode::kDeviceNotAvailable) return told.status();
  std::uint64_t bytes = device.info().memory_bytes;
  if (told.ok() && told->bytes_limit && *told->bytes_limit > 0) bytes = static_cast<std::uint64_t>(*told->bytes_limit);
  if (bytes == 0) return std::optional<TpuMemory>();
  return std::optional(TpuMemory(std::string(device.target().name()), bytes, percent));
}

Status check_weights(const ir::Graph& graph, const Weights& weights, const TpuMemory& memory) {
  std::uint64_t total = 0;
  std::set<std::pair<const Buffer*, std::int64_t>> counted;  // tied weights are uploaded once
  for (const ir::GraphInput& input : graph.inputs) {
    const auto found = is_weight(input) ? weights.find(input.name) : weights.end();
    if (found == weights.end()) continue;
    const Tensor& weight = found->second;
    if (counted.emplace(weight.buffer().get(), weight.offset()).second) total += weight.bytes();
  }
  if (total <= memory.usable_bytes) return {};
  return memory.too_large(fmt::format("weights take {}", format_bytes(total)));
}

Status check_program(const pjrt::ProgramMemory& program, const TpuMemory& memory) {
  const auto bytes = [](std::int64_t value) { return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)); };
  CompileFigures figures;
  figures.code_bytes = bytes(program.code_bytes);
  figures.argument_bytes = bytes(program.argument_bytes);
  figures.output_bytes = bytes(program.output_bytes);
  figures.alias_bytes = bytes(program.alias_bytes);
  figures.temporary_bytes = bytes(program.temporary_bytes);
  figures.peak_bytes = bytes(program.peak_bytes);
  return memory.check(figures);
}

}  // namespace

std::string find_misfit(const AheadProgram& program, const Libtpu& libtpu, const pjrt::Client& client,
                        std::size_t device, const std::string& precision) {
  const CompileFigures& figures = *program.figures();
  const CompilerName made_by = read_compiler(figures.compiler);
  const pjrt::Plugin& plugin = client.plugin();
  const std::string here =
      pjrt::describe_compiler(fmt::format("{}.{}", plugin.api_major(), plugin.api_minor()), client.platform_version());
  const bool packages_known = !made_by.package.empty() && !libtpu.version.empty();
  if (packages_known ? made_by.package != libtpu.version : made_by.itself != here) {
    return fmt::format("it was compiled by {}, and this is {}{}", printable(figures.compiler, 200),
                       libtpu.version.empty() ? "" : fmt::format("{}{}; ", kPackage, libtpu.version), here);
  }
  const std::string& kind = client.devices().at(device).kind;
  if (figures.device_kind != kind) {
    return fmt::format("it is for the device {}, and this is {}", printable(figures.device_kind, 100), kind);
  }
  if (program.facts().conditions != precision) {
    return fmt::format("its products have the precision {}, and tpu.precision asks for {}",
                       printable(program.facts().conditions, 20), precision);
  }
  return {};
}

Result<std::unique_ptr<Executable>> load_tpu_program(const std::shared_ptr<const Program>& program,
                                                     const Weights& weights, XlaDevice& device,
                                                     const TpuCompiler& compiler, const BackendContext& context) {
  const auto* const target = dynamic_cast<const TpuDeviceTarget*>(&device.target());
  const auto compiled = std::dynamic_pointer_cast<const AheadProgram>(program);
  auto own = std::dynamic_pointer_cast<const XlaProgram>(program);
  if (target == nullptr || (own == nullptr && compiled == nullptr) || program->target() != target->name()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("a program for {} cannot be loaded on {}",
                              program == nullptr ? std::string_view("nothing") : program->target(), device.info().name),
                  Vendor::kTpu);
  }
  KPT_ASSIGN_OR_RETURN(const auto client, device.client());
  XlaLoadExtras extras;
  extras.matrix_precision = context.tpu_precision;
  KPT_ASSIGN_OR_RETURN(const auto memory, find_memory(device, context.tpu_memory_percent));
  if (memory && device.setup().devices.count == 1)
    KPT_RETURN_IF_ERROR(check_weights(program->graph(), weights, *memory));
  if (memory) {
    extras.check_memory = [bound = *memory](const pjrt::ProgramMemory& needs) { return check_program(needs, bound); };
  }
  if (own == nullptr) {
    KPT_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> made,
                         XlaProgram::make(std::string(target->name()), compiled->graph()));
    own = std::dynamic_pointer_cast<const XlaProgram>(made);
    const std::string why = find_misfit(*compiled, find_libtpu(context.detection), *client,
                                        device.setup().devices.first, context.tpu_precision);
    extras.stored = take_stored(*compiled, own->graph(), why);
  }
  if (context.compile_time_limit.count() > 0) {
    extras.compile_elsewhere = [&compiler, topology = target->topology()](
                                   const std::string& text, const std::string& options) -> Result<std::string> {
      if (topology) return compiler.compile_beside_client(*topology, text, options);
      return Status(StatusCode::kUnsupported,
                    "pjrt.compile_timeout_ms needs the shape of the TPU slice, which this machine does not tell; set "
                    "tpu.topology, or leave the option at 0",
                    Vendor::kTpu);
    };
  }
  return load_on_device(device, std::move(own), weights, context, std::move(extras));
}

}  // namespace kpt
