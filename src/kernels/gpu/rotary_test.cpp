#include "kernels/gpu/rotary.h"

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class RotaryPositions : public KernelTest {
 protected:
  void check_random_case();
};

void RotaryPositions::check_random_case() {
  RotaryCall call;
  call.dtype = draw_type();
  call.table_dtype = pick({call.dtype, DType::kFloat32});
  call.sizes = {draw(1, 2), draw(1, 3), draw(1, 5)};
  call.width = pick<std::int64_t>({2 * draw(1, 20), 64, 128, 16});
  call.interleaved = draw(0, 2) == 0;
  call.inverse = draw(0, 2) == 0;
  const auto [outer, middle, inner] = call.sizes;
  const std::int64_t gap = pick<std::int64_t>({0, 8, 3});
  // Heads and tokens in either order in memory.
  call.input_strides = {middle * inner * (call.width + gap), call.width + gap, middle * (call.width + gap)};
  call.cosine_strides = {0, 0, call.width};
  call.sine_strides = {inner * call.width, 0, call.width};
  Buffer input(*device_, call.dtype, outer * middle * inner * (call.width + gap), draw(0, 4) == 0 ? 1 : 0);
  Buffer cosines(*device_, call.table_dtype, inner * call.width);
  Buffer sines(*device_, call.table_dtype, outer * inner * call.width);
  Buffer result(*device_, call.dtype, outer * middle * inner * call.width);
  call.input = input.fill(random_).data();
  call.cosines = cosines.fill(random_).data();
  call.sines = sines.fill(random_).data();
  call.result = result.data();
  run(plan_rotary(call, shape()));
  std::int64_t place = 0;
  for (std::int64_t a = 0; a < outer; ++a) {
    for (std::int64_t b = 0; b < middle; ++b) {
      for (std::int64_t c = 0; c < inner; ++c, place += call.width) {
        const std::int64_t source = a * call.input_strides[0] + b * call.input_strides[1] + c * call.input_strides[2];
        const std::int64_t cosine = c * call.cosine_strides[2];
        const std::int64_t sine = a * call.sine_strides[0] + c * call.sine_strides[2];
        for (std::int64_t i = 0; i < call.width / 2; ++i) {
          const std::int64_t l = call.interleaved ? 2 * i : i;
          const std::int64_t r = call.interleaved ? 2 * i + 1 : i + call.width / 2;
          const double x = input.get(source + l), y = input.get(source + r);
          const double sl = sines.get(sine + l), sr = sines.get(sine + r);
          const double left = x * cosines.get(cosine + l) + y * (call.inverse ? sr : -sl);
          const double right = y * cosines.get(cosine + r) + x * (call.inverse ? -sl : sr);
          ASSERT_TRUE(is_near(result.get(place + l), left, call.dtype, 3e-6)) << place + l;
          ASSERT_TRUE(is_near(result.get(place + r), right, call.dtype, 3e-6)) << place + r;
        }
      }
    }
  }
}

TEST_P(RotaryPositions, RandomShapesStridesAndForms) {
  for (int round = 0; round < 40; ++round) {
    check_random_case();
    if (HasFatalFailure()) return;
  }
}

TEST_P(RotaryPositions, BadCallsAreRefused) {
  RotaryCall call;
  call.width = 7;
  EXPECT_EQ(plan_rotary(call, shape()).status().message(), "rotary: the width is 7, which is odd");
  call.width = 8;
  EXPECT_EQ(plan_rotary(call, shape()).status().code(), StatusCode::kInvalidArgument);
  call.sizes = {1, 0, 3};
  EXPECT_TRUE(plan_rotary(call, shape())->empty());
}

KPT_KERNEL_TESTS(RotaryPositions);

}  // namespace
}  // namespace kpt::gpu::testing
