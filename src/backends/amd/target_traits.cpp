#include "backends/amd/target_traits.h"

#include <algorithm>
#include <string_view>

namespace kpt {

gpu::MatrixUnit matrix_unit_of(const AmdArchitecture& architecture) {
  struct Row {
    std::string_view instruction;
    gpu::MatrixUnit unit;
  };
  constexpr Row kRows[] = {{"mfma_f32_16x16x32_f16", gpu::MatrixUnit::kCdna4},
                           {"mfma_i32_16x16x32_i8", gpu::MatrixUnit::kCdna3},
                           {"mfma_f32_16x16x16bf16_1k", gpu::MatrixUnit::kCdna2},
                           {"wmma_f32_16x16x16_f16_w32", gpu::MatrixUnit::kRdna3},
                           {"wmma_f32_16x16x16_f16_w32_gfx12", gpu::MatrixUnit::kRdna4}};
  for (const Row& row : kRows) {
    const auto& known = architecture.matrix_instructions;
    if (std::ranges::find(known, row.instruction, &AmdMatrixInstruction::name) != known.end()) return row.unit;
  }
  return gpu::MatrixUnit::kNone;
}

native::Traits native_traits(const AmdArchitecture& architecture, int compute_units, bool matrix_cores) {
  native::Traits traits;
  traits.shape.wave = architecture.wavefront_size;
  // A hint for how many blocks to start; no kernel of a planned launch depends on it.
  traits.shape.multiprocessors = std::max(compute_units, 1);
  if (matrix_cores) traits.shape.matrix = matrix_unit_of(architecture);
  return traits;
}

}  // namespace kpt
