// Normalization over the last axes, on values in float32 or float64.
#pragma once

#include <optional>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

struct Normed {
  Value value;
  Value mean;     // with the axes kept; of rms_norm: not set
  Value inverse;  // 1 / sqrt(variance + epsilon)
};

// Weight and bias have the dims of the normalized axes.
Normed layer_norm(Builder& builder, const Value& x, std::size_t axes, const std::optional<Value>& weight,
                  const std::optional<Value>& bias, double epsilon);
Normed rms_norm(Builder& builder, const Value& x, std::size_t axes, const std::optional<Value>& weight, double epsilon);

}  // namespace kpt::xla
