// A program on a TPU that is here.
#pragma once

#include <memory>
#include <string>

#include "backends/tpu/libtpu.h"
#include "backends/tpu/tpu_compiler.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/execution/xla_device.h"

namespace kpt {

// Takes what TpuDeviceTarget makes, and an AheadProgram for the same slice: its executable is loaded where
// find_misfit() has nothing to say and the graph is lowered to the module it was made from, and otherwise compiled
// anew, with a line in the log. The device's target must be a TpuDeviceTarget. Products are computed by tpu.precision;
// programs are compiled by the client, or, with pjrt.compile_timeout_ms, by libtpu in a process of its own (`compiler`,
// which must outlive the result). Fails with kInvalidArgument for a program of another target, with kOutOfMemory and
// the figures when it takes more of the device's memory than tpu.memory_percent leaves, with kUnsupported for a time
// limit on a slice of unknown shape, and as load_on_device() does.
Result<std::unique_ptr<Executable>> load_tpu_program(const std::shared_ptr<const Program>& program,
                                                     const Weights& weights, XlaDevice& device,
                                                     const TpuCompiler& compiler, const BackendContext& context);

// Why a stored executable is not for this machine, one clause; empty when it is. It must have been made by this libtpu
// (its package's version, or what it says of itself where that is not known), for this kind of device and with this
// precision of products.
std::string find_misfit(const AheadProgram& program, const Libtpu& libtpu, const pjrt::Client& client,
                        std::size_t device, const std::string& precision);

}  // namespace kpt
