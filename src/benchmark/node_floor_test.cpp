#include "benchmark/node_floor.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

// 100 GFLOP/s in float32, 400 in bfloat16, 10 GB/s up to 1000 bytes, 1 GB/s beyond.
MachineFloor machine() {
  MachineFloor floor;
  floor.peaks = {{"float32", "FMLA", 100}, {"bfloat16", "BFMMLA", 400}};
  floor.copies = {{1000, 10}, {1000000, 1}};
  return floor;
}

const char* const kGraph = R"(kpt_graph 1
symbol s0 in 1..64
values w, half, codes, scale, x, wide, narrow, whole, sum, view
parameter w: float32[64, 128] "w"
parameter half: bfloat16[64, 128] "half"
parameter codes: int8[64, 128] "codes"
parameter scale: float32[64] "scale"
input x: float32[s0, 128]
wide: float32[s0, 64] = kpt.linear.default(input=%x, weight=%w, bias=none, residual=none, activation="none")
narrow: float32[s0, 64] = kpt.linear.default(input=%x, weight=%half, bias=none, residual=none, activation="none")
whole: float32[s0, 64] = kpt.linear_int8.default(input=%x, weight=%codes, scale=%scale, bias=none, residual=none, activation="none")
sum: float32[s0, 64] = aten.add.Tensor(self=%wide, other=%narrow)
view: float32[64*s0] = aten.view.default(self=%sum, size=[-1])
output %whole "out"
output %view "view"
)";

class NodeFloorTest : public ::testing::Test {
 protected:
  NodeFloor floor(std::size_t node, std::int64_t rows, const MachineFloor& limits = machine()) {
    ir::Bindings sizes;
    if (rows > 0) sizes.set("s0", rows);
    return find_floor(graph_, graph_.nodes[node], sizes, limits);
  }
  ir::Graph graph_ = ir::read_graph(kGraph).value();
};

TEST_F(NodeFloorTest, TheLongerOfArithmeticAndMemoryIsTheFloor) {
  MachineFloor fast = machine();
  fast.copies = {{1 << 20, 1000}};
  const NodeFloor product = floor(0, 32, fast);
  EXPECT_EQ(product.flops, 2.0 * 32 * 64 * 128);
  EXPECT_EQ(product.bound, Bound::kArithmetic);
  EXPECT_EQ(product.type, "float32");
  EXPECT_DOUBLE_EQ(product.microseconds, 2.0 * 32 * 64 * 128 / 100e3);
  // One row has as many bytes of weights and a thirty-second of the products.
  const NodeFloor row = floor(0, 1);
  EXPECT_EQ(row.bound, Bound::kMemory);
  EXPECT_DOUBLE_EQ(row.microseconds, 4.0 * (64 * 128 + 128 + 64) / 1e3);
}

TEST_F(NodeFloorTest, ProductsCountInTheTypeTheyAreMadeIn) {
  MachineFloor limits = machine();
  limits.copies.clear();
  EXPECT_EQ(floor(1, 32, limits).type, "bfloat16");
  EXPECT_DOUBLE_EQ(floor(0, 32, limits).microseconds, 4 * floor(1, 32, limits).microseconds);
  // No peak of int8 is known here: no share is invented.
  EXPECT_EQ(floor(2, 32, limits).type, "int8");
  EXPECT_EQ(floor(2, 32, limits).bound, Bound::kNone);
  limits.peaks.pop_back();
  EXPECT_EQ(floor(1, 32, limits).type, "float32") << "bfloat16 without instructions of its own";
  EXPECT_DOUBLE_EQ(floor(1, 32, limits).microseconds, floor(0, 32, limits).microseconds);
}

TEST_F(NodeFloorTest, OtherNodesAreBoundByTheirBytesInTheSetThatHoldsThem) {
  const NodeFloor small = floor(3, 1);
  EXPECT_EQ(small.bound, Bound::kMemory);
  EXPECT_EQ(small.type, "");
  EXPECT_DOUBLE_EQ(small.microseconds, 3 * 4.0 * 64 / 10e3);
  EXPECT_DOUBLE_EQ(floor(3, 32).microseconds, 32 * 3 * 4.0 * 64 / 1e3);
  EXPECT_EQ(floor(4, 32).bound, Bound::kNone) << "a view moves nothing";
  EXPECT_EQ(floor(0, 0).bound, Bound::kNone) << "sizes are not known";
  EXPECT_FALSE(floor(0, 0).flops);
}

TEST(MachineFloor, IsMeasuredForEveryTypeThatTheProcessorHas) {
  const MachineFloor floor = measure_floor(1, kernels::cpu_features());
  ASSERT_FALSE(floor.peaks.empty());
  EXPECT_EQ(floor.peaks[0].type, "float32");
  for (const ArithmeticPeak& peak : floor.peaks) EXPECT_GT(peak.gflops, 0.1) << peak.instructions;
  ASSERT_GE(floor.copies.size(), 2U);
  for (const CopySpeed& copy : floor.copies) EXPECT_GT(copy.gbytes, 0.01) << copy.bytes;
  const MachineFloor plain = measure_floor(1, {});
  ASSERT_EQ(plain.peaks.size(), 1U);
  EXPECT_EQ(plain.peaks[0].instructions, "plain C++");
}

}  // namespace
}  // namespace kpt
