#include "kernels/cpu/activation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/cpu/vector_math.h"

namespace kpt::kernels {
namespace {

struct Baseline {
  static constexpr int kWidth = 4;
};
using Math = VectorMath<Baseline>;

template <Activation kKind>
void apply_all(float* values, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) Math::store(values + i, Math::activate<kKind>(Math::load(values + i)));
  if (i == count) return;
  float rest[4] = {};
  const auto bytes = static_cast<std::size_t>(count - i) * sizeof(float);
  std::memcpy(rest, values + i, bytes);
  Math::store(rest, Math::activate<kKind>(Math::load(rest)));
  std::memcpy(values + i, rest, bytes);
}

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
  switch (activation) {
    case Activation::kNone: return;
    case Activation::kRelu: return apply_all<Activation::kRelu>(values, count);
    case Activation::kGelu: return apply_all<Activation::kGelu>(values, count);
    case Activation::kGeluTanh: return apply_all<Activation::kGeluTanh>(values, count);
    case Activation::kSilu: return apply_all<Activation::kSilu>(values, count);
    case Activation::kSigmoid: return apply_all<Activation::kSigmoid>(values, count);
    case Activation::kTanh: return apply_all<Activation::kTanh>(values, count);
    case Activation::kHardswish: return apply_all<Activation::kHardswish>(values, count);
    case Activation::kHardsigmoid: return apply_all<Activation::kHardsigmoid>(values, count);
    case Activation::kRelu6: return apply_all<Activation::kRelu6>(values, count);
  }
}

}  // namespace kpt::kernels
