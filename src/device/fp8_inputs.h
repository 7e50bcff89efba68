// What FP8 products do with their inputs.
#pragma once

#include <cstdint>

namespace kpt {

// How inputs of FP8 products are scaled: each row by its own greatest magnitude, the tensor by its own, or the tensor
// by the greatest of earlier runs.
enum class Fp8Scaling : std::uint8_t { kRow, kTensor, kDelayed };

// What inputs of FP8 products are rounded to: float8_e4m3fn (three bits behind the point), float8_e5m2 (two, and 2^13
// times the range), or for each product what keeps more of the inputs that were seen.
enum class Fp8Inputs : std::uint8_t { kE4M3, kE5M2, kByData };

}  // namespace kpt
