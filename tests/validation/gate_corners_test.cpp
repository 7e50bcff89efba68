// The gate where an error alone says little: no number in fp64, numbers too large to square, a bf16 run that is as
// wrong as the output is large, tables in another type, inputs that may not be changed.
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "ir/text.h"
#include "passes/pass_testing.h"
#include "validation/faults.h"
#include "validation/gate.h"

namespace kpt {
namespace {

using testing::HasSubstr;

class GateCorners : public testing::Test {
 protected:
  static PlacedDevice find_cpu() {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
    return find_runnable_device("cpu", context).value();
  }
  ImportedModel make_model(const std::string& text) const {
    ImportedModel model;
    model.graph = ir::read_graph("kpt_graph 1\n" + text).value();
    model.weights = pass_testing::draw_weights(model.graph, seed_);
    return model;
  }
  Result<Gate> prepare(const ImportedModel& model, Level level, std::vector<GivenInputs> given = {}) const {
    GateOptions options;
    options.level = level;
    options.draws = {2, seed_, {}, std::move(given)};
    if (!options.draws.given.empty()) options.draws.count = 1;
    const PlacedDevice device = find_cpu();
    return Gate::prepare(model, make_draws(model, options.draws).value(), options, device, device);
  }
  GateReport judge(const ImportedModel& model, Level level, const ImportedModel& candidate) const {
    return prepare(model, level).value().judge(candidate).value();
  }
  static ImportedModel times(const ImportedModel& model, double factor) {
    ImportedModel result = model;
    for (ir::GraphOutput& output : result.graph.outputs) {
      const ir::ValueId from = *output.value.value_id();
      const ir::TensorType like = result.graph.at(from).tensor;
      output.value.value = validation_test::insert_node(result, result.graph.nodes.size(), "aten.mul.Tensor",
                                                        {{"self", {from}}, {"other", {factor}}}, like);
    }
    return result;
  }

