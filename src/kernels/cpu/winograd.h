// What F(2 x 2, 3 x 3) needs of an instruction set: Winograd's way to convolve with a filter of 3 x 3, by tiles of 2 x
// 2 results with 16 products instead of 36 (Lavin and Gray, 2015). V = Bᵀ d B of 4 x 4 pixels, M = U · V per place and
// channel, results Aᵀ M A. Errors were 1.1 and 2.4 times those of the plain run over all of ResNet-50, with two sets of
// weights.
#pragma once

#include <cstdint>

#include "kernels/cpu/matrix_kernel.h"

namespace kpt::kernels {

inline constexpr int kWinogradPlaces = 16;
// Channels and filters come in multiples of this.
inline constexpr std::int64_t kWinogradChannels = 16;

// One tile of the input.
struct WinogradInput {
  const void* pixels[kWinogradPlaces] = {};  // row by row; those outside the image are zeros somewhere
  ElementType type = ElementType::kFloat32;
  std::int64_t channels = 0;
  float* target = nullptr;     // the tile's row in the first of 16 panels of A
  std::int64_t panel = 0;      // elements from one panel to the next
  std::int64_t unit_step = 0;  // elements from one unit of 8 channels to the next
};

// One tile of the results, and so many of its columns.
struct WinogradOutput {
  const float* sums = nullptr;  // the tile's row in the first of 16 tiles of products
  std::int64_t tile = 0;        // elements from one to the next
  std::int64_t columns = 0;
  const float* bias = nullptr;   // null: none
  const void* residual[4] = {};  // null: none
  ElementType residual_type = ElementType::kFloat32;
  void* out[4] = {};  // null: outside the result
  ElementType out_type = ElementType::kFloat32;
  Activation activation = Activation::kNone;
};

}  // namespace kpt::kernels
