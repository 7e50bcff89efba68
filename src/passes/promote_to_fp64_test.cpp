#include "passes/promote_to_fp64.h"

#include <bit>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

Tensor bits_tensor(DType dtype, const std::vector<std::uint16_t>& bits) {
  std::vector<std::byte> bytes;
  for (const std::uint16_t value : bits) {
    bytes.push_back(static_cast<std::byte>(value & 0xff));
    if (element_bytes(dtype) == 2) bytes.push_back(static_cast<std::byte>(value >> 8));
  }
  return *Tensor::from_bytes(dtype, Dims{static_cast<std::int64_t>(bits.size())}, bytes);
}

double first(DType dtype, std::uint16_t bits) {
  return promote_to_fp64(bits_tensor(dtype, {bits}))->elements<double>()[0];
}

TEST(PromoteTensor, KnownBitPatterns) {
  EXPECT_EQ(first(DType::kFloat16, 0x3c00), 1.0);
  EXPECT_EQ(first(DType::kFloat16, 0xc000), -2.0);
  EXPECT_EQ(first(DType::kFloat16, 0x0001), 0x1p-24);
  EXPECT_EQ(first(DType::kFloat16, 0x7bff), 65504.0);
  EXPECT_EQ(first(DType::kFloat16, 0x7c00), INFINITY);
  EXPECT_TRUE(std::isnan(first(DType::kFloat16, 0x7e00)));
  EXPECT_EQ(first(DType::kBFloat16, 0x3f80), 1.0);
  EXPECT_EQ(first(DType::kBFloat16, 0xff80), -INFINITY);
  EXPECT_EQ(first(DType::kFloat8E4M3FN, 0x7e), 448.0);
  EXPECT_TRUE(std::isnan(first(DType::kFloat8E4M3FN, 0x7f)));
  EXPECT_EQ(first(DType::kFloat8E4M3FN, 0x01), 0x1p-9);
  EXPECT_EQ(first(DType::kFloat8E5M2, 0x7b), 57344.0);
  EXPECT_EQ(first(DType::kFloat8E5M2, 0x7c), INFINITY);
  EXPECT_EQ(first(DType::kFloat8E4M3FNUZ, 0x7f), 240.0);
  EXPECT_TRUE(std::isnan(first(DType::kFloat8E4M3FNUZ, 0x80)));
  EXPECT_EQ(first(DType::kFloat8E5M2FNUZ, 0x7f), 57344.0);
  EXPECT_EQ(first(DType::kFloat8E8M0FNU, 127), 1.0);
  EXPECT_EQ(first(DType::kFloat8E8M0FNU, 0), 0x1p-127);
}

#if defined(__aarch64__)
TEST(PromoteTensor, EveryHalfIsWhatTheProcessorSays) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto expected = static_cast<double>(std::bit_cast<__fp16>(static_cast<std::uint16_t>(bits)));
    const double value = first(DType::kFloat16, static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(value, expected) << bits;
    }
  }
}
#endif

TEST(PromoteTensor, StridedFloatsKeepTheirPlaces) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const Tensor base = *Tensor::empty(DType::kFloat32, Dims{7, 5});
  for (float& value : base.elements<float>()) value = normal(random);
  const Tensor transposed = *Tensor::from_buffer(base.buffer(), DType::kFloat32, Dims{5, 7}, Dims{1, 5}, 0);
  const Tensor result = *promote_to_fp64(transposed);
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t column = 0; column < 7; ++column) {
      EXPECT_EQ(result.elements<double>()[row * 7 + column], base.elements<float>()[column * 5 + row]);
    }
  }
}

TEST(PromoteTensor, OthersAreUntouched) {
  const Tensor ints = *Tensor::empty(DType::kInt64, Dims{3});
  EXPECT_EQ(promote_to_fp64(ints)->buffer(), ints.buffer());
  EXPECT_EQ(promote_to_fp64(*Tensor::empty(DType::kFloat32, Dims{0}))->dtype(), DType::kFloat64);
  EXPECT_EQ(promote_to_fp64(*Tensor::empty(DType::kComplex32, Dims{1})).status().code(), StatusCode::kUnsupported);
}

TEST(PromoteWeights, TiedWeightsStayTied) {
  const Tensor weight = *Tensor::empty(DType::kBFloat16, Dims{2, 3});
  const Weights promoted = *promote_to_fp64(Weights{{"a", weight}, {"b", weight}});
  EXPECT_EQ(promoted.at("a").buffer(), promoted.at("b").buffer());
  EXPECT_EQ(promoted.at("a").dtype(), DType::kFloat64);
}

