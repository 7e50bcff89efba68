#include "cli/program_text.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "device/hardware_json.h"

namespace kpt::cli {

std::string render_kernels(const std::vector<KernelFigures>& kernels) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "threads", "VGPRs", "AGPRs", "SGPRs", "spills", "LDS", "private", "waves per SIMD"}};
  for (const KernelFigures& kernel : kernels) {
    rows.push_back({kernel.name, std::to_string(kernel.threads), std::to_string(kernel.vector_registers),
                    std::to_string(kernel.accumulation_registers), std::to_string(kernel.scalar_registers),
                    std::to_string(kernel.vector_spills + kernel.scalar_spills), fmt::format("{} B", kernel.lds_bytes),
                    fmt::format("{} B", kernel.private_bytes),
                    fmt::format("{} of {}", kernel.waves, kernel.most_waves)});
  }
  return format_table(rows);
}

}  // namespace kpt::cli
