// Python's arithmetic on sizes, as graphs compute it, against plain definitions of it.
#include <cmath>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bert_graph.h"

namespace kpt {
namespace {

__extension__ using Wide = __int128;  // every 64-bit result fits

ir::ValueId add_number(ir::Graph& graph, const std::string& name, ir::ValueKind kind) {
  ir::Value value;
  value.name = name;
  value.kind = kind;
  return graph.add_value(std::move(value));
}

// One node `target(a, b)`, or `target(a)`; both given by the caller.
std::shared_ptr<const detail::LoadedModel> make_model(const std::string& target,
                                                      const std::vector<ir::ValueKind>& operands,
                                                      ir::ValueKind result) {
  ImportedModel model;
  ir::Graph& graph = model.graph;
  ir::Node node;
  node.target = target;
  node.name = "node";
  for (const ir::ValueKind operand : operands) {
    const std::string name(1, static_cast<char>('a' + static_cast<char>(node.arguments.size())));
    const ir::ValueId id = add_number(graph, name, operand);
    graph.inputs.push_back({ir::InputKind::kUser, id, name, true, {}});
    node.arguments.push_back({"", {id}});
  }
  const ir::ValueId output = add_number(graph, "result", result);
  node.outputs = {{false, {output}}};
  graph.nodes.push_back(node);
  graph.outputs = {{ir::OutputKind::kUser, {output}, "output"}};
  return execution_test::load_here(std::move(model));
}

std::shared_ptr<const detail::LoadedModel> make_model(const std::string& target, ir::ValueKind operand, int arity,
                                                      ir::ValueKind result) {
  return make_model(target, std::vector<ir::ValueKind>(static_cast<std::size_t>(arity), operand), result);
}

template <typename T>
Tensor number(DType dtype, T value) {
  const Tensor tensor = Tensor::empty(dtype, Dims{}).value();
  tensor.elements<T>()[0] = value;
  return tensor;
}

Result<std::int64_t> compute(const detail::LoadedModel& model, std::vector<Tensor> inputs) {
  std::vector<Tensor> outputs;
  RunContext context;
  KPT_RETURN_IF_ERROR(model.executable().run(context, inputs, outputs));
  const Tensor& result = outputs[0];
  return result.dtype() == DType::kBool ? result.elements<std::uint8_t>()[0] : result.elements<std::int64_t>()[0];
}

Wide floor_divide(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Nothing where Python raises or leaves 64 bits.
std::optional<Wide> expect(const std::string& target, Wide a, Wide b) {
  if (target == "_operator.add") return a + b;
  if (target == "_operator.sub") return a - b;
  if (target == "_operator.mul") return a * b;
  if (target == "_operator.eq") return a == b;
  if (target == "_operator.ne") return a != b;
  if (target == "_operator.lt") return a < b;
  if (target == "_operator.le") return a <= b;
  if (target == "_operator.gt") return a > b;
  if (target == "_operator.ge") return a >= b;
  if (target == "_operator.and_") return a & b;
  if (target == "_operator.or_") return a | b;
  if (target == "_operator.xor") return a ^ b;
  if (target == "torch.sym_max") return a > b ? a : b;
  if (target == "torch.sym_min") return a < b ? a : b;
  if (b == 0) return std::nullopt;
  const Wide quotient = floor_divide(a, b);
  return target == "_operator.mod" ? a - quotient * b : quotient;
}

std::int64_t draw(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0: return static_cast<std::int64_t>(random() % 7) - 3;
    case 1: return static_cast<std::int64_t>(random() % 2001) - 1000;
    case 2: return random() % 2 == 0 ? INT64_MIN : INT64_MAX;
    default: return static_cast<std::int64_t>(random());
  }
}

class IntegerOperator : public testing::TestWithParam<std::string> {};

TEST_P(IntegerOperator, FollowsPythonOrFails) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto model = make_model(GetParam(), ir::ValueKind::kInt, 2, ir::ValueKind::kInt);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t a = draw(random);
    const std::int64_t b = draw(random);
    const auto expected = expect(GetParam(), a, b);
    const auto result = compute(*model, {number(DType::kInt64, a), number(DType::kInt64, b)});
    const bool fits = expected && *expected >= INT64_MIN && *expected <= INT64_MAX;
    ASSERT_EQ(result.ok(), fits) << a << " and " << b;
    if (fits) {
      ASSERT_EQ(Wide{*result}, *expected) << a << " and " << b;
    }
    if (!fits) {
      EXPECT_THAT(result.status().message(), testing::HasSubstr("node 'node' (" + GetParam() + ") failed"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numbers, IntegerOperator,
                         testing::Values("_operator.add", "_operator.sub", "_operator.mul", "_operator.floordiv",
                                         "_operator.mod", "_operator.eq", "_operator.ne", "_operator.lt",
                                         "_operator.le", "_operator.gt", "_operator.ge", "_operator.and_",
                                         "_operator.or_", "_operator.xor", "torch.sym_max", "torch.sym_min"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& letter : name) letter = letter == '.' ? '_' : letter;
                           return name;
                         });

std::int64_t one(const std::string& target, std::int64_t a) {
  const auto model = make_model(target, ir::ValueKind::kInt, 1, ir::ValueKind::kInt);
  return compute(*model, {number(DType::kInt64, a)}).value();
}

std::int64_t two(const std::string& target, std::int64_t a, std::int64_t b) {
  const auto model = make_model(target, ir::ValueKind::kInt, 2, ir::ValueKind::kInt);
  return compute(*model, {number(DType::kInt64, a), number(DType::kInt64, b)}).value();
}

std::int64_t of_float(const std::string& target, double a) {
  const auto model = make_model(target, ir::ValueKind::kFloat, 1, ir::ValueKind::kInt);
  return compute(*model, {number(DType::kFloat64, a)}).value();
}

TEST(Numbers, PowersShiftsAndSigns) {
  EXPECT_EQ(two("_operator.pow", 3, 4), 81);
  EXPECT_EQ(two("_operator.pow", -2, 63), INT64_MIN);
  EXPECT_EQ(two("_operator.pow", 7, 0), 1);
  EXPECT_EQ(two("_operator.lshift", -3, 4), -48);
  EXPECT_EQ(two("_operator.rshift", -3, 1), -2);
  EXPECT_EQ(two("_operator.rshift", -3, 100), -1);
  EXPECT_EQ(one("_operator.neg", 5), -5);
  EXPECT_EQ(one("_operator.pos", 5), 5);
  EXPECT_EQ(one("_operator.abs", -5), 5);
  EXPECT_EQ(one("torch.sym_not", 0), 1);
  EXPECT_EQ(one("_operator.not_", 5), 0);
  EXPECT_EQ(one("builtins.bool", 5), 1);
  const auto shift = make_model("_operator.lshift", ir::ValueKind::kInt, 2, ir::ValueKind::kInt);
  EXPECT_FALSE(compute(*shift, {number(DType::kInt64, std::int64_t{1}), number(DType::kInt64, std::int64_t{63})}).ok());
}

TEST(Numbers, FloatsBecomeIntegersAsInPython) {
  EXPECT_EQ(of_float("math.trunc", -2.7), -2);
  EXPECT_EQ(of_float("math.floor", -2.2), -3);
  EXPECT_EQ(of_float("math.ceil", -2.7), -2);
  EXPECT_EQ(of_float("builtins.round", 2.5), 2);
  EXPECT_EQ(of_float("builtins.round", 3.5), 4);
  EXPECT_EQ(of_float("torch.sym_int", 9.99), 9);
  const auto truncate = make_model("math.trunc", ir::ValueKind::kFloat, 1, ir::ValueKind::kInt);
  for (const double bad : {std::nan(""), HUGE_VAL, 0x1p63, -0x1.1p63}) {
    EXPECT_FALSE(compute(*truncate, {number(DType::kFloat64, bad)}).ok()) << bad;
  }
}

TEST(Numbers, QuotientsAndRootsAreFloats) {
  const auto divide = make_model("_operator.truediv", ir::ValueKind::kInt, 2, ir::ValueKind::kFloat);
  const std::vector<Tensor> inputs = {number(DType::kInt64, std::int64_t{-7}), number(DType::kInt64, std::int64_t{2})};
  std::vector<Tensor> outputs;
  RunContext context;
  ASSERT_TRUE(divide->executable().run(context, inputs, outputs).ok());
  EXPECT_EQ(outputs[0].elements<double>()[0], -3.5);
  const auto root = make_model("torch._sym_sqrt", ir::ValueKind::kInt, 1, ir::ValueKind::kFloat);
  const std::vector<Tensor> nine = {number(DType::kInt64, std::int64_t{9})};
  ASSERT_TRUE(root->executable().run(context, nine, outputs).ok());
  EXPECT_EQ(outputs[0].elements<double>()[0], 3.0);
}

Tensor number(double value) { return number(DType::kFloat64, value); }
Tensor number(std::int64_t value) { return number(DType::kInt64, value); }
ir::ValueKind kind_of(double /*value*/) { return ir::ValueKind::kFloat; }
ir::ValueKind kind_of(std::int64_t /*value*/) { return ir::ValueKind::kInt; }

// target(a, b) as a float.
template <typename A, typename B>
Result<double> real(const std::string& target, A a, B b) {
  const auto model = make_model(target, {kind_of(a), kind_of(b)}, ir::ValueKind::kFloat);
  std::vector<Tensor> outputs;
  RunContext context;
  const std::vector<Tensor> inputs = {number(a), number(b)};
  KPT_RETURN_IF_ERROR(model->executable().run(context, inputs, outputs));
  return outputs[0].elements<double>()[0];
}

template <typename A, typename B>
bool holds(const std::string& target, A a, B b) {
  return compute(*make_model(target, {kind_of(a), kind_of(b)}, ir::ValueKind::kBool), {number(a), number(b)}).value() !=
         0;
}

std::string failure(const Result<double>& result) { return result.ok() ? "it is a number" : result.status().message(); }

TEST(Numbers, PowersThatPythonRefusesOrMakesComplexFail) {
  const std::int64_t zero = 0;
  const std::int64_t minus_one = -1;
  const auto of_zero = testing::HasSubstr("raised zero to a negative power");
  EXPECT_THAT(failure(real("_operator.pow", zero, minus_one)), of_zero);
  EXPECT_THAT(failure(real("_operator.pow", 0.0, -0.5)), of_zero);
  EXPECT_THAT(failure(real("_operator.pow", -2.0, 0.5)), testing::HasSubstr("which is a complex number"));
  EXPECT_THAT(failure(real("_operator.pow", minus_one, 1.5)), testing::HasSubstr("which is a complex number"));
  EXPECT_THAT(failure(real("_operator.pow", 1e200, 2.0)), testing::HasSubstr("overflowed a double"));
  EXPECT_EQ(real("_operator.pow", std::int64_t{2}, minus_one).value(), 0.5);
  EXPECT_EQ(real("_operator.pow", -2.0, 3.0).value(), -8.0);
  EXPECT_EQ(real("_operator.pow", -HUGE_VAL, 0.5).value(), HUGE_VAL);
  EXPECT_EQ(real("_operator.pow", 0.0, -HUGE_VAL).value(), HUGE_VAL);
}

TEST(Numbers, IntegersAreDividedAndComparedWithFloatsExactly) {
  constexpr std::int64_t kBeyond = (std::int64_t{1} << 53) + 1;  // lies between two doubles
  EXPECT_EQ(real("_operator.truediv", kBeyond, std::int64_t{3}).value(), 0x1.5555555555556p51);
  EXPECT_EQ(real("_operator.truediv", 3 * kBeyond, std::int64_t{3}).value(), 0x1p53);
  EXPECT_FALSE(holds("_operator.eq", kBeyond, 0x1p53));
  EXPECT_TRUE(holds("_operator.ne", 0x1p53, kBeyond));
  EXPECT_TRUE(holds("_operator.gt", kBeyond, 0x1p53));
  EXPECT_TRUE(holds("_operator.lt", 0x1p53, kBeyond));
  EXPECT_FALSE(holds("_operator.ge", 0x1p53, kBeyond));
  EXPECT_FALSE(holds("_operator.le", INT64_MAX, -HUGE_VAL));
  EXPECT_TRUE(holds("_operator.lt", INT64_MAX, 0x1p63));
  for (const char* order : {"eq", "lt", "le", "gt", "ge"}) {
    EXPECT_FALSE(holds(std::string("_operator.") + order, std::int64_t{0}, std::nan(""))) << order;
  }
  EXPECT_TRUE(holds("_operator.ne", std::int64_t{0}, std::nan("")));
}

TEST(Numbers, ZeroIsShiftedByAnyCountAndNothingByANegativeOne) {
  EXPECT_EQ(two("_operator.lshift", 0, 63), 0);
  EXPECT_EQ(two("_operator.lshift", 0, INT64_MAX), 0);
  EXPECT_EQ(two("_operator.lshift", -1, 63), INT64_MIN);
  for (const char* target : {"_operator.lshift", "_operator.rshift"}) {
    const auto shift = make_model(target, ir::ValueKind::kInt, 2, ir::ValueKind::kInt);
    EXPECT_THAT(compute(*shift, {number(std::int64_t{0}), number(std::int64_t{-1})}).status().message(),
                testing::HasSubstr("shifted by a negative count"));
  }
}

TEST(Numbers, FloatsKeepPythonsZerosAndNaNs) {
  const auto negative_zero = [](const Result<double>& result) { return *result == 0 && std::signbit(*result); };
  EXPECT_FALSE(negative_zero(real("_operator.mod", -4.0, 2.0)));
  EXPECT_TRUE(negative_zero(real("_operator.mod", 4.0, -2.0)));
  EXPECT_EQ(real("_operator.mod", -1.0, HUGE_VAL).value(), HUGE_VAL);
  EXPECT_TRUE(negative_zero(real("_operator.floordiv", -0.0, 3.0)));
  EXPECT_EQ(real("_operator.floordiv", 1.0, 0.1).value(), 9.0);
  EXPECT_EQ(real("_operator.floordiv", -1.0, HUGE_VAL).value(), -1.0);
  EXPECT_TRUE(std::isnan(real("torch.sym_min", std::nan(""), 1.0).value()));
  EXPECT_EQ(real("torch.sym_min", 1.0, std::nan("")).value(), 1.0);
  EXPECT_EQ(real("torch.sym_max", std::int64_t{3}, 2.5).value(), 3.0);  // a float, since one of them is
}

TEST(Numbers, RootsOfNegativeNumbersFail) {
  const auto root = make_model("torch._sym_sqrt", ir::ValueKind::kInt, 1, ir::ValueKind::kFloat);
  EXPECT_THAT(compute(*root, {number(std::int64_t{-1})}).status().message(),
              testing::HasSubstr("took the root of a negative number"));
}

TEST(Numbers, WrongArityIsRefusedAtLoad) {
  ImportedModel model;
  const ir::ValueId result = add_number(model.graph, "r", ir::ValueKind::kInt);
  ir::Node node;
  node.target = "_operator.add";
  node.name = "node";
  node.arguments = {{"", {std::int64_t{1}}}};
  node.outputs = {{false, {result}}};
  model.graph.nodes.push_back(node);
  const auto placed = find_runnable_device("cpu", BackendContext()).value();
  EXPECT_THAT(detail::LoadedModel::load(std::move(model), *placed.backend, *placed.device).status().message(),
              testing::HasSubstr("it is given 1 arguments and takes 2"));
}

}  // namespace
}  // namespace kpt
