#include "kernels/gpu/product.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Product : public KernelTest {
 protected:
  // Lines of depth or the other way round, with gaps; batches share a matrix now and then. The elements it spans.
  std::int64_t draw_side(const ProductCall& call, std::int64_t lines, ProductSide& side) {
    std::int64_t span = 1;
    if (draw(0, 1) == 0) {
      side.line_stride = call.depth + draw(0, 2);
      span = side.line_stride * lines;
    } else {
      side.line_stride = 1;
      side.depth_stride = lines + draw(0, 2);
      span = side.depth_stride * call.depth;
    }
    for (std::size_t axis = 3; axis-- > 0;) {
      if (draw(0, 4) == 0) continue;
      side.batch_strides[axis] = span;
      span *= call.batches[axis];
    }
    return span;
  }
  void check_case(std::int64_t rows, std::int64_t columns, std::int64_t depth);
};

void Product::check_case(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(depth));
  ProductCall call;
  const DType type = draw_type();
  for (DType* dtype : {&call.left.dtype, &call.right.dtype, &call.bias_dtype, &call.output_dtype}) {
    *dtype = pick({type, DType::kFloat32});
  }
  call.rows = rows, call.columns = columns, call.depth = depth;
  call.batches = {draw(1, 2), draw(1, 2), draw(1, 2)};
  call.scale = pick({1.0F, 0.5F});
  call.activation = pick({Activation::kNone, Activation::kRelu});
  Buffer left(*device_, call.left.dtype, draw_side(call, rows, call.left));
  Buffer right(*device_, call.right.dtype, draw_side(call, columns, call.right));
  call.output_row_stride = columns + draw(0, 2);
  std::int64_t span = call.output_row_stride * rows;
  for (std::size_t axis = 3; axis-- > 0;) {
    call.output_batch_strides[axis] = span;
    span *= call.batches[axis];
  }
  Buffer bias(*device_, call.bias_dtype, columns);
  Buffer residual(*device_, call.output_dtype, span);
  Buffer output(*device_, call.output_dtype, span);
  call.left.data = left.fill(random_).data();
  call.right.data = right.fill(random_, 0.3).data();
  bias.fill(random_);
  residual.fill(random_);
  if (draw(0, 1) == 0) call.bias = bias.data();
  if (draw(0, 1) == 0) call.residual = residual.data();
  call.output = output.data();
  run(plan_product(call, shape()));
  for (std::int64_t batch = 0; batch < call.batches[0] * call.batches[1] * call.batches[2]; ++batch) {
    const std::int64_t at[] = {batch / (call.batches[1] * call.batches[2]), batch / call.batches[2] % call.batches[1],
                               batch % call.batches[2]};
    const auto base = [&at](const std::array<std::int64_t, 3>& s) {
      return at[0] * s[0] + at[1] * s[1] + at[2] * s[2];
    };
    for (std::int64_t item = 0; item < rows * columns; ++item) {
      const std::int64_t row = item / columns;
      const std::int64_t column = item % columns;
      double sum = 0;
      double size = 1;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double x =
            left.get(base(call.left.batch_strides) + row * call.left.line_stride + k * call.left.depth_stride);
        const double y =
            right.get(base(call.right.batch_strides) + column * call.right.line_stride + k * call.right.depth_stride);
        sum += x * y;
        size += std::abs(x * y);
      }
      const std::int64_t place = base(call.output_batch_strides) + row * call.output_row_stride + column;
      sum *= static_cast<double>(call.scale);
      if (call.bias != nullptr) sum += bias.get(column);
      if (call.residual != nullptr) sum += residual.get(place);
      if (call.activation == Activation::kRelu) sum = std::max(sum, 0.0);
      ASSERT_TRUE(is_near(output.get(place), sum, call.output_dtype, 2e-6 * size))
          << batch << ": " << row << ", " << column;
    }
  }
}

TEST_P(Product, RandomShapesTailsStridesAndBatches) {
  check_case(1, 1, 1);
  check_case(65, 64, 17);
  for (int round = 0; round < 6 && !HasFatalFailure(); ++round) check_case(draw(1, 80), draw(1, 80), draw(1, 40));
}

// A sum of nothing is what is added to it.
TEST_P(Product, WithoutDepthTheBiasIsLeft) {
  ProductCall call;
  Buffer bias(*device_, DType::kFloat32, 3);
  Buffer output(*device_, DType::kFloat32, 6);
  bias.fill(random_);
  call.rows = 2, call.columns = call.output_row_stride = 3;
  call.bias = bias.data();
  call.output = output.data();
  run(plan_product(call, shape()));
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(output.get(i), bias.get(i % 3));
}

TEST_P(Product, BadCallsAreRefused) {
  ProductCall call;
  EXPECT_TRUE(plan_product(call, shape())->empty());
  call.rows = call.columns = call.depth = 1;
  EXPECT_EQ(plan_product(call, shape()).status().message(), "product: left, right and output must be given");
  float number = 0;
  call.left.data = call.right.data = call.output = &number;
  call.left.dtype = DType::kInt32;
  EXPECT_EQ(plan_product(call, shape()).status().message(), "product: no kernel for int32");
  call.left.dtype = DType::kFloat16;
  call.right.dtype = DType::kBFloat16;
  EXPECT_EQ(plan_product(call, shape()).status().message(),
            "product: the tensors are of more than one type beside float32");
}

KPT_KERNEL_TESTS(Product);

}  // namespace
}  // namespace kpt::gpu::testing
