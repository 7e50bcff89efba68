// TPUs that are here: what they are called, and what runs on them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tpu/topology.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "device/hardware.h"
#include "engines/xla/execution/ahead_program.h"
#include "kpt/device.h"

namespace kpt {

// One for each device that programs see: "tpu:0" and so on, a chip or a core of it. `reason` says why none can be used;
// empty means that they can.
std::vector<DeviceInfo> describe_tpu_devices(const TpuReport& report, const std::string& reason);

// The target of all devices of this machine. Its name is that of the same slice without hardware ("tpu:v5e:2x2"), so
// that what `kpt compile` stored for it is found; where neither the machine nor the option tpu.topology tells it all,
// "tpu:v5e" or "tpu". Graphs with symbols are compiled for each set of sizes when it is first run.
class TpuDeviceTarget final : public Target {
 public:
  TpuDeviceTarget(const TpuReport& report, const BackendContext& context);

  std::string_view name() const override { return name_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  const HardwareRates* rates() const override { return rates_ ? &*rates_ : nullptr; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override;
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override;
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override;
  std::string arithmetic() const override;

  // Nothing where the report does not tell it, or programs are not compiled for it without the hardware.
  const std::optional<TpuTopology>& topology() const { return topology_; }

 private:
  std::string name_;
  std::string precision_;  // as XLA calls it
  std::optional<TpuTopology> topology_;
  std::optional<HardwareRates> rates_;
  Capabilities capabilities_;
};

// How the stored form of what was compiled for a slice begins. Its conditions are the precision of products of float32,
// as XLA calls it.
inline constexpr AheadForm kTpuForm = {"kpt-tpu-program", 3};

// Either form: what was compiled for the slice without hardware, or a graph for it.
Result<std::unique_ptr<Program>> deserialize_tpu_program(const std::string& target, std::string_view bytes);

}  // namespace kpt
