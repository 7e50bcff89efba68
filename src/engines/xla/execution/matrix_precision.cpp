#include "engines/xla/execution/matrix_precision.h"

#include <fmt/format.h>

namespace kpt {

// bfloat16 has 8 bits of a float32's 24: three parts hold it, and six of their nine products reach its last bit.
int count_passes(std::string_view precision) {
  if (precision == kHighestPrecision) return 6;
  return precision == "HIGH" ? 3 : 1;
}

std::string set_matrix_precision(std::string text, std::string_view wanted) {
  if (wanted == kHighestPrecision) return text;
  const std::string highest = fmt::format("#stablehlo<precision {}>", kHighestPrecision);
  const std::string other = fmt::format("#stablehlo<precision {}>", wanted);
  for (auto at = text.find(highest); at != std::string::npos; at = text.find(highest, at + other.size())) {
    text.replace(at, highest.size(), other);
  }
  return text;
}

}  // namespace kpt
