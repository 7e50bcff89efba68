#include "kernels/gpu/activation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

double exact(Activation activation, double x) {
  const double bounded = std::min(std::max(x + 3, 0.0), 6.0);
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return std::max(x, 0.0);
    case Activation::kGelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh: return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kHardswish: return x * bounded / 6;
    case Activation::kHardsigmoid: return bounded / 6;
    case Activation::kRelu6: return std::min(std::max(x, 0.0), 6.0);
  }
  return 0;
}

constexpr int kActivations = 10;

class Activations : public KernelTest {};

TEST(ActivationFunctions, AreNearTheExactOnesAlsoInTheTails) {
  for (int kind = 0; kind < kActivations; ++kind) {
    const auto activation = static_cast<Activation>(kind);
    for (int step = -40000; step <= 40000; ++step) {
      const float x = static_cast<float>(step) * 5e-4F;
      const double wanted = exact(activation, static_cast<double>(x));
      const double got = static_cast<double>(activate(activation, x));
      // In the tail, exp of a product that was rounded to float32 loses digits with the product's size.
      const double relative = x < -5 ? 3e-5 : 3e-6;
      ASSERT_NEAR(got, wanted, std::abs(wanted) * relative + 2e-7 * (kind >= 7 ? 1 : 0) + 1e-37) << kind << " at " << x;
    }
  }
}

TEST(ActivationFunctions, LimitsAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int kind = 0; kind < kActivations; ++kind) {
    const auto activation = static_cast<Activation>(kind);
    EXPECT_TRUE(std::isnan(activate(activation, std::nanf("")))) << kind;
    EXPECT_EQ(static_cast<double>(activate(activation, infinity)), exact(activation, HUGE_VAL)) << kind;
    const bool bounded_below = activation != Activation::kNone && activation != Activation::kTanh;
    if (bounded_below) {
      EXPECT_EQ(activate(activation, -infinity), 0.0F) << kind;
    }
  }
  EXPECT_EQ(activate(Activation::kTanh, -infinity), -1.0F);
}

TEST_P(Activations, GatesOfRandomShapes) {
  for (int round = 0; round < 30; ++round) {
    GatedCall call;
    call.dtype = draw_type();
    call.activation = static_cast<Activation>(draw(0, kActivations - 1));
    call.rows = draw(1, 5);
    call.width = pick<std::int64_t>({draw(1, 300), 8 * draw(1, 60)});
    const bool halves = draw(0, 1) == 0;  // of one tensor
    call.gate_stride = call.up_stride = halves ? 2 * call.width : call.width + draw(0, 9);
    Buffer gate(*device_, call.dtype, call.rows * call.gate_stride, draw(0, 3) == 0 ? 1 : 0);
    Buffer up(*device_, call.dtype, call.rows * call.up_stride);
    Buffer output(*device_, call.dtype, call.rows * call.width);
    gate.fill(random_, 2);
    up.fill(random_);
    call.gate = gate.data();
    call.up =
        halves ? static_cast<std::byte*>(gate.data()) + static_cast<std::size_t>(call.width) * element_bytes(call.dtype)
               : up.data();
    call.output = output.data();
    run(plan_gated(call, shape()));
    for (std::int64_t row = 0; row < call.rows; ++row) {
      for (std::int64_t column = 0; column < call.width; ++column) {
        const double g = gate.get(row * call.gate_stride + column);
        const double u =
            halves ? gate.get(row * call.gate_stride + call.width + column) : up.get(row * call.up_stride + column);
        const double wanted = exact(call.activation, g) * u;
        ASSERT_TRUE(is_near(output.get(row * call.width + column), wanted, call.dtype, 4e-6 * (1 + std::abs(wanted))))
            << row << ", " << column;
      }
    }
  }
}

