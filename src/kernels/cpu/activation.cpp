#include "kernels/cpu/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/simd_kernels.h"

namespace kpt::kernels {
namespace {

double clamp_to_6(double x) { return std::isnan(x) ? x : std::clamp(x, 0.0, 6.0); }

}  // namespace

double apply_exactly(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x < 0 ? 0.0 : x;
    case Activation::kGelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh: {
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kHardswish: return x * clamp_to_6(x + 3) / 6;
    case Activation::kHardsigmoid: return clamp_to_6(x + 3) / 6;
    case Activation::kRelu6: return clamp_to_6(x);
  }
  return x;
}

void apply(Activation activation, float* values, std::int64_t count) {
  simd_kernels().activate(activation, values, count);
}

}  // namespace kpt::kernels
