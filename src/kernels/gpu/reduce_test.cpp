#include "kernels/gpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gpu/gpu_testing.h"
#include "kernels/gpu/reduce_kernels.h"

namespace kpt::gpu::testing {
namespace {

class Reduce : public KernelTest {};

double exact(ReduceOp op, const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  bool any = false;
  bool all = true;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    any = any || value != 0;
    all = all && value != 0;
  }
  switch (op) {
    case ReduceOp::kSum: return sum;
    case ReduceOp::kMean: return sum / static_cast<double>(values.size());
    case ReduceOp::kMaximum: return *std::ranges::max_element(values);
    case ReduceOp::kMinimum: return *std::ranges::min_element(values);
    case ReduceOp::kLength: return std::sqrt(squares);
    case ReduceOp::kAny: return any ? 1 : 0;
    case ReduceOp::kAll: return all ? 1 : 0;
    case ReduceOp::kPlaceOfMaximum:
    case ReduceOp::kPlaceOfMinimum: break;  // PlacesOfExtremes
  }
  return 0;
}

// [outer, middle, inner] with gaps, over the middle, the outer and inner, or all axes.
TEST_P(Reduce, RandomShapesAxesAndTypes) {
  for (int round = 0; round < 60; ++round) {
    ReduceCall call;
    call.op = static_cast<ReduceOp>(draw(0, 6));
    const bool truth = call.op == ReduceOp::kAny || call.op == ReduceOp::kAll;
    call.dtype = draw_type();
    call.output_dtype = truth ? DType::kBool : pick({call.dtype, DType::kFloat32});
    const std::int64_t dims[] = {draw(1, 5), draw(1, 90), draw(1, 7)};
    const std::int64_t inner = dims[2] + draw(0, 1);
    const std::int64_t strides[] = {dims[1] * inner, inner, 1};
    const std::vector<bool> reduced =
        pick<std::vector<bool>>({{false, true, false}, {true, false, true}, {true, true, true}});
    Buffer input(*device_, call.dtype, dims[0] * dims[1] * inner);
    input.fill(random_);
    if (truth) {
      for (std::int64_t i = 0; i < input.count(); ++i)
        input.set(i, draw(0, 9) == 0 ? (call.op == ReduceOp::kAny) : (call.op == ReduceOp::kAll));
    }
    std::int64_t results = 1;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      (reduced[axis] ? call.reduced : call.kept).push_back({dims[axis], strides[axis]});
      if (!reduced[axis]) results *= dims[axis];
    }
    Buffer output(*device_, truth ? DType::kInt8 : call.output_dtype, results);
    call.input = input.data();
    call.output = output.data();
    run(plan_reduce(call, shape()));
    std::vector<std::vector<double>> groups(static_cast<std::size_t>(results));
    for (std::int64_t i = 0; i < dims[0] * dims[1] * dims[2]; ++i) {
      const std::int64_t at[] = {i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]};
      std::int64_t group = 0;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if (!reduced[axis]) group = group * dims[axis] + at[axis];
      }
      groups[static_cast<std::size_t>(group)].push_back(input.get(at[0] * strides[0] + at[1] * strides[1] + at[2]));
    }
    for (std::int64_t i = 0; i < results; ++i) {
      const auto& values = groups[static_cast<std::size_t>(i)];
      double size = 1;
      for (const double value : values) size += std::abs(value);
      const double wanted = exact(call.op, values);
      ASSERT_TRUE(is_near(output.get(i), wanted, truth ? DType::kFloat32 : call.output_dtype, 1e-6 * size))
          << static_cast<int>(call.op) << " at " << i;
    }
  }
}

TEST_P(Reduce, BoolsAndNan) {
  Buffer input(*device_, DType::kInt8, 40);
  Buffer output(*device_, DType::kInt8, 1);
  for (std::int64_t i = 0; i < 40; ++i) input.set(i, i == 37 ? 1 : 0);
  ReduceCall call;
  call.dtype = call.output_dtype = DType::kBool;
  call.input = input.data();
  call.output = output.data();
  call.reduced = {{40, 1}};
  call.op = ReduceOp::kAny;
  run(plan_reduce(call, shape()));
  EXPECT_EQ(output.get(0), 1.0);
  call.op = ReduceOp::kAll;
  run(plan_reduce(call, shape()));
  EXPECT_EQ(output.get(0), 0.0);
  Buffer numbers(*device_, DType::kFloat32, 40);
  Buffer result(*device_, DType::kFloat32, 1);
  numbers.fill(random_).floats()[21] = std::numeric_limits<float>::quiet_NaN();
  call.dtype = call.output_dtype = DType::kFloat32;
  call.input = numbers.data();
  call.output = result.data();
  for (const ReduceOp op : {ReduceOp::kMaximum, ReduceOp::kMinimum}) {
    call.op = op;
    run(plan_reduce(call, shape()));
    EXPECT_TRUE(std::isnan(result.get(0)));
  }
}

// Few different numbers, so that there are equals, and NaN now and then: the first one counts.
TEST_P(Reduce, PlacesOfExtremes) {
  for (int round = 0; round < 40; ++round) {
    ReduceCall call;
    const bool greatest = draw(0, 1) == 0;
    call.op = greatest ? ReduceOp::kPlaceOfMaximum : ReduceOp::kPlaceOfMinimum;
    call.dtype = pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kInt64});
    call.output_dtype = DType::kInt64;
    const std::int64_t rows = draw(1, 9);
    const std::int64_t width = draw(1, 200);
    const std::int64_t stride = width + draw(0, 3);
    Buffer input(*device_, call.dtype, rows * stride);
    for (std::int64_t i = 0; i < input.count(); ++i) input.set(i, static_cast<double>(draw(-5, 5)));
    if (call.dtype == DType::kFloat32 && draw(0, 1) == 0) {
      input.floats()[draw(0, width - 1)] = std::numeric_limits<float>::quiet_NaN();
    }
    Buffer output(*device_, DType::kInt64, rows);
    call.kept = {{rows, stride}};
    call.reduced = {{width, 1}};
    call.input = input.data();
    call.output = output.data();
    run(plan_reduce(call, shape()));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < width && !std::isnan(input.get(row * stride + best)); ++i) {
        const double value = input.get(row * stride + i);
        const double so_far = input.get(row * stride + best);
        if (std::isnan(value) || (greatest ? value > so_far : value < so_far)) best = i;
      }
      ASSERT_EQ(output.get(row), static_cast<double>(best)) << "row " << row << " of " << to_string(call.dtype);
    }
  }
}

TEST_P(Reduce, BadCallsAreRefused) {
  ReduceCall call;
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: input and output must be given");
  call.op = ReduceOp::kMaximum;
  call.reduced = {{0, 1}};
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: there is no extreme of nothing");
  call.dtype = DType::kInt64;
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: no kernel for int64");
  call.op = ReduceOp::kPlaceOfMaximum;
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: places are int64");
  call.output_dtype = DType::kInt64;
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: there is no extreme of nothing");
  call.op = ReduceOp::kSum;
  call.dtype = DType::kFloat32;
  call.output_dtype = DType::kFloat16;
  EXPECT_EQ(plan_reduce(call, shape()).status().message(), "reduce: the output must be of the input's type or float32");
}

KPT_KERNEL_TESTS(Reduce);

}  // namespace
}  // namespace kpt::gpu::testing
