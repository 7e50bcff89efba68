#include "kernels/gpu/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gpu/gpu_testing.h"
#include "kernels/gpu/scale_history.h"

namespace kpt::gpu::testing {
namespace {

constexpr auto kFloats = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr auto kFp8 = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_of_type(DType dtype) {
  if (dtype == DType::kInt8) return 127;
  if (dtype == DType::kFloat8E4M3FN) return 448;
  return dtype == DType::kFloat8E4M3FNUZ ? 240 : 57344;
}

// The code whose value is nearest, the even one of two; by trying all.
std::uint32_t nearest_code(DType dtype, double value) {
  std::uint32_t best = 0;
  double distance = kInfinity;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const double candidate = decode(dtype, code);
    if (!std::isfinite(candidate) || (dtype == DType::kInt8 && code == 0x80)) continue;
    const double apart = std::abs(candidate - value);
    if (apart < distance || (apart == distance && code % 2 == 0 && best % 2 == 1)) {
      distance = apart;
      best = code;
    }
  }
  return best;
}

void expect_quantized(const Buffer& output, std::int64_t index, DType dtype, double scaled) {
  if (std::isnan(scaled)) {
    ASSERT_TRUE(dtype == DType::kInt8 ? output.code(index) == 0 : std::isnan(output.get(index))) << index;
    return;
  }
  const double bounded = std::clamp(scaled, -largest_of_type(dtype), largest_of_type(dtype));
  const double wanted = decode(dtype, nearest_code(dtype, bounded));
  ASSERT_EQ(output.get(index), wanted) << index << " of " << scaled;
}

class Convert : public KernelTest {};

TEST_P(Convert, CastsBetweenFloatTypes) {
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      if (from == to) continue;
      const std::int64_t count = draw(1, 5000);
      const std::int64_t offset = draw(0, 1);
      Buffer input(*device_, from, count, offset);
      Buffer output(*device_, to, count);
      input.fill(random_, 100);
      input.set(0, kInfinity);
      if (count > 1) input.set(1, std::nan(""));
      ConvertCall call{from, to, input.data(), output.data(), count, nullptr, 0};
      run(plan_convert(call, shape()));
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(is_near(output.get(i), input.get(i), to, 1e-37)) << i << " of " << count;
      }
    }
  }
}

TEST_P(Convert, QuantizesByAGivenScaleAndBack) {
  for (const DType from : kFloats) {
    for (const DType to :
         {DType::kInt8, DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ}) {
      SCOPED_TRACE(std::string(to_string(from)) + " " + std::string(to_string(to)));
      const std::int64_t width = pick<std::int64_t>({24, 33});
      const std::int64_t rows = draw(1, 20);
      const bool per_row = draw(0, 1) == 0;
      Buffer input(*device_, from, rows * width);
      Buffer output(*device_, to, rows * width);
      Buffer back(*device_, from, rows * width);
      Buffer scale(*device_, DType::kFloat32, per_row ? rows : 1);
      input.fill(random_, largest_of_type(to) / 4);
      for (std::int64_t i = 0; i < scale.count(); ++i) scale.set(i, std::ldexp(1.0, static_cast<int>(draw(-2, 1))));
      input.set(0, kInfinity);
      input.set(1, -kInfinity);
      input.set(2, std::nan(""));
      input.set(3, -0.0);
      ConvertCall call{from, to, input.data(), output.data(), rows * width, scale.floats(), per_row ? width : 0};
      run(plan_convert(call, shape()));
      ConvertCall reverse{to, from, output.data(), back.data(), rows * width, scale.floats(), per_row ? width : 0};
      run(plan_convert(reverse, shape()));
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const double s = scale.get(per_row ? i / width : 0);
        expect_quantized(output, i, to, input.get(i) / s);
        if (HasFatalFailure()) return;
        ASSERT_TRUE(is_near(back.get(i), output.get(i) * s, from, 0) ||
                    (from == DType::kFloat16 && std::abs(output.get(i) * s) > 65504))
            << i;
      }
    }
  }
}

