// The one table of instruction sets that we make use of: how the kernel spells them, what we call them, and which
// number formats they multiply as matrices or dot products.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/hardware.h"

namespace kpt {

struct IsaSummary {
  std::vector<std::string> names;  // "AVX2", "SVE2", …: in the table's order, simple to powerful, each once
  std::vector<Precision> matrix_precisions;
  bool operator==(const IsaSummary&) const = default;
};

// `architecture` is "x86_64" or "aarch64"; any other gives an empty summary. `flags` are the words of the 'flags' (x86)
// or 'Features' (Arm) line of /proc/cpuinfo; words that are not in the table are ignored.
IsaSummary summarize_isa(std::string_view architecture, const std::vector<std::string>& flags);

}  // namespace kpt
