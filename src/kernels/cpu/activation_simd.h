// The loop of apply() (activation.h), compiled once for each instruction set (simd_kernels.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels::KPT_SIMD {

struct ActivationVector {
  static constexpr int kWidth = static_cast<int>(kLanes);
};

template <Activation kKind>
inline void activate_all(float* values, std::int64_t count) {
  using Math = VectorMath<ActivationVector>;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Math::store(values + i, Math::activate<kKind>(Math::load(values + i)));
  if (i == count) return;
  float rest[kLanes] = {};
  const auto bytes = static_cast<std::size_t>(count - i) * sizeof(float);
  std::memcpy(rest, values + i, bytes);
  Math::store(rest, Math::activate<kKind>(Math::load(rest)));
  std::memcpy(values + i, rest, bytes);
}

inline void activate(Activation activation, float* values, std::int64_t count) {
  switch (activation) {
    case Activation::kNone: return;
    case Activation::kRelu: return activate_all<Activation::kRelu>(values, count);
    case Activation::kGelu: return activate_all<Activation::kGelu>(values, count);
    case Activation::kGeluTanh: return activate_all<Activation::kGeluTanh>(values, count);
    case Activation::kSilu: return activate_all<Activation::kSilu>(values, count);
    case Activation::kSigmoid: return activate_all<Activation::kSigmoid>(values, count);
    case Activation::kTanh: return activate_all<Activation::kTanh>(values, count);
    case Activation::kHardswish: return activate_all<Activation::kHardswish>(values, count);
    case Activation::kHardsigmoid: return activate_all<Activation::kHardsigmoid>(values, count);
    case Activation::kRelu6: return activate_all<Activation::kRelu6>(values, count);
  }
}

}  // namespace kpt::kernels::KPT_SIMD
