#include "kernels/cpu/activation.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace kpt::kernels {
namespace {

double worst_relative_error(Activation activation, const std::vector<float>& inputs, float* where) {
  std::vector<float> results = inputs;
  apply(activation, results.data(), static_cast<std::int64_t>(results.size()));
  double worst = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double exact = apply_exactly(activation, static_cast<double>(inputs[i]));
    if (std::abs(exact) < 1e-36) {
      EXPECT_LT(std::abs(static_cast<double>(results[i])), 3e-36) << "at " << inputs[i];
      continue;
    }
    const double error = std::abs(static_cast<double>(results[i]) - exact) / std::abs(exact);
    if (!(error <= worst)) {
      worst = error;
      *where = inputs[i];
    }
  }
  return worst;
}

TEST(Activation, EveryFunctionIsNearTheExactOneOverItsWholeRange) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<float> inputs;
  std::uniform_real_distribution<float> wide(-100.0F, 100.0F);
  std::uniform_real_distribution<float> narrow(-15.0F, 15.0F);
  std::uniform_real_distribution<float> exponent(-30.0F, 0.0F);
  for (int i = 0; i < 60000; ++i) {
    inputs.push_back(wide(random));
    inputs.push_back(narrow(random));
    inputs.push_back(std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0F : -1.0F));
  }
  for (int kind = 0; kind < kActivationCount; ++kind) {
    const auto activation = static_cast<Activation>(kind);
    float where = 0;
    double limit = 2e-6;
    // Near -3 a hard function cancels in x + 3, as the float formula itself does; judged absolutely by its own test.
    if (activation == Activation::kHardswish || activation == Activation::kHardsigmoid) limit = 1e-2;
    // In the far tail the cubic in the exponent, rounded to float, is off by 2^-24 of its size.
    if (activation == Activation::kGeluTanh) limit = 1.5e-5;
    if (activation == Activation::kGelu) limit = 1e-5;
    EXPECT_LE(worst_relative_error(activation, inputs, &where), limit) << "activation " << kind << " at " << where;
  }
}

TEST(Activation, UsualArgumentsAreExactToAMillionthOrTwo) {
  std::vector<float> inputs;
  for (int step = -55000; step <= 60000; ++step) inputs.push_back(static_cast<float>(step) * 1e-4F);
  for (const Activation activation : {Activation::kGelu, Activation::kTanh, Activation::kSilu, Activation::kSigmoid}) {
    float where = 0;
    EXPECT_LE(worst_relative_error(activation, inputs, &where), 2e-6)
        << "activation " << static_cast<int>(activation) << " at " << where;
  }
}

TEST(Activation, HardFunctionsAreExactToTheLastPlaces) {
  std::vector<float> inputs;
  for (int step = -5000; step <= 8000; ++step) inputs.push_back(static_cast<float>(step) * 1e-3F);
  for (const Activation activation :
       {Activation::kRelu, Activation::kRelu6, Activation::kHardswish, Activation::kHardsigmoid}) {
    std::vector<float> results = inputs;
    apply(activation, results.data(), static_cast<std::int64_t>(results.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double exact = apply_exactly(activation, static_cast<double>(inputs[i]));
      EXPECT_NEAR(static_cast<double>(results[i]), exact, 1e-6 * (1 + std::abs(exact))) << "at " << inputs[i];
    }
  }
}

TEST(Activation, NanStaysAndInfinitiesGoToTheirLimits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (int kind = 0; kind < kActivationCount; ++kind) {
    float values[5] = {nan, 1.0F, infinity, nan, nan};
    apply(static_cast<Activation>(kind), values, 5);
    for (const int i : {0, 3, 4}) EXPECT_TRUE(std::isnan(values[i])) << "activation " << kind;
    EXPECT_EQ(static_cast<double>(values[2]), apply_exactly(static_cast<Activation>(kind), HUGE_VAL)) << kind;
  }
  float below[2] = {-infinity, -infinity};
  apply(Activation::kTanh, below, 1);
  apply(Activation::kSigmoid, below + 1, 1);
  EXPECT_EQ(below[0], -1.0F);
  EXPECT_EQ(below[1], 0.0F);
}

TEST(Activation, TouchesOnlyWhatItIsGiven) {
  for (std::int64_t count = 0; count < 10; ++count) {
    std::vector<float> values(12, -1.0F);
    apply(Activation::kRelu, values.data() + 1, count);
    for (std::int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(values[static_cast<std::size_t>(i)], i >= 1 && i <= count ? 0.0F : -1.0F);
    }
  }
}

}  // namespace
}  // namespace kpt::kernels
