// How many operations the processor does when nothing but arithmetic holds it up: loops whose operands and sums stay in
// registers. What a product of matrices reaches is told as a share of these.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/matrix_kernel.h"

namespace kpt::kernels {

// One loop, to be run on as many threads as shall be busy and timed by the caller. A multiplication and an addition
// count as two operations.
struct PeakLoop {
  LinearForm form = LinearForm::kFloat32;  // what is multiplied: kFloat32, kBfloat16 or kInt8
  std::string_view instructions;           // "FMLA"; "plain C++" where this build knows no instructions
  double operations = 0;                   // of one round
  void (*run)(std::int64_t rounds) = nullptr;
};

// At most one per form, the best that `features` offers; float32 is always there. A form that is missing has no
// instructions of its own: its products are made by those of another.
std::vector<PeakLoop> list_peak_loops(const CpuFeatures& features);

}  // namespace kpt::kernels
