// TPUs as targets: programs are compiled for them without one being here. Running them is not offered.
#pragma once

#include <memory>
#include <string_view>

#include "device/backend_context.h"
#include "device/execution.h"

namespace kpt {

// Why a TPU that is here is no device.
inline constexpr std::string_view kTpusAreNotRun = "this version compiles programs for TPUs but does not run them";

// targets(): one for each row of tpu_topologies(), named "tpu:v5e:2x2". Each is for fixed sizes only (compile() fails
// with kInvalidArgument for a graph with symbols, compile_sized() takes their values) and for one device of the slice;
// each is a ModelExaminer, too.
// Beside what TpuCompiler gives, compiling fails with kOutOfMemory and the figures when the program does not fit the
// memory of one device that tpu.memory_percent leaves.
// devices() fails with the reason, also where TPU chips are.
std::unique_ptr<Backend> make_tpu_backend(const BackendContext& context);

}  // namespace kpt