TEST_P(Activations, BiasAndResidualOfRandomShapes) {
  for (int round = 0; round < 30; ++round) {
    BiasCall call;
    call.dtype = draw_type();
    call.bias_dtype = pick({call.dtype, DType::kFloat32});
    call.activation = static_cast<Activation>(draw(0, kActivations - 1));
    call.rows = draw(1, 5);
    call.width = pick<std::int64_t>({draw(1, 300), 8 * draw(1, 60)});
    call.input_stride = call.width + pick<std::int64_t>({0, 8, 1});
    Buffer input(*device_, call.dtype, call.rows * call.input_stride);
    Buffer bias(*device_, call.bias_dtype, call.width, draw(0, 3) == 0 ? 1 : 0);
    Buffer residual(*device_, call.dtype, call.rows * call.width);
    Buffer output(*device_, call.dtype, call.rows * call.width);
    call.input = input.fill(random_, 2).data();
    bias.fill(random_);
    residual.fill(random_);
    if (draw(0, 2) != 0) call.bias = bias.data();
    if (draw(0, 1) == 0) call.residual = residual.data();
    call.residual_stride = call.residual == nullptr ? 0 : call.width;
    call.output = output.data();
    run(plan_bias_activation(call, shape()));
    for (std::int64_t row = 0; row < call.rows; ++row) {
      for (std::int64_t column = 0; column < call.width; ++column) {
        const double x = input.get(row * call.input_stride + column) + (call.bias == nullptr ? 0 : bias.get(column)) +
                         (call.residual == nullptr ? 0 : residual.get(row * call.width + column));
        ASSERT_TRUE(is_near(output.get(row * call.width + column), exact(call.activation, x), call.dtype,
                            5e-6 * (2 + std::abs(x))))
            << row << ", " << column;
      }
    }
  }
}

TEST_P(Activations, ScaledSumsOfRandomShapes) {
  for (int round = 0; round < 30; ++round) {
    ScaledProductCall call;
    call.dtype = draw_type();
    call.bias_dtype = pick({call.dtype, DType::kFloat32});
    call.activation = static_cast<Activation>(draw(0, kActivations - 1));
    call.rows = draw(1, 5);
    call.width = pick<std::int64_t>({draw(1, 300), 8 * draw(1, 60)});
    call.sum_stride = call.width + pick<std::int64_t>({0, 8, 1});
    Buffer sums(*device_, DType::kInt32, call.rows * call.sum_stride);
    Buffer row_scale(*device_, DType::kFloat32, call.rows);
    Buffer column_scale(*device_, DType::kFloat32, call.width, draw(0, 3) == 0 ? 1 : 0);
    Buffer bias(*device_, call.bias_dtype, call.width);
    Buffer residual(*device_, call.dtype, call.rows * call.width);
    Buffer output(*device_, call.dtype, call.rows * call.width);
    sums.fill(random_, 20000);
    call.sums = static_cast<const std::int32_t*>(sums.data());
    call.row_scale = row_scale.fill(random_, 1e-2).floats();
    call.column_scale = column_scale.fill(random_, 1e-2).floats();
    bias.fill(random_);
    residual.fill(random_);
    if (draw(0, 2) != 0) call.bias = bias.data();
    if (draw(0, 1) == 0) call.residual = residual.data();
    call.residual_stride = call.residual == nullptr ? 0 : call.width;
    call.output = output.data();
    run(plan_scaled_product(call, shape()));
    for (std::int64_t row = 0; row < call.rows; ++row) {
      for (std::int64_t column = 0; column < call.width; ++column) {
        const double product = sums.get(row * call.sum_stride + column) * row_scale.get(row) * column_scale.get(column);
        const double x = product + (call.bias == nullptr ? 0 : bias.get(column)) +
                         (call.residual == nullptr ? 0 : residual.get(row * call.width + column));
        ASSERT_TRUE(is_near(output.get(row * call.width + column), exact(call.activation, x), call.dtype,
                            5e-6 * (2 + std::abs(product) + std::abs(x))))
            << row << ", " << column;
      }
    }
  }
}

TEST_P(Activations, BadCallsAreRefused) {
  GatedCall call;
  EXPECT_TRUE(plan_gated(call, shape())->empty());
  call.rows = call.width = 2;
  EXPECT_EQ(plan_gated(call, shape()).status().message(), "gated: gate, up and output must be given");
  call.activation = static_cast<Activation>(99);
  EXPECT_EQ(plan_gated(call, shape()).status().message(), "gated: no such activation");
  BiasCall bias;
  bias.bias_dtype = DType::kInt64;
  EXPECT_FALSE(plan_bias_activation(bias, shape()).ok());
  ScaledProductCall scaled;
  EXPECT_TRUE(plan_scaled_product(scaled, shape())->empty());
  scaled.rows = scaled.width = 2;
  EXPECT_EQ(plan_scaled_product(scaled, shape()).status().message(),
            "scaled_product: sums, both scales and output must be given");
}

KPT_KERNEL_TESTS(Activations);

}  // namespace
}  // namespace kpt::gpu::testing
