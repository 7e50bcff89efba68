// The one table from compute capability to what an NVIDIA GPU is. Everything that asks "is this Hopper", "has it FP8"
// asks here or reads a report that was filled from here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/compile_figures.h"
#include "device/hardware.h"

namespace kpt {

struct NvidiaArchitecture {
  int major = 0;
  int minor = 0;
  std::string_view name;
  // Formats that the matrix units multiply at a rate worth choosing them for. Left out: what runs in emulation (INT4
  // from Hopper on) and what exists only so that old code runs (FP64 on cards for graphics, INT8 and FP64 on 10.3).
  std::span<const Precision> matrix_precisions;
};

// The row of a capability; nullptr when this release does not know it. A neighbour's row is never given instead.
const NvidiaArchitecture* find_nvidia_architecture(int major, int minor);
std::span<const NvidiaArchitecture> nvidia_architectures();

// "Hopper"; "unknown (sm_140)" when the table has no row.
std::string nvidia_architecture_name(int major, int minor);
// Empty for an unknown capability.
std::vector<Precision> nvidia_matrix_precisions(int major, int minor);
// Published rates by the product's name as the driver tells it ("NVIDIA H200"); nullptr for one this table lacks.
const HardwareRates* find_nvidia_rates(std::string_view product);
// "sm_90": the compiler's name of the target.
std::string nvidia_target_name(int major, int minor);

}  // namespace kpt
