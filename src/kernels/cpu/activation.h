// The functions that kernels can apply to a result before they store it.
#pragma once

#include <cstdint>
#include <limits>

namespace kpt::kernels {

// In the order of ir::Activation, so that an engine converts by value.
enum class Activation : std::uint8_t {
  kNone,
  kRelu,
  kGelu,      // x Φ(x), by erf
  kGeluTanh,  // its usual approximation by tanh
  kSilu,
  kSigmoid,
  kTanh,
  kHardswish,
  kHardsigmoid,
  kRelu6
};
inline constexpr int kActivationCount = 10;

// Whether it is nothing but limits, which sums can be held to before they are stored.
constexpr bool is_clamp(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu || activation == Activation::kRelu6;
}

struct Limits {
  float least = -std::numeric_limits<float>::infinity();
  float greatest = std::numeric_limits<float>::infinity();
};

// Those of a clamp; none for the others.
constexpr Limits limits_of(Activation activation) {
  Limits limits;
  if (activation == Activation::kRelu || activation == Activation::kRelu6) limits.least = 0;
  if (activation == Activation::kRelu6) limits.greatest = 6;
  return limits;
}

// The exact function in double: what tests compare with.
double apply_exactly(Activation activation, double x);

// In place, by the widest vectors of this processor. The relative error against the exact function is below 2e-6
// wherever the result's magnitude is above 1e-36, also in the far tails (there 1e-5 for gelu, 1.5e-5 for gelu_tanh);
// the hard ones lose what x + 3 loses. NaN stays NaN.
void apply(Activation activation, float* values, std::int64_t count);

}  // namespace kpt::kernels
