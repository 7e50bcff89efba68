#include "kernels/gpu/matrix.h"

#include <cmath>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Matrix : public KernelTest {
 protected:
  void check_case(std::int64_t rows, std::int64_t columns, std::int64_t depth);
};

void Matrix::check_case(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth));
  MatrixCall call;
  call.dtype = pick({DType::kFloat16, DType::kBFloat16});
  call.bias_dtype = pick({call.dtype, DType::kFloat32});
  call.activation = pick({Activation::kNone, Activation::kRelu});
  call.rows = rows;
  call.columns = columns;
  call.depth = depth;
  call.input_stride = depth + pick<std::int64_t>({0, 8, 1});
  call.weight_stride = depth + pick<std::int64_t>({0, 8, 3});
  Buffer input(*device_, call.dtype, (rows - 1) * call.input_stride + depth, draw(0, 3) == 0 ? 1 : 0);
  Buffer weight(*device_, call.dtype, (columns - 1) * call.weight_stride + depth);
  Buffer bias(*device_, call.bias_dtype, columns);
  Buffer output(*device_, call.dtype, rows * columns);
  call.input = input.fill(random_).data();
  call.weight = weight.fill(random_, 0.3).data();
  bias.fill(random_);
  if (draw(0, 2) != 0) call.bias = bias.data();
  call.output = output.data();
  run(plan_matrix(call, shape()));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = call.bias == nullptr ? 0.0 : bias.get(column);
      double size = std::abs(sum);
      for (std::int64_t k = 0; k < depth; ++k) {
        const double product = input.get(row * call.input_stride + k) * weight.get(column * call.weight_stride + k);
        sum += product;
        size += std::abs(product);
      }
      if (call.activation == Activation::kRelu) sum = std::max(sum, 0.0);
      ASSERT_TRUE(is_near(output.get(row * columns + column), sum, call.dtype, 1e-6 * size)) << row << ", " << column;
    }
  }
}

TEST_P(Matrix, RandomShapesTailsAndStrides) {
  if (shape().wave != 64) GTEST_SKIP() << "the instruction is of wavefronts of 64";
  check_case(1, 1, 1);
  check_case(128, 128, 32);
  check_case(130, 129, 72);
  for (int round = 0; round < 4 && !HasFatalFailure(); ++round) check_case(draw(1, 150), draw(1, 150), draw(1, 100));
}

// Wrong rows, columns or depths show as wrong digits, not as rounding.
TEST_P(Matrix, EveryProductMeetsItsPartner) {
  if (shape().wave != 64) GTEST_SKIP() << "the instruction is of wavefronts of 64";
  const std::int64_t size = 48;
  Buffer input(*device_, DType::kFloat16, size * size);
  Buffer weight(*device_, DType::kFloat16, size * size);
  Buffer output(*device_, DType::kFloat16, size * size);
  for (std::int64_t i = 0; i < size * size; ++i) input.set(i, i % size == (i / size * 7 + 3) % size ? 1 : 0);
  for (std::int64_t i = 0; i < size * size; ++i) weight.set(i, static_cast<double>(i % 2039));
  MatrixCall call;
  call.input = input.data();
  call.weight = weight.data();
  call.output = output.data();
  call.rows = call.columns = call.depth = call.input_stride = call.weight_stride = size;
  run(plan_matrix(call, shape()));
  for (std::int64_t i = 0; i < size * size; ++i) {
    const std::int64_t k = (i / size * 7 + 3) % size;
    ASSERT_EQ(output.get(i), weight.get(i % size * size + k)) << i;
  }
}

TEST_P(Matrix, BadCallsAreRefused) {
  MatrixCall call;
  if (shape().wave != 64) {
    EXPECT_EQ(plan_matrix(call, shape()).status().code(), StatusCode::kUnsupported);
    return;
  }
  EXPECT_TRUE(plan_matrix(call, shape())->empty());
  call.rows = call.columns = 1;
  EXPECT_EQ(plan_matrix(call, shape()).status().message(), "matrix: input, weight and output must be given");
  call.dtype = DType::kFloat32;
  EXPECT_EQ(plan_matrix(call, shape()).status().message(), "matrix: no kernel for float32");
}

KPT_KERNEL_TESTS(Matrix);

}  // namespace
}  // namespace kpt::gpu::testing
