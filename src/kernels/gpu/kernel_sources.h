// The text of the kernels, for compilers that run when a model is compiled.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

struct SourceFile {
  std::string_view path;  // "kernels/gpu/simt.h": as it is included
  std::string_view text;
};

// All headers that device code includes.
std::span<const SourceFile> kernel_sources();
struct KernelFamily {
  std::string_view name;  // "norm": what norm_kernels.h holds
  MatrixUnit unit;        // the one it is for; kNone: it runs everywhere
};
// Those that AMD's code objects are made of: list_kernels() has more, for NVIDIA alone.
std::span<const KernelFamily> kernel_families();
// A HIP source that defines every kernel of a family by its name; includes files of kernel_sources(). The compiler must
// be given -DKPT_WAVE=32 or 64 and -DKPT_SIMD_REGISTERS=, vector registers of a lane over all waves of a SIMD. Empty
// for an unknown family.
std::string hip_source(std::string_view family);

}  // namespace kpt::gpu
