// One row of the result of a convolution of each channel by itself, as conv_depthwise.cpp hands it to the kernels of
// simd_kernels.h.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/activation.h"

namespace kpt::kernels {

struct DepthwiseRow {
  const void* image = nullptr;  // [height][width][channels], float32 or bfloat16
  bool is_bfloat16 = false;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::array<std::int64_t, 2> kernel = {};
  std::array<std::int64_t, 2> dilation = {};
  std::int64_t stride = 1;         // along the row
  std::int64_t top = 0;            // of the filter in the input
  std::int64_t left = 0;           // at the first place
  const float* filters = nullptr;  // [kernel height][kernel width][channels]
  const float* bias = nullptr;     // [channels]
  Limits limits;                   // what the sums are clamped to; a NaN stays one
  std::int64_t places = 0;
  float* sums = nullptr;  // [places][channels]
};

}  // namespace kpt::kernels
