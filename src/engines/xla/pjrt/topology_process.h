// Compiling for hardware that is not here, in a process of its own: kpt-tpu-compile, run as it is where the plugin is
// made for this processor, and through user-mode emulation where it is made for x86_64 and this is another.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/files.h"
#include "device/compile_figures.h"
#include "engines/xla/pjrt/topology_compile.h"
#include "kpt/status.h"

namespace kpt::pjrt {

struct TopologyLimits {
  std::chrono::milliseconds time{1800000};             // for waiting and compiling together
  std::uint64_t memory_bytes = 0;                      // of private memory that the compiler may take; 0: no limit
  std::string time_option = "tpu.compile_timeout_ms";  // that sets the time, for the sentence
  // This process has a client of the same plugin, and libtpu's own lock with it: the compiler does without.
  bool beside_client = false;
};

struct TopologyProgram {
  std::string executable;  // serialized
  CompileFigures figures;
  std::int64_t devices = 0;  // of the topology, as the compiler counts them
};

// Of one plugin one compiler runs at a time for one user: libtpu takes a lock of its own and fails beside another.
// All failures carry Vendor::kTpu. Fails with
//   kNotFound             the compile program, the emulator or the emulated processor's C library is not installed;
//                         the sentence names the package
//   kCompilation          the compiler refused the module (its own message), crashed, or answered nonsense
//   kCompilationTimeout   the time passed, in the compiler or waiting for another one
//   kOutOfMemory          the compiler says that the program does not fit the device
//   kUnsupported          the plugin lacks a call, or is for a processor that nothing here emulates
//   kVendorLibrary        the library is no plugin that we know
Result<TopologyProgram> compile_topology_in_child(const TopologyRequest& request, const TopologyLimits& limits,
                                                  const Environment& environment, const SystemFiles& files);

// What made a program, as figures name it: the interface's version ("0.116") and what the plugin says of itself.
std::string describe_compiler(std::string_view api, std::string_view platform_version);

// The file that a running compile with this plugin holds locked; gone when it ends.
std::filesystem::path topology_lock_path(const std::string& library);

// The Debian package that brings what is missing for compiling with this plugin here; empty when nothing is. For the
// doctor and for tests that say why they are skipped.
std::string find_missing_package(const std::string& library, const Environment& environment, const SystemFiles& files);

// What kpt-tpu-compile answered, without the executable; `output` is all that it printed. Fails with kCompilation when
// there is no answer in it or one that cannot be read, and with the failure that it tells.
Result<TopologyProgram> read_topology_answer(const std::string& output);

}  // namespace kpt::pjrt
