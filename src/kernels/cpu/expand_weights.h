// Stored weights become floats before they are multiplied, for every instruction set. See vector_math.h for `Isa`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matrix_kernel.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels {

// Stored weights to float panels of kColumns columns.
template <typename Isa, std::ptrdiff_t kColumns>
struct ExpandWeights {
  using Math = VectorMath<Isa>;

  static void bfloat16(const StoredPanel& stored, float* weights) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(stored.weights) + stored.first * kColumns;
    for (std::int64_t i = 0; i < stored.depth * kColumns; i += Isa::kWidth) {
      Math::store(weights + i, Math::load_bfloat16(source + i));
    }
  }

  // One scale per column.
  static void int8(const StoredPanel& stored, float* weights) {
    const std::int8_t* codes = static_cast<const std::int8_t*>(stored.weights) + stored.first * kColumns;
    for (std::int64_t k = 0; k < stored.depth; ++k, codes += kColumns, weights += kColumns) {
      for (int n = 0; n < kColumns; ++n) weights[n] = static_cast<float>(codes[n]) * stored.scales[n];
    }
  }

  // Pairs of k share bytes: [K / 2][columns], the even one in the low four bits; values - 8. `first` is even.
  static void int4(const StoredPanel& stored, float* weights) {
    const auto* bytes = static_cast<const std::uint8_t*>(stored.weights);
    const std::int64_t end = stored.first + stored.depth;
    std::int64_t k = stored.first;
    while (k < end) {
      const std::int64_t group_end = (k / stored.group + 1) * stored.group;
      const float* scales = stored.scales + k / stored.group * kColumns;
      for (const std::int64_t stop = group_end < end ? group_end : end; k < stop; ++k, weights += kColumns) {
        Isa::expand_int4(bytes + k / 2 * kColumns, k % 2 != 0, scales, weights);
      }
    }
  }
};

// For instruction sets without something better: kColumns codes of one k to floats.
template <std::ptrdiff_t kColumns>
struct ExpandCodes {
  static void expand_int4(const std::uint8_t* pairs, bool odd, const float* scales, float* weights) {
    const int shift = odd ? 4 : 0;
    for (int n = 0; n < kColumns; ++n) weights[n] = static_cast<float>(((pairs[n] >> shift) & 15) - 8) * scales[n];
  }
};

}  // namespace kpt::kernels
