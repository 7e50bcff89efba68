// Which instructions this processor and its operating system offer, found at run time.
#pragma once

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

  // "neon, dotprod, bf16, i8mm"; "none" when empty.
  std::string to_string() const;
};

// Asks the system once per process.
const CpuFeatures& cpu_features();

}  // namespace kpt::kernels
