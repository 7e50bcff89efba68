#include "backends/tpu/tpu_device_target.h"

#include <fmt/format.h>

#include "backends/tpu/architecture.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/xla_device.h"
#include "engines/xla/execution/xla_program.h"
#include "engines/xla/stablehlo/lower.h"

namespace kpt {

std::vector<DeviceInfo> describe_tpu_devices(const TpuReport& report, const std::string& reason) {
  const TpuGeneration* const generation = find_tpu_generation(report.generation);
  const int per_chip = generation == nullptr ? 1 : generation->devices_per_chip;
  const std::string kind = report.generation.empty() ? "of unknown generation" : report.generation;
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < report.chips * per_chip; ++i) {
    devices.push_back({fmt::format("tpu:{}", i), "Google TPU " + kind, report.generation,
                       generation == nullptr ? 0 : rates_of(*generation).memory_bytes, reason.empty(), reason});
  }
  return devices;
}

TpuDeviceTarget::TpuDeviceTarget(const TpuReport& report, const BackendContext& context)
    : name_("tpu"), precision_(context.tpu_precision), capabilities_(xla_capabilities()) {
  capabilities_.matrix_dtypes = {DType::kBFloat16};
  capabilities_.features = {"tpu"};
  const TpuGeneration* const generation = find_tpu_generation(report.generation);
  if (generation == nullptr) return;
  rates_ = rates_of(*generation);
  capabilities_.matrix_dtypes = matrix_dtypes_of(*generation);
  capabilities_.features.emplace_back(generation->name);
  name_ = fmt::format("tpu:{}", generation->name);
  if (report.topology.empty()) return;
  auto topology = parse_tpu_target(fmt::format("{}:{}", name_, report.topology));
  if (!topology.ok()) return;
  name_ = topology->target_name();
  topology_ = std::move(*topology);
}

Result<std::vector<Support>> TpuDeviceTarget::supports(const ir::Graph& graph) const {
  return xla::check_lowering(graph);
}

Result<std::unique_ptr<Program>> TpuDeviceTarget::compile(ir::Graph graph) const {
  return XlaProgram::make(name_, std::move(graph));
}

Result<std::unique_ptr<Program>> TpuDeviceTarget::deserialize(std::string_view bytes) const {
  return deserialize_tpu_program(name_, bytes);
}

std::string TpuDeviceTarget::arithmetic() const {
  return precision_ == kHighestPrecision ? "" : fmt::format("tpu.precision={}", precision_);
}

Result<std::unique_ptr<Program>> deserialize_tpu_program(const std::string& target, std::string_view bytes) {
  if (is_ahead_program(kTpuForm, bytes)) return AheadProgram::deserialize(kTpuForm, target, bytes);
  return XlaProgram::deserialize(target, bytes);
}

}  // namespace kpt
