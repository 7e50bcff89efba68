#include "kernels/gpu/weight_only.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gpu/convert.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class WeightOnly : public KernelTest {
 protected:
  // One product of random numbers, held against sums in double.
  void check_case(DType weight_dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t group,
                  std::int64_t offset = 0);
  // Whatever bytes; -128 too.
  Buffer& draw_codes(Buffer& weight) {
    for (std::int64_t i = 0; i < weight.count(); ++i) {
      static_cast<std::uint8_t*>(weight.data())[i] = static_cast<std::uint8_t>(draw(0, 255));
    }
    return weight;
  }
  static double weight_at(const WeightOnlyCall& call, const Buffer& weight, const Buffer& scale, std::int64_t place) {
    if (call.weight_dtype == DType::kInt8) {
      return decode(DType::kInt8, weight.code(place)) * scale.get(place / call.depth);
    }
    const std::uint32_t byte = weight.code(place / 2);
    return (static_cast<int>(place % 2 == 0 ? byte & 15U : byte >> 4U) - 8) * scale.get(place / call.group);
  }
};

void WeightOnly::check_case(DType weight_dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                            std::int64_t group, std::int64_t offset) {
  WeightOnlyCall call;
  const bool halves = weight_dtype == DType::kUInt8;
  call.weight_dtype = weight_dtype;
  call.group = group;
  call.rows = rows, call.columns = columns, call.depth = depth;
  call.input_dtype = draw_type();
  call.bias_dtype = draw_type();
  call.residual_dtype = draw_type();
  call.output_dtype = draw_type();
  call.activation = pick({Activation::kNone, Activation::kRelu});
  call.input_stride = depth + pick<std::int64_t>({0, 8, 3});
  call.residual_stride = columns + draw(0, 2);
  SCOPED_TRACE(std::string(halves ? "int4 " : "int8 ") + std::string(to_string(call.input_dtype)) + " " +
               std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth) + ", groups of " +
               std::to_string(group));
  Buffer input(*device_, call.input_dtype, rows * call.input_stride, offset);
  Buffer weight(*device_, weight_dtype, halves ? columns * depth / 2 : columns * depth, offset);
  Buffer scale(*device_, DType::kFloat32, halves ? columns * depth / group : columns);
  Buffer bias(*device_, call.bias_dtype, columns);
  Buffer residual(*device_, call.residual_dtype, rows * call.residual_stride);
  Buffer output(*device_, call.output_dtype, rows * columns);
  call.input = input.fill(random_).data();
  call.weight = draw_codes(weight).data();
  call.scale = scale.fill(random_, 0.01).floats();
  if (draw(0, 1) == 0) call.bias = bias.fill(random_).data();
  if (draw(0, 1) == 0) call.residual = residual.fill(random_).data();
  call.output = output.data();
  run(plan_weight_only(call, shape()));
  for (std::int64_t item = 0; item < rows * columns; ++item) {
    const std::int64_t row = item / columns;
    const std::int64_t column = item % columns;
    double sum = 0;
    double size = 1;
    for (std::int64_t k = 0; k < depth; ++k) {
      const double product =
          input.get(row * call.input_stride + k) * weight_at(call, weight, scale, column * depth + k);
      sum += product;
      size += std::abs(product);
    }
    if (call.bias != nullptr) sum += bias.get(column);
    if (call.residual != nullptr) sum += residual.get(row * call.residual_stride + column);
    if (call.activation == Activation::kRelu) sum = std::max(sum, 0.0);
    ASSERT_TRUE(is_near(output.get(item), sum, call.output_dtype, 2e-6 * size)) << row << ", " << column;
  }
}

TEST_P(WeightOnly, Int8OfAnyRowsColumnsAndDepths) {
  check_case(DType::kInt8, 1, 1, 1, 0);
  check_case(DType::kInt8, 8, 5, 4096, 0);   // several waves share the depth
  check_case(DType::kInt8, 2, 9, 64, 0, 1);  // addresses that are odd
  for (int round = 0; round < 12 && !HasFatalFailure(); ++round) {
    const std::int64_t depth = pick<std::int64_t>({draw(1, 100), 16 * draw(1, 130), 1024, 2064});
    check_case(DType::kInt8, draw(1, 8), draw(1, 40), depth, 0);
  }
}

TEST_P(WeightOnly, Int4OfAnyRowsColumnsDepthsAndGroups) {
  check_case(DType::kUInt8, 1, 1, 2, 1);
  check_case(DType::kUInt8, 8, 5, 8192, 64);
  check_case(DType::kUInt8, 3, 9, 64, 32, 1);
  for (int round = 0; round < 12 && !HasFatalFailure(); ++round) {
    const std::int64_t group = pick<std::int64_t>({32, 64, 64, 128, 16, 2, 6, 96});
    check_case(DType::kUInt8, draw(1, 8), draw(1, 40), group * draw(1, 20), group);
  }
}

