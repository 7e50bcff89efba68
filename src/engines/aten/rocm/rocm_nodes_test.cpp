// The nodes of this module on the host's memory, against what the operators mean in double: our kernels run through
// their host mapping, products through libtorch's CPU operators.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/module/replaced_nodes.h"
#include "engines/aten/rocm/node_testing.h"
#include "ir/text.h"

namespace kpt::aten {

const GpuKind kGpuKind = {"amd:", Vendor::kAmd, "hipBLAS", false, nullptr};

namespace {

using ::testing::HasSubstr;

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

// With waves of both widths.
class RocmNodes : public NodeTest, public ::testing::WithParamInterface<int> {
 protected:
  RocmNodes() : NodeTest(GetParam()) {}
};

TEST_P(RocmNodes, NormsWithAResidual) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const std::string kind : {"layer", "rms"}) {
      constexpr std::int64_t kRows = 5;
      constexpr std::int64_t kWidth = 37;
      NodeGraph graph("kpt.add_norm.default", seed_);
      const auto input = to_numbers(graph.input("input", dtype, {kRows, kWidth}));
      const auto residual = to_numbers(graph.input("residual", dtype, {kRows, kWidth}));
      const auto weight = to_numbers(graph.weight("weight", dtype, {kWidth}));
      const auto bias = to_numbers(graph.weight("bias", dtype, {kWidth}));
      graph.constant("epsilon", {1e-5});
      graph.constant("kind", {kind});
      graph.result(dtype, {kRows, kWidth});
      graph.result(dtype, {kRows, kWidth});
      const auto outputs = run(graph, "kpt.add_norm.default");
      ASSERT_EQ(outputs.size(), 2U);
      std::vector<double> sums(input.size());
      std::vector<double> normed(input.size());
      for (std::size_t row = 0; row < kRows; ++row) {
        double mean = 0;
        double square = 0;
        for (std::size_t at = row * kWidth; at < (row + 1) * kWidth; ++at) {
          sums[at] = input[at] + residual[at];
          mean += sums[at] / kWidth;
        }
        if (kind == "rms") mean = 0;
        for (std::size_t at = row * kWidth; at < (row + 1) * kWidth; ++at) square += std::pow(sums[at] - mean, 2);
        for (std::size_t at = row * kWidth; at < (row + 1) * kWidth; ++at) {
          const std::size_t column = at - row * kWidth;
          normed[at] = (sums[at] - mean) / std::sqrt(square / kWidth + 1e-5) * weight[column] + bias[column];
        }
      }
      expect_near(outputs[0], normed, rounding_of(dtype));
      expect_near(outputs[1], sums, rounding_of(dtype));
    }
  }
}

TEST_P(RocmNodes, Gates) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    NodeGraph graph("kpt.glu.default", seed_);
    const auto input = to_numbers(graph.input("input", dtype, {3, 2, 26}));
    graph.constant("activation", {std::string("silu")});
    graph.result(dtype, {3, 2, 13});
    const auto outputs = run(graph, "kpt.glu.default");
    ASSERT_EQ(outputs.size(), 1U);
    std::vector<double> wanted;
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t column = 0; column < 13; ++column) {
        const double gate = input[row * 26 + column];
        wanted.push_back(gate / (1 + std::exp(-gate)) * input[row * 26 + 13 + column]);
      }
    }
    expect_near(outputs[0], wanted, rounding_of(dtype));
  }
}

TEST_P(RocmNodes, RotaryPositions) {
  constexpr std::size_t kLength = 5;
  constexpr std::size_t kWidth = 12;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    NodeGraph graph("kpt.rotary.default", seed_);
    const auto input = to_numbers(graph.input("input", dtype, {2, 3, kLength, kWidth}));
    const auto cos = to_numbers(graph.weight("cos", dtype, {kLength, kWidth}));
    const auto sin = to_numbers(graph.weight("sin", dtype, {kLength, kWidth}));
    graph.result(dtype, {2, 3, kLength, kWidth});
    const auto outputs = run(graph, "kpt.rotary.default");
    ASSERT_EQ(outputs.size(), 1U);
    std::vector<double> wanted;
    for (std::size_t at = 0; at < input.size(); ++at) {
      const std::size_t column = at % kWidth;
      const std::size_t place = at / kWidth % kLength * kWidth + column;
      const bool first = column < kWidth / 2;
      const double turned = first ? -input[at + kWidth / 2] : input[at - kWidth / 2];
      wanted.push_back(input[at] * cos[place] + turned * sin[place]);
    }
    expect_near(outputs[0], wanted, rounding_of(dtype));
  }
}

