// How exactly products of float32 are computed, as the module says it.
#pragma once

#include <string>
#include <string_view>

namespace kpt {

// As the lowering writes it.
inline constexpr std::string_view kHighestPrecision = "HIGHEST";

// How many products of bfloat16 a TPU makes of one of float32 at that precision: 6, 3 or 1.
int count_passes(std::string_view precision);

// The module's text with `wanted` ("HIGHEST", "HIGH", "DEFAULT") in the place of the highest precision.
std::string set_matrix_precision(std::string text, std::string_view wanted);

}  // namespace kpt