TEST_P(Convert, RowsFindTheirScales) {
  for (int round = 0; round < 12; ++round) {
    QuantizeRowsCall call;
    call.from = draw_type();
    call.to =
        pick({DType::kInt8, DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ});
    call.rows = draw(3, 6);
    call.width = draw_width() + 2;
    call.input_stride = call.width + pick<std::int64_t>({0, 8, 1});
    SCOPED_TRACE(std::string(to_string(call.from)) + " " + std::string(to_string(call.to)) + " " +
                 std::to_string(call.width));
    Buffer input(*device_, call.from, call.rows * call.input_stride, draw(0, 3) == 0 ? 1 : 0);
    Buffer output(*device_, call.to, call.rows * call.width);
    Buffer scale(*device_, DType::kFloat32, call.rows);
    input.fill(random_, 5);
    for (std::int64_t column = 0; column < call.width; ++column) input.set(column, 0);  // a row of zeros
    input.set(call.input_stride, std::nan(""));
    input.set(2 * call.input_stride + 1, -kInfinity);
    call.input = input.data();
    call.output = output.data();
    call.scale = scale.floats();
    run(plan_quantize_rows(call, shape()));
    EXPECT_EQ(scale.get(0), 1.0);
    for (std::int64_t row = 0; row < call.rows; ++row) {
      double greatest = 0;
      for (std::int64_t column = 0; column < call.width; ++column) {
        const double x = std::abs(input.get(row * call.input_stride + column));
        if (std::isfinite(x)) greatest = std::max(greatest, x);
      }
      const auto wanted =
          greatest == 0 ? 1.0F : static_cast<float>(greatest) / static_cast<float>(largest_of_type(call.to));
      if (row == 1 && call.to == DType::kInt8) {
        EXPECT_TRUE(std::isnan(scale.get(row)));
      } else {
        ASSERT_EQ(scale.get(row), static_cast<double>(wanted)) << row;
      }
      for (std::int64_t column = 0; column < call.width; ++column) {
        const auto x = static_cast<float>(input.get(row * call.input_stride + column));
        expect_quantized(output, row * call.width + column, call.to, static_cast<double>(x / wanted));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Convert, TensorsFindTheirScale) {
  for (const DType to : kFp8) {
    TensorScaleCall call;
    call.from = draw_type();
    call.to = to;
    call.count = pick<std::int64_t>({1, 7, draw(1, 30000)});
    Buffer input(*device_, call.from, call.count, draw(0, 1));
    Buffer found(*device_, DType::kFloat32, 2);
    input.fill(random_, 5);
    if (call.count > 3) input.set(2, std::nan(""));
    double greatest = 0;
    for (std::int64_t i = 0; i < call.count; ++i) {
      if (std::isfinite(input.get(i))) greatest = std::max(greatest, std::abs(input.get(i)));
    }
    call.input = input.data();
    call.largest = found.floats();
    call.scale = found.floats() + 1;
    Buffer workspace(*device_, DType::kFloat32, static_cast<std::int64_t>(tensor_scale_workspace(call, shape()) / 4));
    call.workspace = workspace.data();
    run(plan_tensor_scale(call, shape()));
    EXPECT_EQ(found.get(0), greatest);
    EXPECT_EQ(found.get(1),
              static_cast<double>(static_cast<float>(greatest) / static_cast<float>(largest_of_type(to))));
  }
}

float largest_finite(const Buffer& input, const QuantizeTensorCall& call) {
  double greatest = 0;
  for (std::int64_t row = 0; row < call.rows; ++row) {
    for (std::int64_t column = 0; column < call.width; ++column) {
      const double x = std::abs(input.get(row * call.input_stride + column));
      if (std::isfinite(x)) greatest = std::max(greatest, x);
    }
  }
  return static_cast<float>(greatest);
}

// All rows with the scale of `followed`, and every number the nearest there is, NaN and what is too large included.
void expect_rounded(const Buffer& input, const Buffer& output, const Buffer& scale, const QuantizeTensorCall& call,
                    float followed) {
  const float wanted = ScaleHistory::scale(followed, static_cast<float>(largest_of_type(call.to)));
  for (std::int64_t row = 0; row < call.rows; ++row) {
    ASSERT_EQ(scale.get(row), static_cast<double>(wanted)) << row;
    for (std::int64_t column = 0; column < call.width; ++column) {
      const auto x = static_cast<float>(input.get(row * call.input_stride + column));
      expect_quantized(output, row * call.width + column, call.to, static_cast<double>(x / wanted));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(Convert, TensorsAreRoundedWithOneScale) {
  for (int round = 0; round < 10; ++round) {
    QuantizeTensorCall call;
    call.from = draw_type();
    call.to = pick<DType>({DType::kFloat8E4M3FN, DType::kFloat8E5M2});
    call.rows = pick<std::int64_t>({1, draw(2, 6), 4 * std::int64_t{shape().multiprocessors} + 1});
    call.width = call.rows > 8 ? draw(1, 40) : draw_width();
    call.input_stride = call.width;
    SCOPED_TRACE(std::string(to_string(call.from)) + " " + std::to_string(call.rows) + " " +
                 std::to_string(call.width));
    Buffer input(*device_, call.from, call.rows * call.width, draw(0, 3) == 0 ? 1 : 0);
    Buffer output(*device_, call.to, call.rows * call.width);
    Buffer scale(*device_, DType::kFloat32, call.rows);
    Buffer workspace(*device_, DType::kFloat32,
                     static_cast<std::int64_t>(quantize_tensor_workspace(call, shape()) / sizeof(float)));
    input.fill(random_, round == 0 ? 0 : 5);  // zeros first
    workspace.poison();
    if (round > 1) input.set(draw(0, input.count() - 1), std::nan(""));
    if (round > 2) input.set(draw(0, input.count() - 1), -kInfinity);
    call.input = input.data();
    call.output = output.data();
    call.scale = scale.floats();
    call.workspace = workspace.data();
    run(plan_quantize_tensor(call, shape()));
    expect_rounded(input, output, scale, call, largest_finite(input, call));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Convert, DelayedScalesFollowTheLastRuns) {
  for (const std::int32_t capacity : {1, 3, 16, 70}) {
    SCOPED_TRACE(capacity);
    Buffer magnitudes(*device_, DType::kFloat32, capacity);
    Buffer position(*device_, DType::kInt32, 1);
    for (std::int32_t i = 0; i < capacity; ++i) magnitudes.set(i, 0);
    *static_cast<std::int32_t*>(position.data()) = 0;
    ScaleHistory reference(static_cast<std::size_t>(capacity));
    const DType to = pick<DType>({DType::kFloat8E4M3FN, DType::kFloat8E5M2});
    for (int round = 0; round < 2 * capacity + 4; ++round) {
      SCOPED_TRACE("run " + std::to_string(round));
      QuantizeTensorCall call;
      call.from = draw_type();
      call.to = to;
      call.rows = draw(1, 5);
      call.width = draw(1, capacity > 64 ? 60 : 300);  // then a thread has several magnitudes to look at
      call.input_stride = call.width + (round == 0 ? 0 : draw(0, 3));
      Buffer input(*device_, call.from, call.rows * call.input_stride);
      Buffer output(*device_, to, call.rows * call.width);
      Buffer scale(*device_, DType::kFloat32, call.rows);
      Buffer workspace(*device_, DType::kFloat32,
                       static_cast<std::int64_t>(quantize_tensor_workspace(call, shape()) / sizeof(float)));
      // Sizes that go up and down by hundreds: most runs saturate, or leave bits unused; some are zeros.
      input.fill(random_, draw(0, 5) == 0 ? 0 : std::exp(static_cast<double>(draw(-4, 4))));
      if (draw(0, 2) == 0) input.set(0, std::nan(""));
      if (draw(0, 2) == 0) input.set(input.count() - 1, kInfinity);
      workspace.poison();
      call.input = input.data();
      call.output = output.data();
      call.scale = scale.floats();
      call.workspace = workspace.data();
      call.history = {magnitudes.floats(), static_cast<std::int32_t*>(position.data()), capacity, round > 0};
      run(plan_quantize_tensor(call, shape()));
      expect_rounded(input, output, scale, call, reference.next(largest_finite(input, call)));
      if (HasFatalFailure()) return;
      EXPECT_EQ(*static_cast<std::int32_t*>(position.data()), static_cast<std::int32_t>(reference.position()));
      for (std::int32_t i = 0; i < capacity; ++i) {
        EXPECT_EQ(magnitudes.get(i), static_cast<double>(reference.magnitudes()[static_cast<std::size_t>(i)])) << i;
      }
    }
  }
}

TEST(ScaleHistory, FollowsTheGreatestOfTheLastRuns) {
  ScaleHistory history(2);
  EXPECT_EQ(history.next(4), 4) << "the first run has only itself";
  EXPECT_EQ(history.next(8), 4) << "saturates";
  EXPECT_EQ(history.next(1), 8);
  EXPECT_EQ(history.next(2), 8);
  EXPECT_EQ(history.next(0), 2) << "8 is forgotten";
  EXPECT_EQ(history.next(0), 2);
  EXPECT_EQ(history.next(5), 0) << "only zeros are remembered";
  EXPECT_EQ(history.next(5), 5);
  EXPECT_EQ(ScaleHistory::scale(0, 448), 1);
  EXPECT_EQ(ScaleHistory::scale(896, 448), 2);
  EXPECT_GT(ScaleHistory::scale(1e-45F, 448), 0) << "never 0, which numbers are divided by";
}

TEST_P(Convert, BadCallsAreRefused) {
  float memory[4] = {};
  ConvertCall call{DType::kFloat32, DType::kFloat32, memory, memory, 4, nullptr, 0};
  EXPECT_EQ(plan_convert(call, shape()).status().message(), "convert: no kernel from float32 to float32");
  call.to = DType::kInt8;
  EXPECT_EQ(plan_convert(call, shape()).status().message(), "convert: a scale must be given");
  call.to = DType::kFloat16;
  call.scale = memory;
  EXPECT_FALSE(plan_convert(call, shape()).ok());
  call.scale = nullptr;
  call.count = 0;
  EXPECT_TRUE(plan_convert(call, shape())->empty());
  EXPECT_FALSE(plan_tensor_scale({.to = DType::kInt8}, shape()).ok());
  EXPECT_FALSE(plan_quantize_rows({.rows = 2, .width = 3}, shape()).ok());
  alignas(16) float workspace[4] = {};
  QuantizeTensorCall tensor{DType::kFloat32, DType::kFloat8E5M2, memory, memory, memory, 2, 2, 2, {}, workspace};
  EXPECT_TRUE(plan_quantize_tensor(tensor, shape()).ok());
  tensor.input_stride = 3;
  EXPECT_EQ(plan_quantize_tensor(tensor, shape()).status().message(),
            "quantize_tensor: rows with gaps need a history that has begun");
  std::int32_t position = 0;
  tensor.history = {memory, &position, 4, true};
  EXPECT_TRUE(plan_quantize_tensor(tensor, shape()).ok());
  tensor.history.capacity = 0;
  EXPECT_FALSE(plan_quantize_tensor(tensor, shape()).ok());
  tensor.history = {};
  tensor.to = DType::kInt8;
  EXPECT_EQ(plan_quantize_tensor(tensor, shape()).status().message(),
            "quantize_tensor: no kernel from float32 to int8");
  tensor.to = DType::kFloat8E5M2;
  tensor.from = DType::kInt8;
  EXPECT_FALSE(plan_quantize_tensor(tensor, shape()).ok());
  EXPECT_FALSE(plan_quantize_tensor({.rows = 2, .width = 3, .input_stride = 3}, shape()).ok());
  EXPECT_TRUE(plan_quantize_tensor({.rows = 0, .width = 3, .input_stride = 3}, shape())->empty());
}

KPT_KERNEL_TESTS(Convert);

}  // namespace
}  // namespace kpt::gpu::testing
