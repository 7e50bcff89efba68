// What XLA must be told through the environment before a plugin is opened; its interface has no other way in.
//
// LLVM takes an Arm core's name for its instructions: on a machine whose kernel or hypervisor hides SVE it still emits
// them for vectors (integer division among them, even of fixed width), and the process dies of an illegal instruction.
// The kernel's list of features knows better. XLA's own limit on instruction sets does not help: it filters only what
// the kernel lists. So the compiler is kept from vectorising there: slower, and right.
//
// On an x86 processor that has AVX-512 and not its permutes of bytes (VBMI; Skylake to Cooper Lake), LLVM ends the
// process at some shuffles: "Cannot emit physreg copy instruction", seen where uint8 becomes float32 and is padded by
// one. With instructions up to AVX2 it does not.
#pragma once

#include <string>
#include <string_view>

#include "kpt/status.h"

namespace kpt::pjrt {

// The value for XLA_FLAGS: `given` (what the user set), and the flags that keep the CPU compiler from what would end
// the process here. A user's own value of the same flag stands.
std::string add_host_flags(std::string_view given, std::string_view cpuinfo);

// Whether the cores have SVE while the kernel does not list it. The flags above keep most programs from it, not all: a
// CPU plugin must not be used there.
bool hides_sve(std::string_view cpuinfo);

// AVX-512 without VBMI.
bool lacks_byte_permutes(std::string_view cpuinfo);

// Sets XLA_FLAGS (for a plugin that computes on the CPU) and, unless the user has set it, TF_CPP_MIN_LOG_LEVEL so that
// plugins print warnings and errors only. Both are read by a plugin once.
void set_xla_environment(bool computes_on_cpu);

// Sets how many threads a client for this machine's processor computes with, which is read when one is made.
void set_host_threads(int count);

}  // namespace kpt::pjrt
