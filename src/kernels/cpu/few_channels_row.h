// One row of the result of a convolution of few input channels, as conv_few_channels.cpp hands it to the kernels of
// simd_kernels.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/activation.h"

namespace kpt::kernels {

// Places of the filter times input channels.
inline constexpr std::int64_t kMostTaps = 256;
// What the number of output channels is a multiple of, and how many of them have their filters side by side.
inline constexpr std::int64_t kLeastOutChannels = 16;
inline constexpr std::int64_t kFilterGroup = 32;

struct FewChannelsRow {
  const float* lines = nullptr;        // the input's lines below the row, with the zeros that surround them
  const std::int64_t* taps = nullptr;  // where in `lines` each tap of the first place lies
  std::int64_t tap_count = 0;          // at most kMostTaps
  std::int64_t step = 0;               // from one place to the next in `lines`
  const float* filters = nullptr;      // [channels / kFilterGroup][tap][kFilterGroup], the last group as it is
  const float* bias = nullptr;         // [channels]
  std::int64_t channels = 0;           // of the result, a multiple of kLeastOutChannels
  Limits limits;                       // what the sums are clamped to; a NaN stays one
  std::int64_t places = 0;
  float* sums = nullptr;  // [places][channels]
};

}  // namespace kpt::kernels
