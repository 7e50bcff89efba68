// The one table of instruction sets that we make use of: how the kernel spells them, what we call them, and which
// number formats they multiply as matrices or dot products.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/hardware.h"

namespace kpt {

struct IsaSummary {
  std::vector<std::string> names;   // "AVX2", "SVE2", …: in the table's order, simple to powerful, each once
  std::vector<std::string> hidden;  // likewise: what is there but shall not be used
  std::vector<Precision> matrix_precisions;
  bool operator==(const IsaSummary&) const = default;
};

// `architecture` is "x86_64" or "aarch64"; any other gives an empty summary. `flags` are the words of the 'flags' (x86)
// or 'Features' (Arm) line of /proc/cpuinfo; words that are not in the table are ignored. `hide`: words of the option
// cpu.isa, whose flags count as absent:
//   no-dotprod  asimddp, and i8mm, which no processor has without it
//   no-i8mm     i8mm, svei8mm
//   no-bf16     bf16, svebf16, avx512_bf16, amx_bf16, SME's bfloat16 products
//   no-sme      sme and all that belongs to it
//   no-avx2     avx2, fma, and all of AVX-512, AVX-VNNI and AMX
//   no-avx512   all of AVX-512, and AMX, which no processor has without it
//   no-vnni     avx_vnni, avx512_vnni, and amx_int8, which no processor has without them
//   no-amx      all of AMX
// kernels::CpuFeatures::without() takes the same words.
IsaSummary summarize_isa(std::string_view architecture, const std::vector<std::string>& flags,
                         std::span<const std::string> hide = {});

}  // namespace kpt
