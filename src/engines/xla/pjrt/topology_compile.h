// Compiling for a topology that is named, not here: StableHLO text in, the serialized executable and figures out.
//
// This is the inside of the program kpt-tpu-compile. It is also compiled for x86_64 on other machines, where an
// emulator runs it (TPU compilers exist for x86_64 only), so it uses the C++ library, dlopen and the declarations
// beside it, and nothing else of this tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kpt::pjrt {

struct TopologyRequest {
  std::string library;                       // path of the plugin
  std::string topology;                      // as the plugin names it: "v5e:2x2"
  std::vector<std::int64_t> chips_per_host;  // option chips_per_host_bounds; empty: the plugin's own choice
  std::string chip_config;                   // option chip_config_name, likewise: "megacore" makes a chip one device
  std::string module_text;                   // StableHLO
  std::string compile_options;               // of encode_compile_options()
};

// Why there is no program. `code` is PJRT's number (3: invalid argument, 8: out of memory, 12: not implemented), or 0
// when no call failed: then the library itself is unusable.
struct TopologyFailure {
  std::string call;  // "PJRT_Compile"
  int code = 0;
  std::string message;  // the plugin's own words
};

// What the plugin told; nothing where it has no such call or does not implement it.
struct TopologyFigures {
  int api_major = 0;
  int api_minor = 0;
  std::int64_t devices = 0;      // of the topology
  std::string device_kind;       // "TPU v5 lite"
  std::string platform_version;  // of the compiler
  std::optional<std::int64_t> code_bytes;
  std::optional<std::int64_t> argument_bytes;
  std::optional<std::int64_t> output_bytes;
  std::optional<std::int64_t> alias_bytes;
  std::optional<std::int64_t> temporary_bytes;
  std::optional<std::int64_t> peak_bytes;
  std::optional<double> flops;
  std::optional<double> transcendentals;
  std::optional<double> bytes_accessed;
  std::optional<double> optimal_seconds;
};

struct TopologyResult {
  std::optional<TopologyFailure> failure;
  std::string executable;  // serialized; empty after a failure
  TopologyFigures figures;
};

// Opens the library and never closes it: one call per process. Crashes and hangs are the library's; whoever calls this
// is a process of its own.
TopologyResult compile_for_topology(const TopologyRequest& request);

// One line of JSON: {"failure": {…}} or {"figures": {…}}. The bytes of the executable are not in it.
std::string to_json(const TopologyResult& result);

}  // namespace kpt::pjrt
