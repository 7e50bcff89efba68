#include "kernels/cpu/cpu_features.h"

#include <array>
#include <utility>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kpt::kernels {
namespace {

#if defined(__aarch64__) && defined(__linux__)

// Bits of the kernel's interface (Documentation/arch/arm64/elf_hwcaps); older system headers lack the later ones.
constexpr unsigned long kCapabilityDotProduct = 1UL << 20;
constexpr unsigned long kCapability2Int8Matrix = 1UL << 13;
constexpr unsigned long kCapability2Bfloat16 = 1UL << 14;

CpuFeatures detect() {
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  CpuFeatures features;
  features.neon = true;
  features.dot_product = (first & kCapabilityDotProduct) != 0;
  features.int8_matrix = (second & kCapability2Int8Matrix) != 0;
  features.bfloat16_matrix = (second & kCapability2Bfloat16) != 0;
  return features;
}

#elif defined(__x86_64__)

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf read_leaf(unsigned leaf, unsigned subleaf) {
  CpuidLeaf result;
  if (__get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx) == 0) return {};
  return result;
}

bool has_bit(unsigned value, int bit) { return ((value >> bit) & 1U) != 0; }

// Register sets that the operating system saves on a switch; the instruction exists when OSXSAVE is set.
unsigned saved_registers() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

CpuFeatures detect() {
  CpuFeatures features;
  const CpuidLeaf basic = read_leaf(1, 0);
  if (!has_bit(basic.ecx, 27)) return features;  // OSXSAVE
  const unsigned saved = saved_registers();
  const bool saves_ymm = (saved & 0x6U) == 0x6U;
  const bool saves_zmm = (saved & 0xE6U) == 0xE6U;
  const CpuidLeaf extended = read_leaf(7, 0);
  const CpuidLeaf extended_1 = read_leaf(7, 1);
  features.avx2 = saves_ymm && has_bit(basic.ecx, 12) && has_bit(basic.ecx, 29) && has_bit(extended.ebx, 5);
  features.avx512 = features.avx2 && saves_zmm && has_bit(extended.ebx, 16) && has_bit(extended.ebx, 17) &&
                    has_bit(extended.ebx, 30) && has_bit(extended.ebx, 31);
  features.avx512_vnni = features.avx512 && has_bit(extended.ecx, 11);
  features.avx512_bfloat16 = features.avx512 && has_bit(extended_1.eax, 5);
  return features;
}

#else

CpuFeatures detect() { return {}; }

#endif

}  // namespace

std::string CpuFeatures::to_string() const {
  const std::array<std::pair<bool, std::string_view>, 8> names = {{{neon, "neon"},
                                                                   {dot_product, "dotprod"},
                                                                   {bfloat16_matrix, "bf16"},
                                                                   {int8_matrix, "i8mm"},
                                                                   {avx2, "avx2"},
                                                                   {avx512, "avx512"},
                                                                   {avx512_vnni, "avx512_vnni"},
                                                                   {avx512_bfloat16, "avx512_bf16"}}};
  std::string text;
  for (const auto& [present, name] : names) {
    if (!present) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text.empty() ? "none" : text;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures kFeatures = detect();
  return kFeatures;
}

}  // namespace kpt::kernels
