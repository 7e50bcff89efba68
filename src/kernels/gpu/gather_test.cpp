#include "kernels/gpu/gather.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

class Gather : public KernelTest {};

// source[i0][:][i1] with indices of [rows, 1] and [columns]: output [rows, columns, middle].
TEST_P(Gather, TakesElementsOfEverySizeByTwoIndices) {
  for (int round = 0; round < 20; ++round) {
    GatherCall call;
    call.dtype = pick({DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kInt64});
    const auto bytes = static_cast<std::int64_t>(element_bytes(call.dtype));
    const std::int64_t extents[] = {draw(1, 6), draw(1, 5), draw(1, 7)};
    const std::int64_t rows = draw(1, 8);
    const std::int64_t columns = draw(1, 8);
    Buffer source(*device_, DType::kInt8, extents[0] * extents[1] * extents[2] * bytes);
    for (std::int64_t i = 0; i < source.count(); ++i) source.set(i, static_cast<double>(draw(-127, 126)));
    Buffer first(*device_, DType::kInt64, rows);
    Buffer second(*device_, DType::kInt64, columns);
    std::vector<std::int64_t> chosen[2];
    for (std::int64_t i = 0; i < rows; ++i) {
      chosen[0].push_back(draw(0, extents[0] - 1));
      first.set(i, static_cast<double>(chosen[0].back() - (draw(0, 1) == 0 ? extents[0] : 0)));
    }
    for (std::int64_t i = 0; i < columns; ++i) {
      chosen[1].push_back(draw(0, extents[2] - 1));
      second.set(i, static_cast<double>(chosen[1].back()));
    }
    Buffer output(*device_, DType::kInt8, rows * columns * extents[1] * bytes);
    Buffer flag(*device_, DType::kInt32, 1);
    flag.set(0, 0);
    call.source = source.data();
    call.output = output.data();
    call.dims = {rows, columns, extents[1]};
    call.source_strides = {0, 0, extents[2]};
    call.axes = {{first.data(), {1, 0, 0}, extents[0], extents[1] * extents[2]},
                 {second.data(), {0, 1, 0}, extents[2], 1}};
    call.wrap = true;
    call.out_of_range = static_cast<std::int32_t*>(flag.data());
    run(plan_gather(call, shape()));
    EXPECT_EQ(flag.code(0), 0U);
    for (std::int64_t i = 0; i < output.count(); ++i) {
      const std::int64_t item = i / bytes;
      const std::int64_t row = item / extents[1] / columns;
      const std::int64_t column = item / extents[1] % columns;
      const std::int64_t place =
          (chosen[0][static_cast<std::size_t>(row)] * extents[1] + item % extents[1]) * extents[2] +
          chosen[1][static_cast<std::size_t>(column)];
      ASSERT_EQ(output.code(i), source.code(place * bytes + i % bytes)) << i;
    }
  }
}

TEST_P(Gather, IndicesOutsideAreReportedAndReadNothing) {
  for (const auto& [bad, wrap] : {std::pair(-1, false), std::pair(4, true), std::pair(-5, true)}) {
    Buffer source(*device_, DType::kFloat32, 4);
    Buffer indices(*device_, DType::kInt64, 2);
    Buffer output(*device_, DType::kFloat32, 2);
    Buffer flag(*device_, DType::kInt32, 1);
    source.fill(random_);
    indices.set(0, bad);
    indices.set(1, 3);
    flag.set(0, 0);
    GatherCall call;
    call.source = source.data();
    call.output = output.data();
    call.dims = {2};
    call.source_strides = {0};
    call.axes = {{indices.data(), {1}, 4, 1}};
    call.wrap = wrap;
    call.out_of_range = static_cast<std::int32_t*>(flag.data());
    run(plan_gather(call, shape()));
    EXPECT_EQ(flag.code(0), 1U);
    EXPECT_EQ(output.get(0), 0.0);
    EXPECT_EQ(output.get(1), source.get(3));
  }
}

// A scatter of what a gather by the same distinct indices took puts everything back; other places stay.
TEST_P(Gather, ScatterPutsBackWhatWasTaken) {
  for (int round = 0; round < 20; ++round) {
    GatherCall call;
    call.dtype = pick({DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kInt64});
    const auto bytes = static_cast<std::int64_t>(element_bytes(call.dtype));
    const std::int64_t extents[] = {draw(1, 5), draw(1, 9), draw(1, 6)};
    const std::int64_t chosen = draw(1, extents[1]);
    std::vector<std::int64_t> order(static_cast<std::size_t>(extents[1]));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random_);
    Buffer source(*device_, DType::kInt8, extents[0] * extents[1] * extents[2] * bytes);
    for (std::int64_t i = 0; i < source.count(); ++i) source.set(i, static_cast<double>(draw(-127, 126)));
    Buffer target(*device_, DType::kInt8, source.count());
    for (std::int64_t i = 0; i < target.count(); ++i) target.set(i, 127);
    Buffer indices(*device_, DType::kInt64, chosen);
    for (std::int64_t i = 0; i < chosen; ++i) indices.set(i, static_cast<double>(order[static_cast<std::size_t>(i)]));
    Buffer taken(*device_, DType::kInt8, extents[0] * chosen * extents[2] * bytes);
    Buffer flag(*device_, DType::kInt32, 1);
    flag.set(0, 0);
    call.dims = {extents[0], chosen, extents[2]};
    call.source_strides = {extents[1] * extents[2], 0, 1};
    call.axes = {{indices.data(), {0, 1, 0}, extents[1], extents[2]}};
    call.out_of_range = static_cast<std::int32_t*>(flag.data());
    call.source = source.data();
    call.output = taken.data();
    run(plan_gather(call, shape()));
    call.source = taken.data();
    call.output = target.data();
    run(plan_scatter(call, shape()));
    EXPECT_EQ(flag.code(0), 0U);
    const auto end = order.begin() + chosen;
    for (std::int64_t i = 0; i < target.count(); ++i) {
      const bool named = std::find(order.begin(), end, i / bytes / extents[2] % extents[1]) != end;
      ASSERT_EQ(target.get(i), named ? source.get(i) : 127) << i;
    }
    indices.set(0, static_cast<double>(extents[1]));
    run(plan_scatter(call, shape()));
    EXPECT_EQ(flag.code(0), 1U) << "an index outside writes nothing and is told";
  }
}

TEST_P(Gather, BadCallsAreRefused) {
  GatherCall call;
  EXPECT_EQ(plan_gather(call, shape()).status().message(), "gather: 0 tensors of indices, 1 to 3");
  call.axes = {{nullptr, {1}, 4, 1}};
  EXPECT_EQ(plan_gather(call, shape()).status().message(), "gather: strides and extents differ in number");
  call.dims = {2};
  call.source_strides = {0};
  EXPECT_EQ(plan_gather(call, shape()).status().message(), "gather: source, indices and output must be given");
  call.dtype = DType::kComplex128;
  EXPECT_EQ(plan_gather(call, shape()).status().message(), "gather: no kernel for complex128");
  EXPECT_EQ(plan_scatter(call, shape()).status().message(), "scatter: no kernel for complex128");
}

KPT_KERNEL_TESTS(Gather);

}  // namespace
}  // namespace kpt::gpu::testing
