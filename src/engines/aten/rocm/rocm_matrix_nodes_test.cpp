// The nodes of this module that AMD's matrix cores are for, with each unit's lanes in the host mapping, against what
// the operators mean in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/rocm/node_testing.h"
#include "kernels/gpu/matrix.h"
#include "support/rounds.h"

namespace kpt::aten {
namespace {

using gpu::MatrixUnit;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int wave_of(MatrixUnit unit) { return unit == MatrixUnit::kRdna3 || unit == MatrixUnit::kRdna4 ? 32 : 64; }

std::string_view suffix_of(DType dtype) {
  if (dtype == DType::kFloat32) return "f32";
  return dtype == DType::kFloat16 ? "f16" : "bf16";
}

// [queries, keys] of a head, or of all of them: element (batch, head, query, key) of what is broadcast to `scores`.
double broadcast(const std::vector<double>& numbers, const Sizes& sizes, const Sizes& scores, const Sizes& place) {
  std::size_t at = 0;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const std::size_t own = scores.size() - sizes.size() + axis;
    at = at * static_cast<std::size_t>(sizes[axis]) + static_cast<std::size_t>(sizes[axis] == 1 ? 0 : place[own]);
  }
  return numbers[at];
}

// One case of kpt.attention, as drawn, and what it means.
struct AttentionCase {
  DType dtype = DType::kFloat16;
  std::int64_t batches = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 64;
  std::optional<DType> mask;  // its type
  Sizes mask_sizes = {};
  bool causal = false;
  double scale = 0.125;

