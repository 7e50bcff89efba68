// What XLA's CPU compiler must be told about this host before its plugin is opened.
//
// LLVM takes an Arm core's name for its instructions: on a machine whose kernel or hypervisor hides SVE it still
// vectorises with it, and the program dies of an illegal instruction. The kernel's list of features knows better.
#pragma once

#include <string>
#include <string_view>

#include "kpt/status.h"

namespace kpt::pjrt {

// The value for XLA_FLAGS: `given` (what the user set), and where `cpuinfo` is of an Arm processor without SVE, the
// flag that keeps the compiler from using it. A user's own xla_backend_extra_options stand.
std::string add_host_flags(std::string_view given, std::string_view cpuinfo);

// Sets XLA_FLAGS in this process. A plugin reads it once, when its first program is compiled.
void set_host_flags();

}  // namespace kpt::pjrt
