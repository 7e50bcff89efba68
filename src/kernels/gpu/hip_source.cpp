#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "kernels/gpu/host_kernels.h"
#include "kernels/gpu/kernel_sources.h"

namespace kpt::gpu {
namespace {

#define KPT_PLAIN_FAMILY(family) KernelFamily{#family, MatrixUnit::kNone},
#define KPT_MATRIX_FAMILY(family, unit) KernelFamily{#family, MatrixUnit::unit},
constexpr std::array kFamilies = {KPT_GPU_FAMILIES(KPT_PLAIN_FAMILY) KPT_MATRIX_FAMILIES(KPT_MATRIX_FAMILY)};
#undef KPT_PLAIN_FAMILY
#undef KPT_MATRIX_FAMILY

}  // namespace

std::span<const KernelFamily> kernel_families() { return kFamilies; }

std::string hip_source(std::string_view family) {
  if (std::ranges::find(kFamilies, family, &KernelFamily::name) == kFamilies.end()) return "";
  std::string upper(family);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(
      "#include \"kernels/gpu/{}_kernels.h\"\n"
      "#include \"kernels/gpu/hip_entry.h\"\n"
      "using namespace kpt::gpu;\n"
      "KPT_{}_KERNELS(KPT_HIP_KERNEL)\n",
      family, upper);
}

}  // namespace kpt::gpu
