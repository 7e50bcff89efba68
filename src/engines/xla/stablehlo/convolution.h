// Convolution on values.
#pragma once

#include <optional>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

struct ConvolutionShape {
  Extents stride, low, high, dilation;  // one entry per spatial axis; low and high: zeros put around the input
  Extents input_dilation;               // of transposed convolutions; empty: none
  std::int64_t groups = 1;
};

// input [N, C, spatial…], weight [O, C / groups, spatial…], bias [O]; sums and result in math_dtype(), or in `sums`.
Value convolve(Builder& builder, const Value& input, const Value& weight, const std::optional<Value>& bias,
               const ConvolutionShape& shape, std::optional<DType> sums = {});

}  // namespace kpt::xla
