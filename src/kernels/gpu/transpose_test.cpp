#include <cmath>

#include "kernels/gpu/convert.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Transpose : public KernelTest {
 protected:
  void check_case(DType from, DType to);
};

bool is_fp8(DType dtype) { return element_bytes(dtype) == 1 && dtype != DType::kInt8; }

void Transpose::check_case(DType from, DType to) {
  SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
  TransposeCall call;
  call.from = from;
  call.to = to;
  call.batches = draw(1, 2);
  call.rows = pick<std::int64_t>({draw(1, 140), 64, 2 * draw(1, 60)});
  call.columns = pick<std::int64_t>({draw(1, 140), 64, 2 * draw(1, 60)});
  call.input_stride = call.columns + draw(0, 3);
  call.output_stride = call.rows + draw(0, 3);
  call.input_batch_stride = call.rows * call.input_stride + draw(0, 3);
  call.output_batch_stride = call.columns * call.output_stride + draw(0, 3);
  Buffer input(*device_, from, call.batches * call.input_batch_stride, draw(0, 1));
  Buffer output(*device_, to, call.batches * call.output_batch_stride, draw(0, 1));
  Buffer scale(*device_, DType::kFloat32, 1);
  input.fill(random_, 2);
  scale.set(0, 0.25);
  const bool scales = is_fp8(to) && from != to;
  call.input = input.data();
  call.output = output.data();
  if (scales) call.scale = scale.floats();
  run(plan_transpose(call, shape()));
  const std::uint32_t poison = element_bytes(to) == 4 ? 0xffffffffU : (1U << (8 * element_bytes(to))) - 1;
  for (std::int64_t batch = 0; batch < call.batches; ++batch) {
    for (std::int64_t column = 0; column < call.columns; ++column) {
      const std::int64_t line = batch * call.output_batch_stride + column * call.output_stride;
      for (std::int64_t row = 0; row < call.rows; ++row) {
        const std::int64_t source = batch * call.input_batch_stride + row * call.input_stride + column;
        if (from == to) {
          ASSERT_EQ(output.code(line + row), input.code(source)) << row << ", " << column;
          continue;
        }
        const double wanted = input.get(source) / (scales ? 0.25 : 1);
        const double slack = is_fp8(to) ? 0.002 : 0;  // the step of numbers below the normal ones
        ASSERT_TRUE(is_near(output.get(line + row), wanted, to, slack)) << row << ", " << column;
      }
      // Gaps between rows are not touched.
      const std::int64_t end = batch * call.output_batch_stride + (column + 1) * call.output_stride;
      for (std::int64_t place = line + call.rows; place < end; ++place) ASSERT_EQ(output.code(place), poison);
    }
  }
}

TEST_P(Transpose, EveryPairOfTypes) {
  const auto floats = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  const auto fp8 = {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ};
  for (const DType from : floats) {
    check_case(from, from);
    if (from != DType::kFloat32) check_case(from, DType::kFloat32);
    if (from != DType::kFloat32) check_case(DType::kFloat32, from);
    for (const DType to : fp8) check_case(from, to);
    if (HasFatalFailure()) return;
  }
  for (const DType same : fp8) check_case(same, same);
}

TEST_P(Transpose, BadCallsAreRefused) {
  TransposeCall call;
  call.from = DType::kFloat16;
  call.to = DType::kBFloat16;
  EXPECT_EQ(plan_transpose(call, shape()).status().message(), "transpose: no kernel from float16 to bfloat16");
  call.to = DType::kFloat8E4M3FN;
  EXPECT_EQ(plan_transpose(call, shape()).status().message(), "transpose: a scale must be given");
  call.from = call.to = DType::kComplex64;
  EXPECT_FALSE(plan_transpose(call, shape()).ok());
  call.from = call.to = DType::kFloat32;
  EXPECT_TRUE(plan_transpose(call, shape())->empty());
  call.rows = call.columns = 3;
  EXPECT_FALSE(plan_transpose(call, shape()).ok());
}

KPT_KERNEL_TESTS(Transpose);

}  // namespace
}  // namespace kpt::gpu::testing
