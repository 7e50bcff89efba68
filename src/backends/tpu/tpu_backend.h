// TPUs: as targets, whose programs are compiled without one being here, and as devices where chips and libtpu are.
#pragma once

#include <memory>

#include "device/backend_context.h"
#include "device/execution.h"

namespace kpt {

// targets(): one for each row of tpu_topologies(), named "tpu:v5e:2x2". Each is for fixed sizes only (compile() fails
// with kInvalidArgument for a graph with symbols, compile_sized() takes their values) and for one device of the slice;
// each is a ModelExaminer, too.
// Beside what TpuCompiler gives, compiling fails with kOutOfMemory and the figures when the program does not fit the
// memory of one device that tpu.memory_percent leaves.
// devices(): tpu:0 and so on, all of one client of libtpu, which is asked in a child process first and opened here when
// a model is loaded or a tensor uploaded. Fails with kDeviceNotAvailable and the reason where chips or libtpu are not,
// and as apply_chosen_topology() does.
// load() takes what their target compiled and what was compiled for it without hardware (load_program.h).
std::unique_ptr<Backend> make_tpu_backend(const BackendContext& context);

}  // namespace kpt
