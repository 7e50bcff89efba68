#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "kernels/gpu/host_kernels.h"
#include "kernels/gpu/kernel_sources.h"

namespace kpt::gpu {
namespace {

#define KPT_FAMILY_NAME(family) std::string_view(#family),
constexpr std::array kFamilies = {KPT_GPU_FAMILIES(KPT_FAMILY_NAME)};
#undef KPT_FAMILY_NAME

}  // namespace

std::span<const std::string_view> kernel_families() { return kFamilies; }

std::string hip_source(std::string_view family) {
  if (std::ranges::find(kFamilies, family) == kFamilies.end()) return "";
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