// activation(input · weightᵀ + bias + residual), where `weight` has `columns` rows.
std::vector<double> multiply(const std::vector<double>& input, const std::vector<double>& weight, std::size_t columns,
                             const std::vector<double>& bias, const std::vector<double>& residual) {
  const std::size_t depth = weight.size() / columns;
  std::vector<double> result;
  for (std::size_t at = 0; at < input.size() / depth * columns; ++at) {
    double sum = bias[at % columns] + residual[at];
    for (std::size_t step = 0; step < depth; ++step) {
      sum += input[at / columns * depth + step] * weight[at % columns * depth + step];
    }
    result.push_back(gelu(sum));
  }
  return result;
}

TEST_P(RocmNodes, ProductsAreEndedByOneKernel) {
  constexpr std::int64_t kColumns = 11;
  constexpr std::int64_t kDepth = 23;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {  // of the weight
    const DType rest = dtype == DType::kFloat16 ? dtype : DType::kFloat32;
    NodeGraph graph("kpt.linear.default", seed_);
    Tensor input = graph.input("input", rest, {2, 3, kDepth});
    if (dtype == DType::kBFloat16) {  // numbers that lose nothing on the way to the product
      for (float& value : input.elements<float>()) value = std::round(value * 8) / 8;
    }
    const auto weight = to_numbers(graph.weight("weight", dtype, {kColumns, kDepth}));
    const auto bias = to_numbers(graph.weight("bias", rest, {kColumns}));
    const auto residual = to_numbers(graph.input("residual", rest, {2, 3, kColumns}));
    graph.constant("activation", {std::string("gelu")});
    graph.result(rest, {2, 3, kColumns});
    const auto outputs = run(graph, "kpt.linear.default");
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_THAT(launcher_.families, ::testing::ElementsAre("activation"));
    expect_near(outputs[0], multiply(to_numbers(input), weight, kColumns, bias, residual), rounding_of(dtype), 20);
  }
}

TEST_P(RocmNodes, ProductsOfFloat16EndInTheLibrary) {
  for (const std::string activation : {"none", "relu", "gelu_tanh"}) {
    NodeGraph graph("kpt.linear.default", seed_);
    const auto input = to_numbers(graph.input("input", DType::kFloat16, {6, 23}));
    const auto weight = to_numbers(graph.weight("weight", DType::kFloat16, {11, 23}));
    const auto bias = to_numbers(graph.weight("bias", DType::kFloat16, {11}));
    graph.constant("residual", ir::Argument());
    graph.constant("activation", {activation});
    graph.result(DType::kFloat16, {6, 11});
    const auto outputs = run(graph, "kpt.linear.default");
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_THAT(launcher_.families, ::testing::IsEmpty()) << activation;
    std::vector<double> wanted;
    for (std::size_t at = 0; at < 66; ++at) {
      double sum = bias[at % 11];
      for (std::size_t step = 0; step < 23; ++step) sum += input[at / 11 * 23 + step] * weight[at % 11 * 23 + step];
      if (activation == "relu") sum = std::max(sum, 0.0);
      if (activation == "gelu_tanh") {
        sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (sum + 0.044715 * sum * sum * sum)));
      }
      wanted.push_back(sum);
    }
    expect_near(outputs[0], wanted, rounding_of(DType::kFloat16), 20);
  }
}

TEST_P(RocmNodes, Float16GoesIntoNoProductWithOthers) {
  for (const DType input : {DType::kFloat32, DType::kBFloat16}) {
    NodeGraph graph("kpt.linear.default", seed_);
    graph.input("input", input, {6, 4});
    graph.weight("weight", DType::kFloat16, {3, 4});
    graph.constant("bias", ir::Argument());
    graph.constant("residual", ir::Argument());
    graph.constant("activation", {std::string("none")});
    graph.result(input, {6, 3});
    const Status status = graph.run(&launcher_).status();
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("is float16 with an input of {}", to_string(input))));
  }
}

