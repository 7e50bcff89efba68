// A compiled program for people: what its kernels take of the hardware.
#pragma once

#include <string>
#include <vector>

#include "device/compile_figures.h"

namespace kpt::cli {

// A row for each kernel: registers, spills, shared memory, and how many waves of it a SIMD holds.
std::string render_kernels(const std::vector<KernelFigures>& kernels);

}  // namespace kpt::cli