  unsigned seed_ = std::random_device()();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
};

constexpr Level kEachLevel[] = {Level::kConservative, Level::kBalanced, Level::kAggressive};

// In float32 the square is zero and the divisor one; in fp64 it is not, and all becomes infinite.
TEST_F(GateCorners, WhereFp64HasNoNumberTheModelsOwnIsHeldAgainst) {
  const ImportedModel model = make_model(R"(input x: float32[64, 64]
small: float32[64, 64] = aten.mul.Tensor(self=%x, other=1e-30)
square: float32[64, 64] = aten.mul.Tensor(self=%small, other=%small)
flat: bool[64, 64] = aten.eq.Scalar(self=%square, other=0.0)
divisor: float32[64, 64] = aten.to.dtype(self=%flat, dtype=dtype(float32))
result: float32[64, 64] = aten.div.Tensor(self=%x, other=%divisor)
output %result "result"
)");
  for (const Level level : kEachLevel) {
    SCOPED_TRACE(level_name(level));
    const Gate gate = prepare(model, level).value();
    EXPECT_TRUE(std::isinf(gate.reference()[0][0].tensor.elements<double>()[0])) << "this test shows nothing";
    EXPECT_TRUE(gate.judge(model).value().passed());
    EXPECT_FALSE(gate.judge(times(model, 1.5)).value().passed());
    EXPECT_FALSE(gate.judge(times(model, 0)).value().passed());
    EXPECT_EQ(gate.judge(times(model, 1.003)).value().passed(), level != Level::kConservative) << "as bfloat16 has it";
  }
}

TEST_F(GateCorners, NumbersTooLargeToSquareHaveNoDirection) {
  const ImportedModel model = make_model(R"(input x: float64[64, 64]
result: float64[64, 64] = aten.mul.Tensor(self=%x, other=1e200)
output %result "result"
)");
  for (const Level level : kEachLevel) {
    SCOPED_TRACE(level_name(level));
    EXPECT_TRUE(judge(model, level, model).passed());
    EXPECT_FALSE(judge(model, level, times(model, -1)).passed());
  }
}

// A thousand and back: in bfloat16 nearly nothing is left of x, so that three times that error is more than x itself.
TEST_F(GateCorners, ABf16RunWithoutTheOutputLetsNothingPassThatPointsElsewhere) {
  const ImportedModel model = make_model(R"(input x: float32[64, 64]
high: float32[64, 64] = aten.add.Tensor(self=%x, other=1000.0)
result: float32[64, 64] = aten.sub.Tensor(self=%high, other=1000.0)
output %result "result"
)");
  const Gate gate = prepare(model, Level::kBalanced).value();
  EXPECT_TRUE(gate.judge(model).value().passed());
  const GateReport longer = gate.judge(times(model, 1.2)).value();
  EXPECT_TRUE(longer.passed()) << longer.worst()[0].reason;
  EXPECT_EQ(longer.worst()[0].rule, "bf16");
  for (const double factor : {0.0, -1.0}) {
    const GateReport wrong = gate.judge(times(model, factor)).value();
    EXPECT_FALSE(wrong.passed()) << factor;
    EXPECT_THAT(wrong.worst()[0].reason, HasSubstr("the cosine with fp64 is"));
    EXPECT_FALSE(wrong.worst()[0].allowed_error.has_value()) << "no size of an error decided";
  }
}

// A table in bfloat16 that is widened as it is read rounds nothing; one that is computed with does.
TEST_F(GateCorners, ATableInANarrowTypeMakesAModelNoCoarser) {
  const auto make = [this](const std::string& read) {
    return make_model(R"(parameter w: float32[64, 64]
buffer table: bfloat16[1, 64]
input x: float32[32, 64]
linear: float32[32, 64] = aten.linear.default(input=%x, weight=%w)
)" + read + R"(wide: float32[1, 64] = aten.to.dtype(self=%rows, dtype=dtype(float32))
result: float32[32, 64] = aten.add.Tensor(self=%linear, other=%wide)
output %result "result"
)");
  };
  const ImportedModel exact = make("rows: bfloat16[1, 64] = aten.view.default(self=%table, size=[1, 64])\n");
  EXPECT_TRUE(judge(exact, Level::kConservative, exact).passed());
  EXPECT_FALSE(judge(exact, Level::kConservative, times(exact, 1.001)).passed());
  const ImportedModel rounded = make("rows: bfloat16[1, 64] = aten.mul.Tensor(self=%table, other=%table)\n");
  EXPECT_TRUE(judge(rounded, Level::kConservative, times(rounded, 1.001)).passed());
}

// Only zeros are rows of the table: other content in padding cannot be run, so nothing is proved.
TEST_F(GateCorners, AModelThatRefusesOtherContentInPaddingIsJudgedWhole) {
  const ImportedModel model = make_model(R"(parameter table: float32[1, 3]
input x: float32[2, 4]
input attention_mask: int64[2, 4]
same: float32[2, 4] = aten.mul.Tensor(self=%x, other=1.0)
ids: int64[2, 4] = aten.to.dtype(self=%same, dtype=dtype(int64))
rows: float32[2, 4, 3] = aten.embedding.default(weight=%table, indices=%ids)
flags: bool[2, 4] = aten.ne.Scalar(self=%attention_mask, other=0)
kept: bool[2, 4, 1] = aten.unsqueeze.default(self=%flags, dim=-1)
numbers: float32[2, 4, 1] = aten.to.dtype(self=%kept, dtype=dtype(float32))
result: float32[2, 4, 3] = aten.mul.Tensor(self=%rows, other=%numbers)
output %result "result"
)");
  ASSERT_EQ(find_attention_mask(model.graph), "attention_mask");
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{2, 4}).value();
  const Tensor mask = Tensor::empty(DType::kInt64, Dims{2, 4}).value();
  for (std::size_t at = 0; at < 8; ++at) {
    x.elements<float>()[at] = 0;
    mask.elements<std::int64_t>()[at] = at % 4 < 2 ? 1 : 0;
  }
  const auto gate = prepare(model, Level::kConservative, {{{{"x", x}, {"attention_mask", mask}}, "in.npz"}});
  ASSERT_TRUE(gate.ok()) << gate.status().message();
  const GateReport report = gate->judge(model).value();
  EXPECT_TRUE(report.passed());
  EXPECT_FALSE(report.outputs[0].positions.has_value());
}

}  // namespace
}  // namespace kpt