  std::string text() const {
    return fmt::format("{} [{}, {} of {}, {} to {}, {}], mask {} of [{}], causal {}", to_string(dtype), batches, heads,
                       groups, queries, keys, width, mask ? to_string(*mask) : "none", fmt::join(mask_sizes, ", "),
                       causal);
  }
};

class RocmMatrixNodes : public NodeTest, public ::testing::WithParamInterface<MatrixUnit> {
 protected:
  explicit RocmMatrixNodes(MatrixUnit unit) : NodeTest(wave_of(unit), unit), random_(seed_) {}
  RocmMatrixNodes() : RocmMatrixNodes(GetParam()) {}

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[draw(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  unsigned next_seed() { return static_cast<unsigned>(random_()); }

  void check_quantized(DType weight_type, DType input_type);
  AttentionCase draw_attention(DType dtype, std::int64_t width);
  void check_attention_case(const AttentionCase& given, bool fused);

  std::mt19937 random_;
};

// activation(input · (weight · scale)ᵀ + bias + residual), where the input's rows are rounded to 8 bits: each element
// is off by half a step of int8, or by one part in 16 of FP8.
void RocmMatrixNodes::check_quantized(DType weight_type, DType input_type) {
  const bool is_fp8 = weight_type == DType::kFloat8E4M3FN;
  const std::string target = is_fp8 ? "kpt.linear_fp8.default" : "kpt.linear_int8.default";
  const std::int64_t outer = draw(1, 3);
  const std::int64_t rows = outer * draw(1, 11);
  const std::int64_t depth = draw(1, 70);
  const std::int64_t columns = draw(1, 50);
  const DType result_type = pick({input_type, DType::kFloat32});
  SCOPED_TRACE(fmt::format("{} rows of {}, {} columns, depth {}, result {}", rows, to_string(input_type), columns,
                           depth, to_string(result_type)));
  NodeGraph graph(target, next_seed());
  Tensor given = graph.input("input", input_type, {outer, rows / outer, depth});
  if (input_type == DType::kFloat32) {  // each row has a scale of its own
    float magnitude = 1e-3F;
    for (std::int64_t at = 0; at < rows * depth; ++at) {
      if (at % depth == 0) magnitude *= at / depth % 7 == 0 ? 1e-3F : 10.0F;
      given.elements<float>()[static_cast<std::size_t>(at)] *= magnitude;
    }
  }
  const auto input = to_numbers(given);
  const auto weight = to_numbers(graph.weight("weight", weight_type, {columns, depth}));
  const auto scale = to_numbers(graph.weight("scale", DType::kFloat32, {columns}));
  const auto bias = to_numbers(graph.weight("bias", pick({DType::kFloat32, input_type}), {columns}));
  const auto residual = to_numbers(graph.input("residual", result_type, {outer, rows / outer, columns}));
  graph.constant("activation", {std::string("relu")});
  graph.result(result_type, {outer, rows / outer, columns});
  const auto outputs = run(graph, target);
  ASSERT_EQ(outputs.size(), 1U);
  const std::string_view codes = !is_fp8 ? "i8" : (GetParam() == MatrixUnit::kCdna3 ? "e4m3fnuz" : "e4m3");
  const std::string rounding = fmt::format("quantize_rows_{}_{}", suffix_of(input_type), codes);
  const std::string product = fmt::format("matrix_{}_{}", gpu::unit_name(GetParam()), codes);
  EXPECT_THAT(launcher_.kernels, ElementsAre(HasSubstr(rounding), product));
  const auto got = to_numbers(outputs[0]);
  const auto wide = static_cast<std::size_t>(depth);
  for (std::size_t at = 0; at < got.size(); ++at) {
    const std::size_t row = at / static_cast<std::size_t>(columns);
    const std::size_t column = at % static_cast<std::size_t>(columns);
    double greatest = 0;
    for (std::size_t k = 0; k < wide; ++k) greatest = std::max(greatest, std::abs(input[row * wide + k]));
    double wanted = bias[column] + residual[at];
    double slack = 1e-6 * (std::abs(bias[column]) + std::abs(residual[at]));
    for (std::size_t k = 0; k < wide; ++k) {
      const double value = input[row * wide + k];
      const double factor = weight[column * wide + k] * scale[column];
      wanted += value * factor;
      slack += std::abs(factor) * (is_fp8 ? std::abs(value) / 16 + greatest * 1e-4 : greatest / 127 * 0.51);
    }
    wanted = std::max(wanted, 0.0);
    ASSERT_NEAR(got[at], wanted, slack + rounding_of(result_type) * (wanted + slack)) << row << ", " << column;
  }
}

TEST_P(RocmMatrixNodes, ProductsOfEightBitsAreTwoKernels) {
  for (const DType weight : {DType::kInt8, DType::kFloat8E4M3FN}) {
    if (!gpu::find_row_type(weight, GetParam())) continue;
    for (const DType input : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      for (int round = 0; round < kpt::testing::rounds(3); ++round) {
        check_quantized(weight, input);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Without bias, residual or activation, and nothing to add up.
TEST_P(RocmMatrixNodes, ProductsOfNothingAreZero) {
  NodeGraph graph("kpt.linear_int8.default", next_seed());
  graph.input("input", DType::kFloat32, {3, 0});
  graph.weight("weight", DType::kInt8, {5, 0});
  graph.weight("scale", DType::kFloat32, {5});
  graph.constant("bias", ir::Argument());
  graph.constant("residual", ir::Argument());
  graph.constant("activation", {std::string("none")});
  graph.result(DType::kFloat32, {3, 5});
  const auto outputs = run(graph, "kpt.linear_int8.default");
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_THAT(to_numbers(outputs[0]), ::testing::Each(0.0));
}

TEST_P(RocmMatrixNodes, Fp8WithoutItsInstructionIsRefused) {
  if (gpu::find_row_type(DType::kFloat8E4M3FN, GetParam())) return;
  NodeGraph graph("kpt.linear_fp8.default", next_seed());
  graph.input("input", DType::kFloat32, {3, 16});
  graph.weight("weight", DType::kFloat8E4M3FN, {16, 16});
  graph.weight("scale", DType::kFloat32, {16});
  graph.constant("bias", ir::Argument());
  graph.constant("residual", ir::Argument());
  graph.constant("activation", {std::string("none")});
  graph.result(DType::kFloat32, {3, 16});
  const Status status = graph.run(&launcher_).status();
  EXPECT_EQ(status.code(), StatusCode::kMatrixUnit);
  EXPECT_THAT(status.message(), HasSubstr("the GPU has no matrix cores for the weight's type"));
}

AttentionCase RocmMatrixNodes::draw_attention(DType dtype, std::int64_t width) {
  AttentionCase drawn;
  drawn.dtype = dtype;
  drawn.width = width;
  drawn.batches = draw(1, 2);
  drawn.groups = draw(1, 2);
  drawn.heads = drawn.groups * draw(1, 3);
  drawn.queries = draw(1, 40);
  drawn.keys = draw(1, 40);
  drawn.causal = draw(0, 1) == 0;
  drawn.scale = 1 / std::sqrt(static_cast<double>(width));
  if (draw(0, 3) == 0) return drawn;
  drawn.mask = pick({DType::kBool, dtype});
  drawn.mask_sizes = {drawn.batches, drawn.heads, drawn.queries, drawn.keys};
  for (std::int64_t& size : drawn.mask_sizes) size = draw(0, 2) == 0 ? 1 : size;
  while (!drawn.mask_sizes.empty() && drawn.mask_sizes[0] == 1) drawn.mask_sizes.erase(drawn.mask_sizes.begin());
  return drawn;
}

void RocmMatrixNodes::check_attention_case(const AttentionCase& given, bool fused) {
  SCOPED_TRACE(given.text());
  NodeGraph graph("kpt.attention.default", next_seed());
  // Tokens first, as projections give them.
  const auto query =
      to_numbers(graph.turned_input("query", given.dtype, {given.batches, given.queries, given.heads, given.width}));
  const auto key = to_numbers(graph.input("key", given.dtype, {given.batches, given.groups, given.keys, given.width}));
  const auto value =
      to_numbers(graph.turned_input("value", given.dtype, {given.batches, given.keys, given.groups, given.width}));
  std::vector<double> mask;
  if (given.mask) {
    mask = to_numbers(graph.input("mask", *given.mask, given.mask_sizes));
  } else {
    graph.constant("mask", ir::Argument());
  }
  graph.constant("scale", {given.scale});
  graph.constant("causal", {given.causal});
  graph.result(given.dtype, {given.batches, given.queries, given.heads, given.width});
  const auto outputs = run(graph, "kpt.attention.default");
  ASSERT_EQ(outputs.size(), 1U);
  if (fused) {
    EXPECT_THAT(launcher_.kernels, ElementsAre(fmt::format("attention_{}_{}_{}", gpu::unit_name(GetParam()),
                                                           suffix_of(given.dtype), given.width)));
  } else {
    EXPECT_THAT(launcher_.kernels, ElementsAre());
  }
  const auto got = to_numbers(outputs[0]);
  const Sizes scores = {given.batches, given.heads, given.queries, given.keys};
  std::vector<double> weights(static_cast<std::size_t>(given.keys));
  for (std::int64_t row = 0; row < given.batches * given.queries * given.heads; ++row) {
    const std::int64_t head = row % given.heads;
    const std::int64_t place = row / given.heads % given.queries;
    const std::int64_t batch = row / given.heads / given.queries;
    const std::int64_t group = head / (given.heads / given.groups);
    double total = 0;
    for (std::int64_t at = 0; at < given.keys; ++at) {
      double score = 0;
      for (std::int64_t d = 0; d < given.width; ++d) {
        score += query[static_cast<std::size_t>(row * given.width + d)] *
                 key[static_cast<std::size_t>(((batch * given.groups + group) * given.keys + at) * given.width + d)];
      }
      score *= given.scale;
      bool seen = !given.causal || at <= place;
      if (given.mask) {
        const double said = broadcast(mask, given.mask_sizes, scores, {batch, head, place, at});
        if (given.mask == DType::kBool) seen = seen && said != 0;
        if (given.mask != DType::kBool) score += said;
      }
      total += weights[static_cast<std::size_t>(at)] = seen ? std::exp(score) : 0;
    }
    for (std::int64_t d = 0; d < given.width; ++d) {
      double wanted = 0;
      double size = 0;
      for (std::int64_t at = 0; at < given.keys && total > 0; ++at) {
        const double part =
            weights[static_cast<std::size_t>(at)] / total *
            value[static_cast<std::size_t>(((batch * given.keys + at) * given.groups + group) * given.width + d)];
        wanted += part;
        size += std::abs(part);
      }
      ASSERT_NEAR(got[static_cast<std::size_t>(row * given.width + d)], wanted, 2.5 * rounding_of(given.dtype) * size)
          << "batch " << batch << ", query " << place << ", head " << head << ", element " << d;
    }
  }
}

TEST_P(RocmMatrixNodes, AttentionIsOneKernel) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t width : {64, 128}) {
      for (int round = 0; round < kpt::testing::rounds(4); ++round) {
        check_attention_case(draw_attention(dtype, width), true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(RocmMatrixNodes, AttentionThatDoesNotFitIsLibtorchs) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (int round = 0; round < kpt::testing::rounds(5); ++round) {
      check_attention_case(draw_attention(dtype, dtype == DType::kFloat32 ? 64 : 2 * draw(1, 31)), false);
      if (HasFatalFailure()) return;
    }
  }
}

// By our kernel and by libtorch's: a row that may look nowhere is zero, and the others are not.
TEST_P(RocmMatrixNodes, RowsThatMayLookNowhereAreZero) {
  for (const std::int64_t width : {64, 40}) {
    NodeGraph graph("kpt.attention.default", next_seed());
    graph.input("query", DType::kFloat16, {1, 2, 3, width});
    graph.input("key", DType::kFloat16, {1, 2, 5, width});
    graph.input("value", DType::kFloat16, {1, 2, 5, width});
    Tensor mask = graph.input("mask", DType::kFloat16, {3, 1});
    mask.elements<at::Half>()[1] = -std::numeric_limits<at::Half>::infinity();
    graph.constant("scale", {0.125});
    graph.constant("causal", {false});
    graph.result(DType::kFloat16, {1, 3, 2, width});
    const auto outputs = run(graph, "kpt.attention.default");
    ASSERT_EQ(outputs.size(), 1U);
    const auto got = to_numbers(outputs[0]);
    const auto row = static_cast<std::ptrdiff_t>(2 * width);
    const std::vector<double> blind(got.begin() + row, got.begin() + 2 * row);
    EXPECT_THAT(blind, ::testing::Each(0.0)) << width;
    EXPECT_THAT(got, ::testing::Each(::testing::Not(::testing::IsNan()))) << width;
    EXPECT_NE(got.front(), 0) << width;
    EXPECT_NE(got.back(), 0) << width;
  }
}

TEST_P(RocmMatrixNodes, AttentionThatCannotBeIsRefused) {
  const auto refusal = [&](const Sizes& key, const Sizes& value, const Sizes& mask) {
    NodeGraph graph("kpt.attention.default", next_seed());
    graph.input("query", DType::kFloat16, {1, 4, 3, 64});
    graph.input("key", DType::kFloat16, key);
    graph.input("value", DType::kFloat16, value);
    graph.input("mask", DType::kBool, mask);
    graph.constant("scale", {0.125});
    graph.constant("causal", {false});
    graph.result(DType::kFloat16, {1, 3, 4, 64});
    const Status status = graph.run(&launcher_).status();
    EXPECT_EQ(status.code(), StatusCode::kAttention) << status.to_string();
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({1, 3, 5, 64}, {1, 3, 5, 64}, {3, 5}), HasSubstr("no multiple of the heads of the key"));
  EXPECT_THAT(refusal({1, 2, 5, 64}, {1, 2, 6, 64}, {3, 5}), HasSubstr("key and value are not of the same sizes"));
  EXPECT_THAT(refusal({1, 2, 5, 64}, {1, 2, 5, 64}, {3, 4}), HasSubstr("the mask cannot be broadcast"));
}

INSTANTIATE_TEST_SUITE_P(Units, RocmMatrixNodes,
                         ::testing::Values(MatrixUnit::kCdna2, MatrixUnit::kCdna3, MatrixUnit::kCdna4,
                                           MatrixUnit::kRdna3, MatrixUnit::kRdna4),
                         [](const auto& parameter) { return std::string(gpu::unit_name(parameter.param)); });

// A GPU without matrix cores, or one whose are to be left alone.
class RocmNodesWithoutMatrixCores : public RocmMatrixNodes {
 protected:
  RocmNodesWithoutMatrixCores() : RocmMatrixNodes(MatrixUnit::kNone) {}
};

TEST_P(RocmNodesWithoutMatrixCores, AttentionIsLibtorchs) {
  for (int round = 0; round < kpt::testing::rounds(5); ++round) {
    check_attention_case(draw_attention(DType::kFloat16, 64), false);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(None, RocmNodesWithoutMatrixCores, ::testing::Values(MatrixUnit::kNone),
                         [](const auto&) { return std::string("none"); });

}  // namespace
}  // namespace kpt::aten