TEST(PromoteWeights, OverlappingViewsStayViewsOfOneMemory) {
  const Tensor all = *Tensor::empty(DType::kFloat32, Dims{12});
  for (std::size_t index = 0; index < 12; ++index) all.elements<float>()[index] = static_cast<float>(index);
  const auto view = [&](Dims dims, Dims strides, std::int64_t offset) {
    return *Tensor::from_buffer(all.buffer(), DType::kFloat32, dims, strides, offset);
  };
  const Weights promoted = *promote_to_fp64(Weights{{"rows", view({2, 3}, {3, 1}, 2)},
                                                    {"columns", view({3, 2}, {1, 3}, 2)},
                                                    {"tail", view({2}, {2}, 7)},
                                                    {"apart", view({2}, {1}, 10)},
                                                    {"none", view({0}, {1}, 0)}});
  EXPECT_EQ(promoted.at("rows").buffer(), promoted.at("columns").buffer());
  EXPECT_EQ(promoted.at("rows").buffer(), promoted.at("tail").buffer());
  EXPECT_NE(promoted.at("rows").buffer(), promoted.at("apart").buffer());
  EXPECT_EQ(promoted.at("columns").dims(), (Dims{3, 2}));
  EXPECT_EQ(promoted.at("none").dims(), Dims{0});
  const Tensor columns = *promoted.at("columns").contiguous_copy();
  const double expected[] = {2, 5, 3, 6, 4, 7};
  for (std::size_t index = 0; index < 6; ++index) EXPECT_EQ(columns.elements<double>()[index], expected[index]);
  const Tensor tail = *promoted.at("tail").contiguous_copy();
  EXPECT_EQ(tail.elements<double>()[0], 7);
  EXPECT_EQ(tail.elements<double>()[1], 9);
}

TEST(PromoteGraph, TypesCastsAndListsFollowIntegersStay) {
  ir::Graph graph;
  ir::Value x;
  x.name = "x";
  x.tensor.dtype = DType::kBFloat16;
  ir::Value i;
  i.name = "i";
  i.tensor.dtype = DType::kInt64;
  const ir::ValueId x_id = graph.add_value(x);
  graph.add_value(i);
  ir::Node cast;
  cast.target = "aten.to.dtype";
  cast.arguments = {{"self", {x_id}}, {"dtype", {DType::kFloat32}}};
  graph.nodes.push_back(cast);
  cast.arguments[1].value.value = DType::kInt32;
  graph.nodes.push_back(cast);
  ASSERT_TRUE(promote_to_fp64(graph).ok());
  EXPECT_EQ(graph.values[0].tensor.dtype, DType::kFloat64);
  EXPECT_EQ(graph.values[1].tensor.dtype, DType::kInt64);
  EXPECT_EQ(std::get<DType>(graph.nodes[0].arguments[1].value.value), DType::kFloat64);
  EXPECT_EQ(std::get<DType>(graph.nodes[1].arguments[1].value.value), DType::kInt32);
}

TEST(PromoteGraph, IntegersThatBecomeFloatsDoSoInFp64) {
  ir::Graph graph;
  ir::Value integers;
  integers.name = "i";
  integers.tensor.dtype = DType::kInt64;
  const ir::ValueId i = graph.add_value(integers);
  ir::Value quotient;
  quotient.name = "q";
  const ir::ValueId q = graph.add_value(quotient);
  ir::Node node;
  node.name = "div";
  node.target = "aten.div.Tensor";
  node.arguments = {{"self", {i}}, {"other", {std::int64_t{3}}}};
  node.outputs = {{false, {q}}};
  graph.nodes.push_back(node);
  ASSERT_TRUE(promote_to_fp64(graph).ok());
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].target, "aten.to.dtype");
  EXPECT_EQ(*graph.nodes[1].arguments[0].value.value_id(), graph.nodes[0].outputs[0].values[0]);
}

// A product of FP8 with a scale for each row, one for the tensor, and what else is given.
ir::Graph scaled_product(const std::string& scale_b, const std::string& bias, const std::string& scale_result) {
  return ir::read_graph(
             fmt::format(
                 "kpt_graph 1\nsymbol s0 in 1..64\ninput x: float8_e4m3fn[s0, 48]\ninput p: float32[s0, 1]\n"
                 "parameter w: float8_e5m2[48, 32]{{strides=[1, 48]}}\nparameter q: float32{}\n"
                 "parameter b: bfloat16[32]\n"
                 "mm: bfloat16[s0, 32] = aten._scaled_mm.default(self=%x, mat2=%w, scale_a=%p, scale_b=%q, bias={}, "
                 "scale_result={}, out_dtype=dtype(bfloat16), use_fast_accum=true)\noutput %mm \"y\"\n",
                 scale_b, bias, scale_result))
      .value();
}