TEST_P(RocmNodes, ProductsWithWeightsOfFewBits) {
  constexpr std::int64_t kColumns = 9;
  constexpr std::int64_t kDepth = 32;
  constexpr std::int64_t kGroup = 16;
  for (const bool halves : {false, true}) {
    const std::string target = halves ? "kpt.linear_int4.default" : "kpt.linear_weight_int8.default";
    for (const std::int64_t rows : {1, 3, 11}) {  // for the last, the weight is written out
      NodeGraph graph(target, seed_);
      const auto input = to_numbers(graph.input("input", DType::kFloat32, {rows, kDepth}));
      const auto stored = to_numbers(
          graph.weight("weight", halves ? DType::kUInt8 : DType::kInt8, {kColumns, halves ? kDepth / 2 : kDepth}));
      const auto scale = to_numbers(
          graph.weight("scale", DType::kFloat32, halves ? Sizes{kColumns, kDepth / kGroup} : Sizes{kColumns}));
      const auto bias = to_numbers(graph.weight("bias", DType::kFloat32, {kColumns}));
      const auto residual = to_numbers(graph.input("residual", DType::kFloat32, {rows, kColumns}));
      graph.constant("activation", {std::string("gelu")});
      if (halves) graph.constant("group", {kGroup});
      graph.result(DType::kFloat32, {rows, kColumns});
      const auto outputs = run(graph, target);
      ASSERT_EQ(outputs.size(), 1U);
      std::vector<double> weight;
      for (std::size_t at = 0; at < kColumns * kDepth; ++at) {
        if (!halves) {
          weight.push_back(stored[at] * scale[at / kDepth]);
        } else {
          const auto byte = static_cast<unsigned>(stored[at / 2]);
          weight.push_back((static_cast<double>(at % 2 == 0 ? byte & 15U : byte >> 4U) - 8) * scale[at / kGroup]);
        }
      }
      EXPECT_TRUE(launcher_.families.contains("weight_only") || (!halves && rows > 8));
      expect_near(outputs[0], multiply(input, weight, kColumns, bias, residual), 3e-6, 1000);
    }
  }
}

TEST_P(RocmNodes, WithoutALauncherANodeSaysSo) {
  NodeGraph graph("kpt.glu.default", seed_);
  graph.input("input", DType::kFloat32, {3, 4});
  graph.constant("activation", {std::string("silu")});
  graph.result(DType::kFloat32, {3, 2});
  EXPECT_THAT(graph.run(nullptr).status().message(), HasSubstr("the model was loaded without kernels of ours"));
}

TEST_P(RocmNodes, OperatorsThatNeedCudasLibrariesAreRefused) {
  NodeGraph graph("kpt.conv2d.default", seed_);
  graph.input("input", DType::kFloat32, {3, 4});
  EXPECT_EQ(graph.run(&launcher_).status().code(), StatusCode::kUnsupported);
}

// What libtorch's ROCm build multiplies depends on the target; the form of the CPU, in float32, does not.
TEST(RocmReplacements, ScaledProductsTakeTheFormOfTheCpu) {
  for (const char* const type : {"float8_e4m3fn", "float8_e5m2"}) {
    const auto graph = ir::read_graph(
        fmt::format("kpt_graph 1\ninput x: {0}[32, 48]\ninput w: {0}[48, 32]{{strides=[1, 48]}}\ninput a: float32[]\n"
                    "input b: float32[]\nmm: bfloat16[32, 32] = aten._scaled_mm.default(self=%x, mat2=%w, scale_a=%a, "
                    "scale_b=%b, bias=none, scale_result=none, out_dtype=dtype(bfloat16), use_fast_accum=true)\n"
                    "output %mm \"y\"\n",
                    type));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const TypedFunction on_cpu = find_replacement(*graph, graph->nodes[0], at::Device(at::kCPU));
    ASSERT_NE(on_cpu, nullptr);
    EXPECT_EQ(find_replacement(*graph, graph->nodes[0], at::Device(at::kCUDA, 0)), on_cpu);
  }
}

INSTANTIATE_TEST_SUITE_P(Waves, RocmNodes, ::testing::Values(32, 64));

}  // namespace
}  // namespace kpt::aten
