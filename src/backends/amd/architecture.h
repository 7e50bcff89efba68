// The one table of AMD's gfx targets. Everything that asks "has it matrix cores", "which FP8" asks here or reads a
// report that was filled from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/compile_figures.h"
#include "device/hardware.h"

namespace kpt {

// kMfma: CDNA's instructions, wavefronts of 64. kWmma: RDNA's, wavefronts of 32.
enum class AmdMatrixUnit { kNone, kMfma, kWmma };

// A matrix instruction by the compiler's name of it, without "__builtin_amdgcn_": m x n results of k products each.
struct AmdMatrixInstruction {
  Precision precision = Precision::kFp32;
  std::string_view name;
  int m = 0, n = 0, k = 0;
};

// What decides how many waves a SIMD holds, at the architecture's own wavefront size.
struct AmdRegisterFile {
  int registers = 0;  // vector registers of a lane over all waves of a SIMD
  int granule = 0;    // a wave gets a multiple of this
  int most = 0;       // that one wave may have
  int max_waves = 0;  // of a SIMD, however few registers they use
  int simds = 0;      // of a compute unit
  int scalars = 0;    // scalar registers of a SIMD that waves share; 0: every wave has enough of its own
};

struct AmdArchitecture {
  std::string_view gfx_target;
  std::string_view name;   // "CDNA3"
  int wavefront_size = 0;  // that compilers use by default
  AmdMatrixUnit matrix_unit = AmdMatrixUnit::kNone;
  std::span<const Precision> matrix_precisions;
  std::size_t lds_bytes = 0;    // local memory of a compute unit, all of which one workgroup may use
  std::size_t lds_granule = 0;  // a workgroup gets a multiple of this
  Fp8Flavour fp8_flavour = Fp8Flavour::kNone;
  AmdRegisterFile registers;
  std::span<const AmdMatrixInstruction> matrix_instructions;
};

// The row of a target ("gfx942"); nullptr when this release does not know it. A neighbour's row is never given instead.
const AmdArchitecture* find_amd_architecture(std::string_view gfx_target);
std::span<const AmdArchitecture> amd_architectures();

// Published rates by the name that the driver gives a product ("AMD Instinct MI300X"); null where this tree has none.
const HardwareRates* find_amd_rates(std::string_view name);
// Those of the fastest product of a target that this tree has; null where it has none.
const HardwareRates* find_amd_target_rates(std::string_view gfx_target);

// The kernel's number (major·10000 + minor·100 + stepping) as a name: 90402 → "gfx942", 90010 → "gfx90a". Nothing if
// the number cannot be one.
std::optional<std::string> gfx_target_from_kfd(std::uint64_t gfx_target_version);

// Fills architecture, wavefront size, matrix cores, precisions and FP8 flavour from gpu.gfx_target. An unknown target
// becomes "unknown (gfx1300)" with everything else left as it is.
void describe_amd_target(AmdGpu& gpu);

}  // namespace kpt
