#include "runtime/input_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/test_inputs.h"

namespace kpt {
namespace {

using testing::HasSubstr;

// ids: int64[batch, sequence]; mask: float32[batch, 2 * sequence]; scale: a number; a parameter that callers never
// give.
ir::Graph make_checked_graph() {
  ir::Graph graph;
  const ir::Expr batch = ir::Expr::symbol("s0");
  const ir::Expr sequence = ir::Expr::symbol("s1");
  ir::Value weight;
  weight.name = "p_weight";
  const ir::ValueId weight_id = graph.add_value(std::move(weight));
  graph.inputs.push_back({ir::InputKind::kParameter, weight_id, "weight", true, {}});
  add_input(graph, "ids", DType::kInt64, {batch, sequence});
  add_input(graph, "mask", DType::kFloat32, {batch, ir::Expr::make(ir::ExprOp::kMul, {ir::Expr(2), sequence}), 3});
  ir::Value number;
  number.name = "scale";
  number.kind = ir::ValueKind::kInt;
  const ir::ValueId number_id = graph.add_value(std::move(number));
  graph.inputs.push_back({ir::InputKind::kUser, number_id, "scale", true, {}});
  graph.symbols = {{"s0", 2, 64}, {"s1", 1, {}}};
  return graph;
}

Tensor tensor(DType dtype, std::initializer_list<std::int64_t> dims) { return *Tensor::empty(dtype, Dims(dims)); }

Status check(const Tensor& ids, const Tensor& mask, const Tensor& scale) {
  static const ir::Graph kGraph = make_checked_graph();
  static const InputCheck kCheck(kGraph);
  const Tensor inputs[] = {ids, mask, scale};
  return kCheck.check(inputs);
}

const Tensor kScale = tensor(DType::kInt64, {});

TEST(InputCheck, TakesWhatFits) {
  EXPECT_TRUE(check(tensor(DType::kInt64, {2, 5}), tensor(DType::kFloat32, {2, 10, 3}), kScale).ok());
  EXPECT_TRUE(check(tensor(DType::kInt64, {64, 1}), tensor(DType::kFloat32, {64, 2, 3}), kScale).ok());
}

TEST(InputCheck, NamesTheInputAndWhatWasExpected) {
  const Status status = check(tensor(DType::kInt32, {2, 5}), tensor(DType::kFloat32, {2, 10, 3}), kScale);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "input 'ids': expected int64[s0 (2 to 64), s1 (at least 1)], got int32[2, 5]: another type");
}

TEST(InputCheck, EverySizeIsLookedAt) {
  const Tensor ids = tensor(DType::kInt64, {2, 5});
  EXPECT_THAT(check(tensor(DType::kInt64, {2}), tensor(DType::kFloat32, {2, 10, 3}), kScale).message(),
              HasSubstr("the rank must be 2"));
  EXPECT_THAT(check(tensor(DType::kInt64, {1, 5}), tensor(DType::kFloat32, {1, 10, 3}), kScale).message(),
              HasSubstr("size 0 (s0) must be 2 to 64"));
  EXPECT_THAT(check(tensor(DType::kInt64, {2, 0}), tensor(DType::kFloat32, {2, 0, 3}), kScale).message(),
              HasSubstr("size 1 (s1) must be at least 1"));
  EXPECT_THAT(check(ids, tensor(DType::kFloat32, {3, 10, 3}), kScale).message(), HasSubstr("input 'mask'"));
  EXPECT_THAT(check(ids, tensor(DType::kFloat32, {3, 10, 3}), kScale).message(),
              HasSubstr("size 0 (s0) must be 2, as in an earlier place"));
  EXPECT_THAT(check(ids, tensor(DType::kFloat32, {2, 9, 3}), kScale).message(), HasSubstr("size 1 must be"));
  EXPECT_THAT(check(ids, tensor(DType::kFloat32, {2, 10, 4}), kScale).message(), HasSubstr("size 2 must be 3"));
}

TEST(InputCheck, NumbersAreTensorsOfRankZero) {
  const Tensor ids = tensor(DType::kInt64, {2, 5});
  const Tensor mask = tensor(DType::kFloat32, {2, 10, 3});
  EXPECT_THAT(check(ids, mask, tensor(DType::kInt64, {1})).message(), HasSubstr("rank 0"));
  EXPECT_THAT(check(ids, mask, tensor(DType::kFloat32, {})).message(), HasSubstr("input 'scale'"));
}

TEST(InputCheck, MissingInputsAndWrongCounts) {
  EXPECT_THAT(check(tensor(DType::kInt64, {2, 5}), Tensor(), kScale).message(), HasSubstr("input 'mask' is missing"));
  const ir::Graph graph = make_checked_graph();
  const InputCheck checker(graph);
  EXPECT_THAT(checker.check({}).message(), HasSubstr("the model takes 3 inputs (ids, mask, scale), 0 were given"));
}

// Sizes that no input has by themselves: batch * 8 and length + 1, as Dim("batch") * 8 and Dim("length") + 1 give them.
TEST(InputCheck, DerivedSizesSayWhatTheyAreDerivedFrom) {
  ir::Graph graph;
  const ir::Expr eight = ir::Expr::make(ir::ExprOp::kMul, {ir::Expr(8), ir::Expr::symbol("s0")});
  const ir::Expr more = ir::Expr::make(ir::ExprOp::kAdd, {ir::Expr::symbol("s1"), ir::Expr(1)});
  const ir::Expr both = ir::Expr::make(ir::ExprOp::kMul, {ir::Expr::symbol("s0"), ir::Expr::symbol("s1")});
  add_input(graph, "product", DType::kFloat32, {both});
  add_input(graph, "x", DType::kFloat32, {eight, more});
  add_input(graph, "y", DType::kFloat32, {eight});
  graph.symbols = {{"s0", 1, 16}, {"s1", 2, {}}};
  const InputCheck checker(graph);
  const auto check_sizes = [&](std::int64_t product, std::int64_t x, std::int64_t length, std::int64_t y) {
    const Tensor inputs[] = {tensor(DType::kFloat32, {product}), tensor(DType::kFloat32, {x, length}),
                             tensor(DType::kFloat32, {y})};
    return checker.check(inputs);
  };
  EXPECT_TRUE(check_sizes(6, 16, 4, 16).ok());
  EXPECT_TRUE(check_sizes(32, 128, 3, 128).ok());
  EXPECT_TRUE(check_sizes(2, 8, 3, 8).ok());
  EXPECT_EQ(check_sizes(6, 12, 4, 12).message(),
            "input 'x': expected float32[s0 * 8 (8 to 128), s1 + 1 (at least 3)], got float32[12, 4]: size 0 must be "
            "s0 * 8 for an integer s0");
  EXPECT_THAT(check_sizes(6, 136, 4, 136).message(), HasSubstr("size 0 (s0 * 8) must be 8 to 128"));
  EXPECT_THAT(check_sizes(6, 0, 4, 0).message(), HasSubstr("size 0 (s0 * 8) must be 8 to 128"));
  EXPECT_THAT(check_sizes(6, 16, 2, 16).message(), HasSubstr("size 1 (s1 + 1) must be at least 3"));
  EXPECT_THAT(check_sizes(6, 16, 4, 8).message(), HasSubstr("input 'y'"));
  EXPECT_THAT(check_sizes(6, 16, 4, 8).message(), HasSubstr("size 0 must be s0 * 8 = 16"));
  EXPECT_THAT(check_sizes(7, 16, 4, 16).message(), HasSubstr("input 'product'"));
  EXPECT_THAT(check_sizes(7, 16, 4, 16).message(), HasSubstr("= 6"));
}

// An integer input that the graph knows as a symbol: bound and bounded like a size.
TEST(InputCheck, SymbolicIntegers) {
  ir::Graph graph;
  add_input(graph, "x", DType::kFloat32, {ir::Expr::symbol("s0")});
  ir::Value number;
  number.name = "count";
  number.kind = ir::ValueKind::kInt;
  number.expression = ir::Expr::symbol("s0");
  const ir::ValueId count = graph.add_value(number);
  number.name = "limit";
  number.expression = ir::Expr::symbol("s1");
  const ir::ValueId limit = graph.add_value(number);
  graph.inputs.push_back({ir::InputKind::kUser, count, "count", true, {}});
  graph.inputs.push_back({ir::InputKind::kUser, limit, "limit", true, {}});
  graph.symbols = {{"s0", 2, 64}, {"s1", -3, 9}};
  const InputCheck checker(graph);
  const auto check_numbers = [&](std::int64_t size, std::int64_t given_count, std::int64_t given_limit) {
    const Tensor inputs[] = {tensor(DType::kFloat32, {size}), tensor(DType::kInt64, {}), tensor(DType::kInt64, {})};
    inputs[1].elements<std::int64_t>()[0] = given_count;
    inputs[2].elements<std::int64_t>()[0] = given_limit;
    return checker.check(inputs);
  };
  EXPECT_TRUE(check_numbers(5, 5, -3).ok());
  EXPECT_THAT(check_numbers(5, 6, 0).message(), HasSubstr("input 'count'"));
  EXPECT_THAT(check_numbers(5, 6, 0).message(), HasSubstr("its value (s0) must be 5, as in an earlier place"));
  EXPECT_THAT(check_numbers(5, 5, 10).message(), HasSubstr("its value (s1) must be -3 to 9"));
}

}  // namespace
}  // namespace kpt
