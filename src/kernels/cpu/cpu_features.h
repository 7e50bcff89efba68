// Which instructions this processor and its operating system offer, found at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kpt::kernels {

// All false where the processor is of another kind. A value: tests make machines of their own.
struct CpuFeatures {
  // aarch64; plain NEON is part of every such processor.
  bool neon = false;
  bool dot_product = false;      // SDOT
  bool bfloat16_matrix = false;  // BFMMLA
  bool int8_matrix = false;      // SMMLA
  // x86_64; each counts only when the operating system saves the registers too.
  bool avx2 = false;    // with FMA
  bool avx512 = false;  // F, BW, VL and DQ
  bool avx512_vnni = false;
  bool avx512_bfloat16 = false;
  // Each counts only where the system lets this process have tile registers.
  bool amx_bfloat16 = false;  // with avx512_bfloat16
  bool amx_int8 = false;      // with avx512_vnni
  // Bits of is_hidden(), set by without().
  std::uint32_t hidden = 0;

  // The same processor with sets left alone, each as a word of the option cpu.isa: "no-bf16". A set goes with those
  // that no processor has without it. Words of sets that are of no use here change nothing.
  CpuFeatures without(std::span<const std::string> words) const;
  // Whether a feature is false only because of without().
  bool is_hidden(bool CpuFeatures::* feature) const;
  // "neon, dotprod, bf16, i8mm"; "none" when empty.
  std::string to_string() const;
};

// What the system said when it was asked, once per process, less what hide_cpu_features() took.
CpuFeatures cpu_features();

// Hides sets (words of without()) from all kernels that this process chooses from now on; a later call replaces an
// earlier one. Each program and each module opened at run time has its own copy of this setting. Thread safe.
void hide_cpu_features(std::span<const std::string> words);

}  // namespace kpt::kernels
