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

// A GPU with 1000 GFLOP/s in bfloat16, 2000 of eight bits, 100 in float32.
class PublishedFloor : public ::testing::Test {
 protected:
  static MachineFloor limits(std::vector<DType> fast) {
    Capabilities capabilities;
    capabilities.matrix_dtypes = std::move(fast);
    capabilities.weight_only_rows = 8;
    return published_floor({1 << 30, 1e18, 1e12, 1e11, 2e12}, capabilities);
  }
  static constexpr DType kFp8 = DType::kFloat8E4M3FN;
  ir::Graph graph_ = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..64
parameter eighths: float8_e4m3fn[64, 128] "eighths"
parameter codes: int8[64, 128] "codes"
parameter pairs: uint8[64, 64] "pairs"
parameter scale: float32[64] "scale"
parameter scales: float32[64, 4] "scales"
input x: bfloat16[s0, 128]
fp8: bfloat16[s0, 64] = kpt.linear_fp8.default(input=%x, weight=%eighths, scale=%scale, bias=none, residual=none, activation="none")
int8: bfloat16[s0, 64] = kpt.linear_int8.default(input=%x, weight=%codes, scale=%scale, bias=none, residual=none, activation="none")
alone: float32[s0, 64] = kpt.linear_weight_int8.default(input=%x, weight=%codes, scale=%scale, bias=none, residual=none, activation="none")
four: float32[s0, 64] = kpt.linear_int4.default(input=%x, weight=%pairs, scale=%scales, bias=none, residual=none, activation="none", group=32)
output %fp8 "fp8"
output %int8 "int8"
output %alone "alone"
output %four "four"
)")
                         .value();
  NodeFloor floor(std::size_t node, std::int64_t rows, const MachineFloor& machine) const {
    ir::Bindings sizes;
    sizes.set("s0", rows);
    return find_floor(graph_, graph_.nodes[node], sizes, machine);
  }
};

TEST_F(PublishedFloor, ProductsOfEightBitsHaveTheirOwnRateWhereTheDeviceMultipliesThem) {
  const MachineFloor hopper = limits({DType::kBFloat16, DType::kFloat16, kFp8});
  const NodeFloor fp8 = floor(0, 32, hopper);
  EXPECT_EQ(fp8.type, "float8_e4m3fn");
  EXPECT_EQ(fp8.bound, Bound::kArithmetic);
  EXPECT_DOUBLE_EQ(fp8.microseconds, 2.0 * 32 * 64 * 128 / 2e6);
  EXPECT_EQ(hopper.find_peak("int8"), nullptr) << "it is no type of this device's products";
  const MachineFloor ampere = limits({DType::kBFloat16, DType::kInt8});
  EXPECT_EQ(ampere.find_peak("float8_e4m3fn"), nullptr);
  EXPECT_DOUBLE_EQ(floor(1, 32, ampere).microseconds, 2.0 * 32 * 64 * 128 / 2e6);
}

TEST_F(PublishedFloor, WeightsAloneInFewBitsAreFloat32ForFewRowsAndTheNarrowerTypeForMore) {
  const MachineFloor hopper = limits({DType::kBFloat16, kFp8});
  for (const std::size_t node : {2U, 3U}) {
    const NodeFloor few = floor(node, 8, hopper);
    EXPECT_EQ(few.type, "float32");
    EXPECT_DOUBLE_EQ(few.microseconds, 2.0 * 8 * 64 * 128 / 1e5);
    const NodeFloor many = floor(node, 9, hopper);
    EXPECT_EQ(many.type, "bfloat16");
    EXPECT_DOUBLE_EQ(many.microseconds, 2.0 * 9 * 64 * 128 / 1e6);
    EXPECT_EQ(floor(node, 64, machine()).type, "float32") << "the CPU writes no weight out";
  }
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
