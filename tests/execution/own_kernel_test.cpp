// attention, glu and rotary as nodes of a graph, against libtorch in double and plain loops.
#include <bit>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "own_node_graph.h"

namespace kpt {
namespace {

using execution_test::GraphBuilder;
using execution_test::load_here;
using testing::HasSubstr;

using Sizes = std::vector<std::int64_t>;

double element(const Tensor& tensor, std::size_t index) {
  if (tensor.dtype() == DType::kFloat64) return tensor.elements<double>()[index];
  if (tensor.dtype() == DType::kFloat32) return static_cast<double>(tensor.elements<float>()[index]);
  const std::uint32_t bits = tensor.elements<std::uint16_t>()[index];
  return static_cast<double>(std::bit_cast<float>(bits << 16));
}

void expect_close(const Tensor& result, const Tensor& exact, double tolerance) {
  ASSERT_EQ(result.dims(), exact.dims());
  const Tensor expected = exact.contiguous_copy().value();
  for (std::size_t index = 0; index < static_cast<std::size_t>(result.element_count()); ++index) {
    const double value = element(expected, index);
    ASSERT_NEAR(element(result, index), value, tolerance * (1 + std::abs(value))) << "element " << index;
  }
}

double tolerance_of(DType dtype) { return dtype == DType::kFloat32 ? 4e-6 : 1.0 / 128; }

ir::Argument transposed(GraphBuilder& builder, const ir::Argument& value, DType dtype, Sizes sizes) {
  std::swap(sizes[1], sizes[2]);
  return builder.node("aten.transpose.int", {{"self", value}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}},
                      {{dtype, sizes}})[0];
}

ir::Argument in_double(GraphBuilder& builder, const ir::Argument& value, const Sizes& sizes) {
  return builder.node("aten.to.dtype", {{"self", value}, {"dtype", {DType::kFloat64}}}, {{DType::kFloat64, sizes}})[0];
}

struct AttentionShape {
  DType dtype;
  std::int64_t batch, heads, groups, queries, keys, width;
  Sizes mask;  // empty: none
  DType mask_dtype;
  bool causal;
};

std::vector<ir::NamedArgument> attention_arguments(const ir::Argument& query, const ir::Argument& key,
                                                   const ir::Argument& value, const ir::Argument& mask, double scale,
                                                   bool causal) {
  return {{"query", query}, {"key", key}, {"value", value}, {"mask", mask}, {"scale", {scale}}, {"causal", {causal}}};
}

class AttentionNode : public testing::TestWithParam<AttentionShape> {};

// query, key and value are given as [B, S, H, D] and seen transposed, as in a model.
TEST_P(AttentionNode, IsLibtorchsInDouble) {
  const AttentionShape& shape = GetParam();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  const Sizes query_sizes = {shape.batch, shape.queries, shape.heads, shape.width};
  const Sizes key_sizes = {shape.batch, shape.keys, shape.groups, shape.width};
  const auto query = transposed(builder, builder.input("query", shape.dtype, query_sizes), shape.dtype, query_sizes);
  const auto key = transposed(builder, builder.input("key", shape.dtype, key_sizes), shape.dtype, key_sizes);
  const auto value = transposed(builder, builder.input("value", shape.dtype, key_sizes), shape.dtype, key_sizes);
  const auto mask = shape.mask.empty() ? ir::Argument{} : builder.input("mask", shape.mask_dtype, shape.mask);
  builder.output(builder.node("kpt.attention.default", attention_arguments(query, key, value, mask, 0.25, shape.causal),
                              {{shape.dtype, query_sizes}})[0]);
  const Sizes head_sizes = {shape.batch, shape.heads, shape.queries, shape.width};
  const Sizes key_heads = {shape.batch, shape.groups, shape.keys, shape.width};
  const auto exact = builder.node(
      "aten.scaled_dot_product_attention.default",
      {{"query", in_double(builder, query, head_sizes)},
       {"key", in_double(builder, key, key_heads)},
       {"value", in_double(builder, value, key_heads)},
       {"attn_mask",
        shape.mask_dtype == DType::kBool || shape.mask.empty() ? mask : in_double(builder, mask, shape.mask)},
       {"is_causal", {shape.causal}},
       {"scale", {0.25}},
       {"enable_gqa", {shape.heads != shape.groups}}},
      {{DType::kFloat64, head_sizes}})[0];
  builder.output(transposed(builder, exact, DType::kFloat64, head_sizes));
  const std::vector<Tensor> inputs = builder.draw_inputs();
  if (shape.mask_dtype == DType::kBool && !shape.mask.empty()) {
    // Every row sees its first key; rows that see nothing are libtorch's own affair.
    const auto keys = static_cast<std::size_t>(shape.mask.back());
    for (std::size_t index = 0; index < inputs[3].bytes(); index += keys) inputs[3].elements<std::uint8_t>()[index] = 1;
  }
  const auto model = load_here(std::move(builder.model));
  const auto outputs = execution_test::run(*model, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  expect_close((*outputs)[0], (*outputs)[1], tolerance_of(shape.dtype));
}

INSTANTIATE_TEST_SUITE_P(
    OwnNodes, AttentionNode,
    testing::Values(AttentionShape{DType::kFloat32, 2, 4, 4, 33, 70, 16, {}, DType::kBool, false},
                    AttentionShape{DType::kFloat32, 1, 6, 2, 1, 300, 64, {}, DType::kBool, false},
                    AttentionShape{DType::kFloat32, 1, 3, 3, 130, 130, 20, {}, DType::kBool, true},
                    AttentionShape{DType::kFloat32, 2, 2, 1, 9, 40, 7, {2, 1, 1, 40}, DType::kBool, false},
                    AttentionShape{DType::kFloat32, 2, 2, 2, 20, 31, 8, {2, 2, 20, 31}, DType::kFloat32, false},
                    AttentionShape{DType::kFloat32, 1, 2, 2, 20, 31, 8, {20, 31}, DType::kBool, false},
                    AttentionShape{DType::kFloat32, 1, 1, 1, 1, 1, 1, {}, DType::kBool, false},
                    AttentionShape{DType::kBFloat16, 2, 4, 2, 17, 65, 32, {}, DType::kBool, true},
                    AttentionShape{DType::kBFloat16, 1, 2, 2, 1, 50, 24, {1, 1, 1, 50}, DType::kBFloat16, false},
                    AttentionShape{DType::kBFloat16, 2, 6, 2, 65, 67, 40, {2, 1, 65, 67}, DType::kBool, false},
                    AttentionShape{DType::kBFloat16, 2, 2, 1, 80, 80, 64, {2, 1, 1, 80}, DType::kBool, false},
                    AttentionShape{DType::kBFloat16, 1, 4, 4, 100, 333, 128, {1, 1, 1, 333}, DType::kBFloat16, false},
                    AttentionShape{DType::kBFloat16, 2, 3, 3, 197, 197, 80, {}, DType::kBool, false}));

// Every third row of the mask hides all keys: of a batch, a head or a query, as the mask's sizes have it.
struct BlindShape {
  Sizes mask;
  DType mask_dtype;
  bool heads_first;  // query, key and value are contiguous instead of transposed
};

class BlindAttention : public testing::TestWithParam<BlindShape> {
 protected:
  static constexpr std::int64_t kBatch = 3, kHeads = 4, kQueries = 41, kKeys = 72, kWidth = 64;

  static ir::Argument input(GraphBuilder& builder, const char* name, std::int64_t length) {
    const Sizes sizes = {kBatch, length, kHeads, kWidth};
    if (!GetParam().heads_first) {
      return transposed(builder, builder.input(name, DType::kBFloat16, sizes), DType::kBFloat16, sizes);
    }
    return builder.input(name, DType::kBFloat16, {kBatch, kHeads, length, kWidth});
  }

  static bool is_hidden(std::size_t row) { return row % 3 == 1; }

  static void hide_rows(const Tensor& mask) {
    const auto keys = static_cast<std::size_t>(GetParam().mask.back());
    const bool truths = GetParam().mask_dtype == DType::kBool;
    for (std::size_t at = 0; at < static_cast<std::size_t>(mask.element_count()); ++at) {
      if (truths && at % keys == 0) mask.elements<std::uint8_t>()[at] = 1;
      if (!is_hidden(at / keys)) continue;
      if (truths) mask.elements<std::uint8_t>()[at] = 0;
      if (!truths) mask.elements<std::uint16_t>()[at] = 0xff80;  // minus infinity
    }
  }

  // The row of the mask that is for this row of the scores.
  static std::size_t mask_row(std::size_t batch, std::size_t head, std::size_t query) {
    Sizes sizes = GetParam().mask;
    sizes.insert(sizes.begin(), 4 - sizes.size(), 1);
    const std::size_t places[] = {batch, head, query};
    std::size_t row = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      row = row * static_cast<std::size_t>(sizes[axis]) + (sizes[axis] == 1 ? 0 : places[axis]);
    }
    return row;
  }

  // `result` and `exact` are [batch, query, head, width].
  static void check(const Tensor& result, const Tensor& exact) {
    const Tensor expected = exact.contiguous_copy().value();
    std::size_t at = 0;
    for (std::size_t batch = 0; batch < kBatch; ++batch) {
      for (std::size_t query = 0; query < kQueries; ++query) {
        for (std::size_t head = 0; head < kHeads; ++head) {
          const bool hidden = is_hidden(mask_row(batch, head, query));
          for (std::size_t column = 0; column < kWidth; ++column, ++at) {
            const double wanted = hidden ? 0 : element(expected, at);
            const double room = hidden ? 0 : tolerance_of(DType::kBFloat16) * (1 + std::abs(wanted));
            ASSERT_NEAR(element(result, at), wanted, room) << batch << " " << head << " " << query << " " << column;
          }
        }
      }
    }
  }
};

TEST_P(BlindAttention, RowsThatMayLookNowhereAreZeroAndNoOthers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  const auto query = input(builder, "query", kQueries);
  const auto key = input(builder, "key", kKeys);
  const auto value = input(builder, "value", kKeys);
  const auto mask = builder.input("mask", GetParam().mask_dtype, GetParam().mask);
  builder.output(builder.node("kpt.attention.default", attention_arguments(query, key, value, mask, 0.25, false),
                              {{DType::kBFloat16, {kBatch, kQueries, kHeads, kWidth}}})[0]);
  const Sizes head_sizes = {kBatch, kHeads, kQueries, kWidth};
  const Sizes key_heads = {kBatch, kHeads, kKeys, kWidth};
  const bool truths = GetParam().mask_dtype == DType::kBool;
  const auto exact = builder.node("aten.scaled_dot_product_attention.default",
                                  {{"query", in_double(builder, query, head_sizes)},
                                   {"key", in_double(builder, key, key_heads)},
                                   {"value", in_double(builder, value, key_heads)},
                                   {"attn_mask", truths ? mask : in_double(builder, mask, GetParam().mask)},
                                   {"scale", {0.25}}},
                                  {{DType::kFloat64, head_sizes}})[0];
  builder.output(transposed(builder, exact, DType::kFloat64, head_sizes));
  const std::vector<Tensor> inputs = builder.draw_inputs();
  hide_rows(inputs[3]);
  const auto model = load_here(std::move(builder.model));
  for (int run = 0; run < 3; ++run) {  // a GPU records one of them and repeats it
    const auto outputs = execution_test::run(*model, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    check((*outputs)[0], (*outputs)[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, BlindAttention,
                         testing::Values(BlindShape{{3, 1, 1, 72}, DType::kBool, false},
                                         BlindShape{{3, 1, 41, 72}, DType::kBool, false},
                                         BlindShape{{3, 4, 41, 72}, DType::kBFloat16, false},
                                         BlindShape{{1, 4, 1, 72}, DType::kBFloat16, true},
                                         BlindShape{{41, 72}, DType::kBool, true},
                                         BlindShape{{3, 1, 41, 1}, DType::kBFloat16, false}));

TEST(OwnNodes, AttentionWithoutKeysOrQueries) {
  for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 0}}) {
    GraphBuilder builder(1);
    const auto query = builder.input("query", DType::kFloat32, {2, 3, queries, 8});
    const auto key = builder.input("key", DType::kFloat32, {2, 3, keys, 8});
    const auto value = builder.input("value", DType::kFloat32, {2, 3, keys, 8});
    builder.output(builder.node("kpt.attention.default", attention_arguments(query, key, value, {}, 1, false),
                                {{DType::kFloat32, {2, queries, 3, 8}}})[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    const auto outputs = execution_test::run(*model, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_EQ((*outputs)[0].dims(), (Dims{2, queries, 3, 8}));
    for (const float element : (*outputs)[0].elements<float>()) EXPECT_EQ(element, 0);
  }
}

// What a file records of key, value and mask fits; what comes does not.
TEST(OwnNodes, AttentionChecksTheRealSizes) {
  const auto failure = [](const Sizes& key_sizes, const Sizes& value_sizes, const Sizes& mask_sizes) {
    GraphBuilder builder(1);
    const auto query = builder.input("query", DType::kFloat32, {2, 6, 5, 8});
    const auto key = builder.input("key", DType::kFloat32, key_sizes);
    const auto value = builder.input("value", DType::kFloat32, value_sizes);
    const auto mask = builder.input("mask", DType::kBool, mask_sizes);
    builder.output(builder.node("kpt.attention.default", attention_arguments(query, key, value, mask, 1, false),
                                {{DType::kFloat32, {2, 5, 6, 8}}})[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    const Status status = execution_test::run(*model, inputs).status();
    EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kAttention);
    return std::string(status.message());
  };
  EXPECT_EQ(failure({2, 3, 9, 8}, {2, 3, 9, 8}, {5, 9}), "");
  EXPECT_THAT(failure({2, 3, 9, 8}, {2, 3, 10, 8}, {5, 9}), HasSubstr("key and value are not of the same sizes"));
  EXPECT_THAT(failure({1, 3, 9, 8}, {1, 3, 9, 8}, {5, 9}), HasSubstr("another batch or width than the query"));
  EXPECT_THAT(failure({2, 3, 9, 4}, {2, 3, 9, 4}, {5, 9}), HasSubstr("another batch or width than the query"));
  EXPECT_THAT(failure({2, 4, 9, 8}, {2, 4, 9, 8}, {5, 9}), HasSubstr("no multiple of the heads of the key"));
  EXPECT_THAT(failure({2, 0, 9, 8}, {2, 0, 9, 8}, {5, 9}), HasSubstr("no multiple of the heads of the key"));
  EXPECT_THAT(failure({2, 3, 9, 8}, {2, 3, 9, 8}, {4, 9}), HasSubstr("the mask cannot be broadcast"));
  EXPECT_THAT(failure({2, 3, 9, 8}, {2, 3, 9, 8}, {2, 1, 5, 8}), HasSubstr("the mask cannot be broadcast"));
}

class GluNode : public testing::TestWithParam<std::tuple<std::string, DType>> {};

double activate(const std::string& name, double x) {
  if (name == "relu") return x < 0 ? 0 : x;
  if (name == "gelu") return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  if (name == "gelu_tanh") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  return x;
}

// The input is a transposed view, so that its rows lie apart.
TEST_P(GluNode, IsWhatItMeans) {
  const auto& [activation, dtype] = GetParam();
  const auto seed = std::random_device{}();
  for (const Sizes& sizes : {Sizes{2, 7, 3, 10}, {1, 1, 1, 2}, {3, 40, 2, 2600}, {2, 0, 3, 8}, {2, 3, 4, 0}}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", width " << sizes[3]);
    GraphBuilder builder(seed);
    const auto input = transposed(builder, builder.input("input", dtype, sizes), dtype, sizes);
    const Sizes half = {sizes[0], sizes[2], sizes[1], sizes[3] / 2};
    builder.output(
        builder.node("kpt.glu.default", {{"input", input}, {"activation", {activation}}}, {{dtype, half}})[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    const auto outputs = execution_test::run(*model, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    std::size_t place = 0;
    for (std::int64_t a = 0; a < half[0]; ++a) {
      for (std::int64_t b = 0; b < half[1]; ++b) {
        for (std::int64_t c = 0; c < half[2]; ++c) {
          const auto row = static_cast<std::size_t>(((a * sizes[1] + c) * sizes[2] + b) * sizes[3]);
          for (std::size_t d = 0; d < static_cast<std::size_t>(half[3]); ++d) {
            const double expected = activate(activation, element(inputs[0], row + d)) *
                                    element(inputs[0], row + static_cast<std::size_t>(half[3]) + d);
            ASSERT_NEAR(element((*outputs)[0], place++), expected, tolerance_of(dtype) * (1 + std::abs(expected)));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, GluNode,
                         testing::Combine(testing::Values("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid"),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)));

struct RotaryShape {
  DType dtype;
  Sizes input;  // [B, S, H, D], seen as [B, H, S, D]
  Sizes table;  // of cos and sin
};

class RotaryNode : public testing::TestWithParam<RotaryShape> {};

// Against the same formula by libtorch's operators in double.
TEST_P(RotaryNode, IsWhatItMeans) {
  const RotaryShape& shape = GetParam();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  GraphBuilder builder(seed);
  const Sizes sizes = {shape.input[0], shape.input[2], shape.input[1], shape.input[3]};
  const auto input = transposed(builder, builder.input("input", shape.dtype, shape.input), shape.dtype, shape.input);
  const auto cosines = builder.input("cos", DType::kFloat32, shape.table);
  const auto sines = builder.input("sin", DType::kFloat32, shape.table);
  builder.output(builder.node("kpt.rotary.default", {{"input", input}, {"cos", cosines}, {"sin", sines}},
                              {{shape.dtype, sizes}})[0]);
  const auto wide = in_double(builder, input, sizes);
  Sizes half = sizes;
  half[3] /= 2;
  const auto part = [&](std::int64_t start, std::int64_t end) {
    return builder.node("aten.slice.Tensor",
                        {{"self", wide}, {"dim", {std::int64_t{3}}}, {"start", {start}}, {"end", {end}}},
                        {{DType::kFloat64, half}})[0];
  };
  const auto second =
      builder.node("aten.neg.default", {{"self", part(half[3], sizes[3])}}, {{DType::kFloat64, half}})[0];
  ir::List halves{ir::ElementKind::kTensor, {second, part(0, half[3])}};
  const auto turned = builder.node("aten.cat.default", {{"tensors", {halves}}, {"dim", {std::int64_t{3}}}},
                                   {{DType::kFloat64, sizes}})[0];
  const auto product = [&](const ir::Argument& left, const ir::Argument& right) {
    return builder.node("aten.mul.Tensor", {{"self", left}, {"other", right}}, {{DType::kFloat64, sizes}})[0];
  };
  builder.output(builder.node("aten.add.Tensor", {{"self", product(wide, cosines)}, {"other", product(turned, sines)}},
                              {{DType::kFloat64, sizes}})[0]);
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const auto model = load_here(std::move(builder.model));
  const auto outputs = execution_test::run(*model, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  expect_close((*outputs)[0], (*outputs)[1], tolerance_of(shape.dtype));
}

INSTANTIATE_TEST_SUITE_P(OwnNodes, RotaryNode,
                         testing::Values(RotaryShape{DType::kFloat32, {2, 9, 3, 16}, {2, 1, 9, 16}},
                                         RotaryShape{DType::kFloat32, {1, 200, 4, 66}, {200, 66}},
                                         RotaryShape{DType::kFloat32, {2, 5, 3, 2}, {1}},
                                         RotaryShape{DType::kFloat32, {2, 0, 3, 4}, {1, 1, 0, 4}},
                                         RotaryShape{DType::kBFloat16, {2, 33, 3, 20}, {1, 1, 33, 20}}));

TEST(OwnNodes, HalvesAndTablesThatDoNotFitAreFailures) {
  const auto failure = [](const Sizes& input_sizes, const Sizes& table_sizes) {
    GraphBuilder builder(1);
    const auto input = builder.input("input", DType::kFloat32, input_sizes);
    const auto table = builder.input("table", DType::kFloat32, table_sizes);
    builder.output(builder.node("kpt.rotary.default", {{"input", input}, {"cos", table}, {"sin", table}},
                                {{DType::kFloat32, input_sizes}})[0]);
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    return execution_test::run(*model, inputs).status().message();
  };
  EXPECT_THAT(failure({1, 2, 3, 5}, {3, 5}), HasSubstr("no two halves"));
  EXPECT_THAT(failure({1, 2, 3, 6}, {4, 6}), HasSubstr("cos or sin cannot be broadcast to the input"));
  EXPECT_THAT(failure({1, 2, 3, 6}, {2, 2, 3, 6}), HasSubstr("cos or sin cannot be broadcast to the input"));
  GraphBuilder builder(1);
  const auto input = builder.input("input", DType::kFloat32, {4, 7});
  builder.output(builder.node("kpt.glu.default", {{"input", input}, {"activation", {std::string("silu")}}},
                              {{DType::kFloat32, {4, 3}}})[0]);
  const std::vector<Tensor> inputs = builder.draw_inputs();
  const auto model = load_here(std::move(builder.model));
  EXPECT_THAT(execution_test::run(*model, inputs).status().message(), HasSubstr("no two halves"));
}

}  // namespace
}  // namespace kpt
