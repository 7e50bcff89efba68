// Which slice the user means: the option tpu.topology, and what it says of the chips at hand.
#pragma once

#include <functional>
#include <string_view>

#include "backends/tpu/topology.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

// The slice of `--target tpu`: `wanted` (the option, as "v5e:2x2"; empty means auto), or that of the chips which
// `detect` finds; not asked where the user has chosen. Fails with kConfiguration for a choice that the table does not
// have, with kDeviceNotAvailable without chips whose generation and shape are told, and with kInvalidArgument for a
// slice that programs are not compiled for.
Result<TpuTopology> choose_tpu_topology(std::string_view wanted, const std::function<TpuReport()>& detect);

// The report with the generation and shape of the user's choice where the machine tells none; as it is with auto. Fails
// with kConfiguration as above, and with kInvalidArchitecture where the machine tells another slice.
Result<TpuReport> apply_chosen_topology(std::string_view wanted, TpuReport report);

}  // namespace kpt
