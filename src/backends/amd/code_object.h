// What a code object for an AMD GPU says of itself: its target, its kernels and what they need.
//
// A code object is an ELF file; its note "AMDGPU" holds a MessagePack map (code object versions 3 to 6). Only that is
// read, and all of it as untrusted input. The occupancy of a kernel follows from it and the architecture table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/amd/architecture.h"
#include "kpt/status.h"

namespace kpt {

struct KernelResources {
  std::string name;
  std::uint64_t vector_registers = 0;  // with the accumulation registers where the target has one file for both
  std::uint64_t accumulation_registers = 0;
  std::uint64_t scalar_registers = 0;
  std::uint64_t vector_spills = 0;
  std::uint64_t scalar_spills = 0;
  std::uint64_t lds_bytes = 0;      // fixed; what a launch adds is not in the file
  std::uint64_t private_bytes = 0;  // of a lane
  std::uint64_t argument_bytes = 0;
  std::uint64_t wavefront_size = 0;
  std::uint64_t max_threads = 0;  // of a workgroup
  bool operator==(const KernelResources&) const = default;
};

struct CodeObject {
  std::string gfx_target;                // "gfx942", without features
  std::vector<KernelResources> kernels;  // sorted by name
};

// Fails with kCorruptData, naming what is wrong.
Result<CodeObject> read_code_object(std::span<const std::byte> bytes);

// Waves of the kernel that one SIMD holds when the device is full of workgroups of `threads`; 0 when not even one
// workgroup fits.
int waves_per_simd(const AmdArchitecture& architecture, const KernelResources& kernel, int threads);

// Ok if the kernel spills nothing and its registers and LDS are within the architecture's limits; otherwise which are
// not (kKernelCompilation).
Status check_resources(const AmdArchitecture& architecture, const KernelResources& kernel);

}  // namespace kpt