std::vector<std::string> nodes_of(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::Node& node : graph.nodes) lines.push_back(ir::print_node(graph, node));
  return lines;
}

TEST(PromoteGraph, ProductsOfFp8AreProductsOfNumbersTimesTheirScales) {
  ir::Graph graph = scaled_product("[]", "none", "none");
  const Status plain = promote_to_fp64(graph);
  ASSERT_TRUE(plain.ok()) << plain.message();
  ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
  EXPECT_THAT(nodes_of(graph),
              testing::ElementsAre("fp64_6: float64[s0, 48] = aten.mul.Tensor(self=%x, other=%p)",
                                   "fp64_7: float64[48, 32]{strides=[1, 48]} = aten.mul.Tensor(self=%w, other=%q)",
                                   "mm: float64[s0, 32] = aten.mm.default(self=%fp64_6, mat2=%fp64_7)"));
  ir::Graph with_bias = scaled_product("[1, 32]", "%b", "none");
  const Status biased = promote_to_fp64(with_bias);
  ASSERT_TRUE(biased.ok()) << biased.message();
  ASSERT_TRUE(ir::verify(with_bias).ok()) << ir::verify(with_bias).message();
  EXPECT_THAT(nodes_of(with_bias),
              testing::ElementsAre("fp64_6: float64[s0, 48] = aten.mul.Tensor(self=%x, other=%p)",
                                   "fp64_7: float64[48, 32]{strides=[1, 48]} = aten.mul.Tensor(self=%w, other=%q)",
                                   "fp64_8: float64[s0, 32] = aten.mm.default(self=%fp64_6, mat2=%fp64_7)",
                                   "mm: float64[s0, 32] = aten.add.Tensor(self=%fp64_8, other=%b)"));
}

TEST(PromoteGraph, ProductsOfFp8InsideABodyToo) {
  ir::Graph graph;
  ir::Node node;
  node.name = "cond";
  node.target = "higher_order.cond";
  const auto body = std::make_shared<const ir::Graph>(scaled_product("[]", "none", "none"));
  node.arguments = {{"", {true}}, {"", {ir::Subgraph{"true_graph_0", body}}}};
  graph.nodes.push_back(node);
  ASSERT_TRUE(promote_to_fp64(graph).ok());
  const auto& promoted = std::get<ir::Subgraph>(graph.nodes[0].arguments[1].value.value);
  EXPECT_THAT(nodes_of(*promoted.graph).back(), testing::StartsWith("mm: float64[s0, 32] = aten.mm.default("));
  EXPECT_EQ(body->nodes[0].target, "aten._scaled_mm.default") << "the model's own graph stays as it is";
}

TEST(PromoteGraph, OtherProductsOfFp8AreRefusedByNameAndReason) {
  ir::Graph blocks = scaled_product("[3, 1]", "none", "none");
  const Status refused = promote_to_fp64(blocks);
  EXPECT_EQ(refused.code(), StatusCode::kUnsupported);
  EXPECT_THAT(refused.message(), testing::HasSubstr("node 'mm' (aten._scaled_mm.default) has no fp64 form"));
  EXPECT_THAT(refused.message(), testing::HasSubstr("'scale_b' is neither one scale nor one for each column"));
  ir::Graph scaled = scaled_product("[]", "none", "%q");
  EXPECT_THAT(promote_to_fp64(scaled).message(), testing::HasSubstr("its result has a scale"));
  ir::Graph second = scaled_product("[]", "none", "none");
  second.nodes[0].target = "aten._scaled_mm_v2.default";
  EXPECT_THAT(promote_to_fp64(second).message(), testing::HasSubstr("(aten._scaled_mm_v2.default) has no fp64 form"));
}

TEST(PromoteGraph, BitCastsAreRefusedByName) {
  ir::Graph graph;
  ir::Node node;
  node.name = "view_3";
  node.target = "aten.view.dtype";
  graph.nodes.push_back(node);
  EXPECT_THAT(promote_to_fp64(graph).message(), testing::HasSubstr("'view_3' (aten.view.dtype)"));
}

TEST(PromoteGraph, NodesOfOurOwnAreRefusedByName) {
  ir::Graph graph;
  ir::Node node;
  node.name = "glu_3";
  node.target = "kpt.glu.default";
  graph.nodes.push_back(node);
  const Status status = promote_to_fp64(graph);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("node 'glu_3' (kpt.glu.default) has no fp64 form"));
}

}  // namespace
}  // namespace kpt