// Nothing of a column or row reaches another, also where the last ones are computed again to fill a wave.
TEST_P(WeightOnly, NanAndInfinityStayInTheirRow) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8}) {
    WeightOnlyCall call;
    const bool halves = dtype == DType::kUInt8;
    call.weight_dtype = dtype;
    call.rows = 3, call.columns = 6, call.depth = call.input_stride = call.group = 64;
    Buffer input(*device_, DType::kFloat32, 3 * 64);
    Buffer weight(*device_, dtype, halves ? 6 * 32 : 6 * 64);
    Buffer scale(*device_, DType::kFloat32, 6);
    Buffer output(*device_, DType::kFloat32, 18);
    for (std::int64_t i = 0; i < weight.count(); ++i) {
      static_cast<std::uint8_t*>(weight.data())[i] = halves ? 0x99 : 1;  // ones
    }
    for (std::int64_t i = 0; i < 6; ++i) scale.set(i, 0.5);
    for (std::int64_t i = 0; i < input.count(); ++i) input.set(i, 1);
    input.set(64, std::nan(""));
    input.set(128, std::numeric_limits<double>::infinity());
    call.input = input.data();
    call.weight = weight.data();
    call.scale = scale.floats();
    call.output = output.data();
    run(plan_weight_only(call, shape()));
    for (std::int64_t column = 0; column < 6; ++column) {
      EXPECT_EQ(output.get(column), 32.0);
      EXPECT_TRUE(std::isnan(output.get(6 + column)));
      EXPECT_TRUE(std::isinf(output.get(12 + column)));
    }
  }
}

TEST_P(WeightOnly, WithoutDepthTheBiasIsLeft) {
  WeightOnlyCall call;
  Buffer scale(*device_, DType::kFloat32, 3);
  Buffer bias(*device_, DType::kFloat32, 3);
  Buffer output(*device_, DType::kFloat32, 6);
  call.rows = 2, call.columns = 3;
  call.scale = scale.fill(random_).floats();
  call.bias = bias.fill(random_).data();
  call.output = output.data();
  run(plan_weight_only(call, shape()));
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(output.get(i), bias.get(i % 3));
}

// Every code of a pair of weights, exactly.
TEST_P(WeightOnly, Int4BecomesFloats) {
  for (const DType to : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t group : {std::int64_t{16}, std::int64_t{64}, std::int64_t{2}}) {
      Buffer input(*device_, DType::kUInt8, 256, pick<std::int64_t>({0, 1}));
      Buffer scale(*device_, DType::kFloat32, 512 / group);
      Buffer output(*device_, to, 512);
      for (int i = 0; i < 256; ++i) static_cast<std::uint8_t*>(input.data())[i] = static_cast<std::uint8_t>(i);
      for (std::int64_t i = 0; i < scale.count(); ++i) scale.set(i, std::ldexp(1.0, static_cast<int>(draw(-4, 4))));
      run(plan_unpack_int4({input.data(), output.data(), to, scale.floats(), 512, group}, shape()));
      for (std::int64_t i = 0; i < 512; ++i) {
        const std::int64_t code = i % 2 == 0 ? i / 2 % 16 : i / 2 / 16;
        ASSERT_EQ(output.get(i), static_cast<double>(code - 8) * scale.get(i / group)) << i << ", " << group;
      }
    }
  }
}

TEST_P(WeightOnly, BadCallsAreRefused) {
  WeightOnlyCall call;
  EXPECT_TRUE(plan_weight_only(call, shape())->empty());
  call.rows = call.columns = call.depth = 1;
  EXPECT_EQ(plan_weight_only(call, shape()).status().message(),
            "weight_only: input, weight, scale and output must be given");
  call.rows = 9;
  EXPECT_EQ(plan_weight_only(call, shape()).status().message(), "weight_only: 9 rows, and it takes at most 8");
  call.rows = 1;
  call.weight_dtype = DType::kUInt8;
  call.depth = 48;
  call.group = 32;
  EXPECT_EQ(plan_weight_only(call, shape()).status().message(),
            "weight_only: groups of 32 do not divide a depth of 48 in pairs");
  call.weight_dtype = DType::kFloat32;
  EXPECT_EQ(plan_weight_only(call, shape()).status().message(), "weight_only: no kernel for weights of float32");
  EXPECT_TRUE(plan_unpack_int4({}, shape())->empty());
  EXPECT_EQ(plan_unpack_int4({.count = 8, .group = 3}, shape()).status().message(),
            "unpack_int4: groups of 3 do not divide 8 elements in pairs");
  EXPECT_FALSE(plan_unpack_int4({.to = DType::kInt8, .count = 8, .group = 8}, shape()).ok());
}

KPT_KERNEL_TESTS(WeightOnly);

}  // namespace
}  // namespace kpt::gpu::testing
