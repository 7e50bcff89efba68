// Which gfx target the user means: the option amd.architecture, and what it says of the GPUs at hand.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "device/detection_context.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

// The target of `--target amd`: `wanted` (the option; empty means auto), or that of the GPUs which `detect` finds; not
// asked where the user has chosen. Fails with kConfiguration for a choice that the table does not have, with
// kDeviceNotAvailable without a GPU that it has, and with kInvalidArgument when there are GPUs of several targets.
Result<std::string> choose_amd_target(std::string_view wanted, const std::function<AmdReport()>& detect);

// Whether the GPU is one that the user has chosen: always with auto. Fails with kConfiguration as above, and with
// kInvalidArchitecture for another GPU.
Status check_chosen_target(std::string_view wanted, std::string_view device, std::string_view gfx_target);

}  // namespace kpt
