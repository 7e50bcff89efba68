#include "backends/amd/target_traits.h"

#include <algorithm>

#include "backends/amd/hip_compiler.h"

namespace kpt {

native::Traits native_traits(const AmdArchitecture& architecture, int compute_units) {
  native::Traits traits;
  traits.shape.wave = architecture.wavefront_size;
  // A hint for how many blocks to start; no kernel of a planned launch depends on it.
  traits.shape.multiprocessors = std::max(compute_units, 1);
  const auto families = gpu::kernel_families();
  const auto matrix = std::ranges::find(families, std::string_view("matrix"), &gpu::KernelFamily::name);
  traits.matrix_cores = matrix != families.end() && runs_family(architecture, *matrix);
  return traits;
}

}  // namespace kpt
