#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "kernels/gpu/host_kernels.h"
#include "kernels/gpu/kernel_sources.h"

namespace kpt::gpu {
namespace {

#define KPT_INSTRUCTIONS(family, ...) constexpr std::string_view k_##family##_instructions[] = {__VA_ARGS__};
KPT_CDNA_FAMILIES(KPT_INSTRUCTIONS)
#undef KPT_INSTRUCTIONS

#define KPT_PLAIN_FAMILY(family) KernelFamily{#family, {}},
#define KPT_CDNA_FAMILY(family, ...) KernelFamily{#family, k_##family##_instructions},
constexpr std::array kFamilies = {KPT_GPU_FAMILIES(KPT_PLAIN_FAMILY) KPT_CDNA_FAMILIES(KPT_CDNA_FAMILY)};
#undef KPT_PLAIN_FAMILY
#undef KPT_CDNA_FAMILY

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
