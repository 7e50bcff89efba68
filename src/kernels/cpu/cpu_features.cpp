#include "kernels/cpu/cpu_features.h"

#include <algorithm>
#include <array>
#include <atomic>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
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

// Tile registers are 8 KiB more to save, so Linux gives them to processes that ask (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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
  const bool saves_tiles = (saved & 0x60000U) == 0x60000U;
  if (features.avx512 && saves_tiles && has_bit(extended.edx, 24) && may_use_tiles()) {
    features.amx_bfloat16 = features.avx512_bfloat16 && has_bit(extended.edx, 22);
    features.amx_int8 = features.avx512_vnni && has_bit(extended.edx, 25);
  }
  return features;
}

#else

CpuFeatures detect() { return {}; }

#endif

struct FeatureRow {
  bool CpuFeatures::* member;
  std::string_view name;
  std::array<std::string_view, 4> hidden_by;  // empty words hide nothing
};

// The words are those of summarize_isa() in backends/cpu/isa.h.
constexpr std::array<FeatureRow, 10> kRows = {{
    {&CpuFeatures::neon, "neon", {}},
    {&CpuFeatures::dot_product, "dotprod", {"no-dotprod"}},
    {&CpuFeatures::bfloat16_matrix, "bf16", {"no-bf16"}},
    {&CpuFeatures::int8_matrix, "i8mm", {"no-i8mm", "no-dotprod"}},
    {&CpuFeatures::avx2, "avx2", {"no-avx2"}},
    {&CpuFeatures::avx512, "avx512", {"no-avx512", "no-avx2"}},
    {&CpuFeatures::avx512_vnni, "avx512_vnni", {"no-vnni", "no-avx512", "no-avx2"}},
    {&CpuFeatures::avx512_bfloat16, "avx512_bf16", {"no-bf16", "no-avx512", "no-avx2"}},
    {&CpuFeatures::amx_bfloat16, "amx_bf16", {"no-amx", "no-bf16", "no-avx512", "no-avx2"}},
    {&CpuFeatures::amx_int8, "amx_int8", {"no-amx", "no-vnni", "no-avx512", "no-avx2"}},
}};

// The features that are hidden from this process, as bits in the order of the rows.
std::atomic<std::uint32_t>& process_hidden() {
  static std::atomic<std::uint32_t> hidden{0};
  return hidden;
}

std::uint32_t hidden_bits(std::span<const std::string> words) {
  std::uint32_t bits = 0;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    for (const std::string_view word : kRows[row].hidden_by) {
      if (!word.empty() && std::ranges::find(words, word) != words.end()) bits |= std::uint32_t{1} << row;
    }
  }
  return bits;
}

CpuFeatures hide(CpuFeatures features, std::uint32_t bits) {
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    bool& present = features.*kRows[row].member;
    if (((bits >> row) & 1U) == 0 || !present) continue;
    present = false;
    features.hidden |= std::uint32_t{1} << row;
  }
  return features;
}

}  // namespace

std::string CpuFeatures::to_string() const {
  std::string text;
  for (const FeatureRow& row : kRows) {
    if (!(this->*row.member)) continue;
    if (!text.empty()) text += ", ";
    text += row.name;
  }
  return text.empty() ? "none" : text;
}

CpuFeatures CpuFeatures::without(std::span<const std::string> words) const { return hide(*this, hidden_bits(words)); }

bool CpuFeatures::is_hidden(bool CpuFeatures::* feature) const {
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    if (kRows[row].member == feature) return ((hidden >> row) & 1U) != 0;
  }
  return false;
}

CpuFeatures cpu_features() {
  static const CpuFeatures kFeatures = detect();
  const std::uint32_t hidden = process_hidden().load(std::memory_order_relaxed);
  return hidden == 0 ? kFeatures : hide(kFeatures, hidden);
}

void hide_cpu_features(std::span<const std::string> words) {
  process_hidden().store(hidden_bits(words), std::memory_order_relaxed);
}

}  // namespace kpt::kernels
