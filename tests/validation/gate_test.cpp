// The rules of the levels on a whole model.
#include "validation/gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/model_loading.h"
#include "execution/bert_graph.h"
#include "ir/text.h"
#include "support/tree_paths.h"
#include "validation/faults.h"
#include "validation/gate_report.h"
#include "validation/layers.h"

namespace kpt {
namespace {

using testing::HasSubstr;

PlacedDevice cpu() {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  return find_runnable_device("cpu", context).value();
}

Gate make_gate(const ImportedModel& model, const GateOptions& options, std::uint64_t seed) {
  const PlacedDevice device = cpu();
  return Gate::prepare(model, make_draws(model, {2, seed, {}, {}}).value(), options, device, device).value();
}

// What the model gives, multiplied by a number.
ImportedModel scaled(const ImportedModel& model, double factor) {
  ImportedModel result = model;
  for (ir::GraphOutput& output : result.graph.outputs) {
    const ir::ValueId from = *output.value.value_id();
    const ir::TensorType like = result.graph.at(from).tensor;
    output.value.value = validation_test::insert_node(result, result.graph.nodes.size(), "aten.mul.Tensor",
                                                      {{"self", {from}}, {"other", {factor}}}, like);
  }
  return result;
}

// The bf16 form with outputs in the model's own type: what a precision pass could make.
ImportedModel in_bf16(const ImportedModel& model) {
  ImportedModel result = make_bf16_form(model, Bf16Way::kReal).value();
  for (ir::GraphOutput& output : result.graph.outputs) {
    const ir::ValueId from = *output.value.value_id();
    ir::TensorType like = result.graph.at(from).tensor;
    like.dtype = DType::kFloat32;
    output.value.value = validation_test::insert_node(result, result.graph.nodes.size(), "aten.to.dtype",
                                                      {{"self", {from}}, {"dtype", {DType::kFloat32}}}, like);
  }
  return result;
}

TEST(Gate, NoFalseAlarmOnTwentySeedsAtAnyLevel) {
  const auto first = std::random_device{}();
  for (std::uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << first + round);
    const ImportedModel model = execution_test::make_bert(first + round);
    ImportedModel rewritten = model;
    validation_test::split_linears(rewritten);
    const Level level = round % 3 == 0 ? Level::kConservative : round % 3 == 1 ? Level::kBalanced : Level::kAggressive;
    const Gate gate = make_gate(model, {level, {}}, first + round);
    for (const ImportedModel* candidate : {&model, static_cast<const ImportedModel*>(&rewritten)}) {
      const auto report = gate.judge(*candidate);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_TRUE(report->passed()) << report->worst()[0].reason;
      EXPECT_EQ(report->outputs.size(), 4U) << "two outputs on two draws";
    }
  }
}

TEST(Gate, Bf16PassesBalancedOnlyAndTheReportSaysHowBf16WasRun) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel model = execution_test::make_bert(seed);
  const ImportedModel candidate = in_bf16(model);
  const auto strict = make_gate(model, {Level::kConservative, {}}, seed).judge(candidate);
  ASSERT_TRUE(strict.ok()) << strict.status().message();
  EXPECT_FALSE(strict->passed());
  EXPECT_EQ(strict->bf16_run, "");
  const auto balanced = make_gate(model, {Level::kBalanced, {}}, seed).judge(candidate);
  ASSERT_TRUE(balanced.ok()) << balanced.status().message();
  EXPECT_TRUE(balanced->passed()) << balanced->worst()[0].reason;
  EXPECT_EQ(balanced->bf16_run, "run in bfloat16");
  for (const OutputVerdict& verdict : balanced->outputs) {
    EXPECT_EQ(verdict.rule, "bf16");
    ASSERT_TRUE(verdict.bf16_error.has_value());
    EXPECT_GT(*verdict.bf16_error, verdict.plain_error);
  }
}

TEST(Gate, TheSimulatedBf16RunIsAsWrongAsTheRealOne) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel model = execution_test::make_bert(seed);
  const Gate gate = make_gate(model, {Level::kBalanced, {}}, seed);
  const auto report = gate.judge(make_bf16_form(model, Bf16Way::kSimulated).value());
  ASSERT_TRUE(report.ok()) << report.status().message();
  for (const OutputVerdict& verdict : report->outputs) {
    EXPECT_GT(verdict.candidate_error, 0.3 * *verdict.bf16_error);
    EXPECT_LT(verdict.candidate_error, 3 * *verdict.bf16_error);
  }
}

TEST(Gate, AggressiveLooksAtDirectionLengthAndTheBoundOfTheUser) {
  const ImportedModel model = execution_test::make_bert(3);
  const Gate gate = make_gate(model, {Level::kAggressive, {}}, 3);
  EXPECT_TRUE(gate.judge(scaled(model, 1.05)).value().passed());
  const GateReport longer = gate.judge(scaled(model, 1.5)).value();
  EXPECT_FALSE(longer.passed()) << "the cosine alone would let it through";
  EXPECT_THAT(longer.worst()[0].reason, HasSubstr("root mean square"));
  EXPECT_FALSE(gate.judge(scaled(model, -1)).value().passed());
  EXPECT_FALSE(gate.judge(scaled(model, 0)).value().passed());
  const GateReport bounded = make_gate(model, {Level::kAggressive, 0.02}, 3).judge(scaled(model, 1.05)).value();
  EXPECT_FALSE(bounded.passed());
  EXPECT_THAT(bounded.worst()[0].reason, HasSubstr("bound is 0.02"));
  EXPECT_EQ(bounded.tolerance, 0.02);
}

TEST(Gate, AnExplicitToleranceLoosensConservative) {
  const ImportedModel model = execution_test::make_bert(4);
  const ImportedModel candidate = scaled(model, 1.0005);
  EXPECT_FALSE(make_gate(model, {Level::kConservative, {}}, 4).judge(candidate).value().passed());
  EXPECT_TRUE(make_gate(model, {Level::kConservative, 1e-3}, 4).judge(candidate).value().passed());
  const PlacedDevice device = cpu();
  EXPECT_EQ(
      Gate::prepare(model, make_draws(model, {}).value(), {Level::kConservative, -1.0}, device, device).status().code(),
      StatusCode::kInvalidArgument);
}

// The first output at one position of the sequence alone.
ImportedModel at_position(const ImportedModel& model, std::int64_t position) {
  ImportedModel result = model;
  ir::GraphOutput& output = result.graph.outputs[0];
  const ir::ValueId from = *output.value.value_id();
  ir::TensorType one = result.graph.at(from).tensor;
  one.dims[1] = 1;
  std::vector<ir::NamedArgument> arguments = {{"self", {from}}, {"dim", {std::int64_t{1}}}, {"start", {position}}};
  arguments.push_back({"end", {position == -1 ? std::numeric_limits<std::int64_t>::max() : position + 1}});
  output.value.value =
      validation_test::insert_node(result, result.graph.nodes.size(), "aten.slice.Tensor", std::move(arguments), one);
  return result;
}

TEST(Gate, AnOutputOfTheLastPositionIsHeldAgainstThatPositionWhereThatIsAllowed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel model = execution_test::make_bert(seed);
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    SCOPED_TRACE(level_name(level));
    const Gate gate = make_gate(model, {level, {}, true}, seed);
    const auto last = gate.judge(at_position(model, -1));
    ASSERT_TRUE(last.ok()) << last.status().message();
    EXPECT_TRUE(last->passed()) << last->worst()[0].reason;
    EXPECT_TRUE(last->last_position);
    EXPECT_FALSE(gate.judge(at_position(scaled(model, -1), -1)).value().passed()) << "other numbers there";
    // Positions of this model differ by less than bfloat16 can tell.
    if (level == Level::kConservative) {
      EXPECT_FALSE(gate.judge(at_position(model, 0)).value().passed()) << "another position";
    }
    EXPECT_TRUE(gate.judge(model).value().passed()) << "all positions are as good";
  }
  const GateReport whole = make_gate(model, {Level::kConservative, {}}, seed).judge(at_position(model, -1)).value();
  EXPECT_FALSE(whole.passed());
  EXPECT_EQ(whole.worst()[0].rule, "form");
}

// The first output with `value` at the positions where the mask is `at`.
ImportedModel filled(const ImportedModel& model, std::int64_t at, double value) {
  ImportedModel result = model;
  ir::GraphOutput& output = result.graph.outputs[0];
  const ir::ValueId from = *output.value.value_id();
  const ir::ValueId mask = validation_test::value_named(result.graph, "attention_mask");
  const ir::TensorType like = result.graph.at(from).tensor;
  ir::TensorType flags = result.graph.at(mask).tensor;
  flags.dtype = DType::kBool;
  ir::TensorType column = flags;
  column.dims.push_back(ir::Expr(1));
  column.strides.push_back(ir::Expr(1));
  const auto insert = [&](const char* target, std::vector<ir::NamedArgument> arguments, const ir::TensorType& type) {
    return validation_test::insert_node(result, result.graph.nodes.size(), target, std::move(arguments), type);
  };
  const ir::ValueId where = insert("aten.eq.Scalar", {{"self", {mask}}, {"other", {at}}}, flags);
  const ir::ValueId wide = insert("aten.unsqueeze.default", {{"self", {where}}, {"dim", {std::int64_t{-1}}}}, column);
  result.graph.outputs[0].value.value =
      insert("aten.masked_fill.Scalar", {{"self", {from}}, {"mask", {wide}}, {"value", {value}}}, like);
  return result;
}

// Whether the masks that a seed draws leave something out.
bool has_padding(const ImportedModel& model, std::uint64_t seed) {
  for (const Draw& draw : make_draws(model, {2, seed, {}, {}}).value()) {
    for (const NamedTensor& input : draw.inputs) {
      if (input.name != "attention_mask") continue;
      for (const std::int64_t flag : input.tensor.elements<std::int64_t>()) {
        if (flag == 0) return true;
      }
    }
  }
  return false;
}

TEST(Gate, PaddingIsJudgedByKeptPositionsAndTheReportSaysSo) {
  std::uint64_t seed = std::random_device{}();
  const ImportedModel model = execution_test::make_bert(seed);
  while (!has_padding(model, seed)) ++seed;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    const Gate gate = make_gate(model, {level, {}}, seed);
    const GateReport padded = gate.judge(filled(model, 0, 7.0)).value();
    EXPECT_TRUE(padded.passed()) << padded.worst()[0].reason;
    std::size_t at_some = 0;
    for (const OutputVerdict& verdict : padded.outputs) {
      if (!verdict.positions) continue;
      ++at_some;
      EXPECT_EQ(verdict.output, model.graph.outputs[0].name) << "the pooled output has no positions";
      EXPECT_EQ(verdict.positions->mask, "attention_mask");
      EXPECT_GT(verdict.positions->kept, 0U);
      EXPECT_LT(verdict.positions->kept, verdict.positions->all);
      EXPECT_GT(verdict.positions->error_over_all, 0.1) << "what stands in padding is shown";
      EXPECT_LT(verdict.candidate_error, 1e-3);
    }
    EXPECT_GT(at_some, 0U);
    EXPECT_FALSE(gate.judge(filled(model, 1, 7.0)).value().passed());
    const GateReport nan = gate.judge(filled(model, 0, std::nan(""))).value();
    EXPECT_FALSE(nan.passed()) << "a mean over positions would spread it";
    EXPECT_THAT(nan.worst()[0].reason, HasSubstr("in padding"));
  }
}

// Every position looks at all others: what the mask leaves out is seen.
TEST(Gate, AMaskThatHidesNothingIsNoPadding) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
values w, input_ids, attention_mask, rows, sum, mixed, flags, column, numbers, result
parameter w: float32[50, 6] "w"
input input_ids: int64[3, 9]
input attention_mask: int64[3, 9]
rows: float32[3, 9, 6] = aten.embedding.default(weight=%w, indices=%input_ids)
sum: float32[3, 1, 6] = aten.sum.dim_IntList(self=%rows, dim=[1], keepdim=true)
mixed: float32[3, 9, 6] = aten.add.Tensor(self=%rows, other=%sum)
flags: bool[3, 9] = aten.ne.Scalar(self=%attention_mask, other=0)
column: bool[3, 9, 1] = aten.unsqueeze.default(self=%flags, dim=-1)
numbers: float32[3, 9, 1] = aten.to.dtype(self=%column, dtype=dtype(float32))
result: float32[3, 9, 6] = aten.add.Tensor(self=%mixed, other=%numbers)
output %result "result"
)")
                    .value();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const Tensor table = Tensor::empty(DType::kFloat32, Dims{50, 6}).value();
  for (float& value : table.elements<float>()) value = normal(random);
  model.weights.emplace("w", table);
  EXPECT_EQ(find_attention_mask(model.graph), "attention_mask");
  const Gate gate = make_gate(model, {Level::kConservative, {}}, seed);
  EXPECT_TRUE(gate.judge(model).value().passed());
  EXPECT_FALSE(gate.judge(filled(model, 0, 7.0)).value().passed());
}

// Nine features and nine positions: the sizes agree, the meaning does not.
TEST(Gate, AnOutputWhoseSizesAgreeByChanceIsNoPadding) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
values w, input_ids, attention_mask, rows, floats, column, kept, result
parameter w: float32[50, 9] "w"
input input_ids: int64[3, 9]
input attention_mask: int64[3, 9]
rows: float32[3, 9, 9] = aten.embedding.default(weight=%w, indices=%input_ids)
floats: float32[3, 9] = aten.to.dtype(self=%attention_mask, dtype=dtype(float32))
column: float32[3, 9, 1] = aten.unsqueeze.default(self=%floats, dim=-1)
kept: float32[3, 9, 9] = aten.mul.Tensor(self=%rows, other=%column)
result: float32[3, 9] = aten.sum.dim_IntList(self=%kept, dim=[1])
output %result "result"
)")
                    .value();
  const Tensor table = Tensor::empty(DType::kFloat32, Dims{50, 9}).value();
  float next = 0;
  for (float& value : table.elements<float>()) value = std::sin(next += 1);
  model.weights.emplace("w", table);
  const GateReport report = make_gate(model, {Level::kConservative, {}}, 5).judge(scaled(model, 1.5)).value();
  EXPECT_FALSE(report.passed());
  for (const OutputVerdict& verdict : report.outputs) EXPECT_FALSE(verdict.positions.has_value());
}

TEST(Gate, AModelThatWritesItsInputsIsJudgedOnWhatWasGiven) {
  ImportedModel model;
  model.graph = ir::read_graph(
                    "kpt_graph 1\ninput x: float32[4, 50]\n"
                    "mul_: float32[4, 50] = aten.mul_.Tensor(self=%x, other=3.0)\n"
                    "result: float32[4, 50] = aten.cos.default(self=%mul_)\noutput %result \"result\"\n")
                    .value();
  const Gate gate = make_gate(model, {Level::kConservative, {}}, 1);
  EXPECT_TRUE(gate.judge(model).value().passed());
  EXPECT_TRUE(gate.judge(model).value().passed()) << "again, on the same draws";
}

// One number, the small difference of two large ones: on one draw either run may be right to the last bit.
TEST(Gate, OutputsOfAFewElementsAreJudgedOverMoreDrawsTogether) {
  const std::string opening =
      "kpt_graph 1\ninput x: float32[256, 256]\nsquare: float32[256, 256] = aten.mul.Tensor(self=%x, other=%x)\n";
  const std::string closing =
      "result: float32[] = aten.sub.Scalar(self=%sum, other=65536.0)\noutput %result \"result\"\n";
  ImportedModel model;
  model.graph =
      ir::read_graph(opening + "sum: float32[] = aten.sum.dim_IntList(self=%square, dim=[0, 1])\n" + closing).value();
  ImportedModel in_two_steps;
  in_two_steps.graph = ir::read_graph(opening + "rows: float32[256] = aten.sum.dim_IntList(self=%square, dim=[0])\n" +
                                      "sum: float32[] = aten.sum.dim_IntList(self=%rows, dim=[0])\n" + closing)
                           .value();
  const auto first = std::random_device{}();
  std::size_t second_looks = 0;
  for (std::uint64_t round = 0; round < 40; ++round) {
    const std::uint64_t seed = first + 100 * round;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    GateOptions options;
    options.draws.seed = seed;
    const Gate gate = make_gate(model, options, seed);
    const GateReport right = gate.judge(in_two_steps).value();
    EXPECT_TRUE(right.passed()) << right.worst()[0].reason;
    second_looks += static_cast<std::size_t>(
        std::ranges::count(right.outputs, std::optional<std::size_t>(18), &OutputVerdict::draws_together));
    if (round >= 3) continue;
    const GateReport wrong = gate.judge(scaled(in_two_steps, 1.001)).value();
    EXPECT_FALSE(wrong.passed());
    EXPECT_EQ(wrong.worst()[0].draws_together, 18U);
    EXPECT_FALSE(gate.judge(scaled(model, std::nan(""))).value().passed());
  }
  EXPECT_GT(second_looks, 0U) << "no draw was unlucky: this test shows nothing";
}

// One small number that is lost weighs as much as a large one: the sample of the file has 0.001, other draws about 10.
TEST(Gate, ADrawOfSmallNumbersIsNotHiddenByOthers) {
  ImportedModel model;
  model.graph = ir::read_graph(
                    "kpt_graph 1\ninput x: float32[4]\nsquare: float32[4] = aten.mul.Tensor(self=%x, other=%x)\n"
                    "result: float32[4] = aten.add.Tensor(self=%square, other=0.0)\noutput %result \"result\"\n")
                    .value();
  const Tensor small = Tensor::empty(DType::kFloat32, Dims{4}).value();
  for (float& value : small.elements<float>()) value = 0.03F;
  model.sample_inputs = {{"x", small}};
  ImportedModel candidate = model;
  candidate.graph = ir::read_graph(
                        "kpt_graph 1\ninput x: float32[4]\nsquare: float32[4] = aten.mul.Tensor(self=%x, other=%x)\n"
                        "result: float32[4] = aten.threshold.default(self=%square, threshold=0.0015, value=0.0)\n"
                        "output %result \"result\"\n")
                        .value();
  const GateReport report = make_gate(model, {}, 3).judge(candidate).value();
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.worst()[0].draws_together, 18U);
}

TEST(Gate, IntegersMustBeEqualAtEveryLevel) {
  ImportedModel model;
  model.graph = ir::read_graph(
                    "kpt_graph 1\ninput x: float32[4, 50]\n"
                    "best: int64[4] = aten.argmax.default(self=%x, dim=1)\noutput %best \"best\"\n")
                    .value();
  ImportedModel other = model;
  validation_test::node_named(other, "best").target = "aten.argmin.default";
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    const Gate gate = make_gate(model, {level, {}}, 1);
    EXPECT_TRUE(gate.judge(model).value().passed());
    const GateReport report = gate.judge(other).value();
    EXPECT_FALSE(report.passed());
    EXPECT_EQ(report.outputs[0].rule, "equal");
  }
}

TEST(Gate, AnotherFormIsRefusedWithASentence) {
  const ImportedModel model = execution_test::make_bert(5);
  ImportedModel fewer = model;
  fewer.graph.outputs.pop_back();
  const Gate gate = make_gate(model, {}, 5);
  const GateReport report = gate.judge(fewer).value();
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.worst()[1].reason, HasSubstr("does not give it"));
  const GateReport narrow = gate.judge(make_bf16_form(model, Bf16Way::kReal).value()).value();
  EXPECT_THAT(narrow.worst()[0].reason, HasSubstr("where the model gives float32"));
}

// What passed lies within what was allowed, what was refused beyond it, and a report that is read back says the same.
TEST(Gate, VerdictsTellTheErrorThatWasAllowed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel model = execution_test::make_bert(seed);
  const auto judge = [&](Level level, std::optional<double> tolerance, const ImportedModel& candidate) {
    const GateReport report = make_gate(model, {level, tolerance}, seed).judge(candidate).value();
    const GateReport back = read_gate_report(to_json(report)).value();
    for (std::size_t index = 0; index < report.outputs.size(); ++index) {
      const OutputVerdict& verdict = report.outputs[index];
      EXPECT_EQ(back.outputs[index].allowed_error, verdict.allowed_error);
      if (!verdict.allowed_error) continue;
      EXPECT_EQ(verdict.candidate_error <= *verdict.allowed_error, verdict.passed) << verdict.reason;
    }
    return report.outputs;
  };
  for (const OutputVerdict& verdict : judge(Level::kConservative, {}, scaled(model, 1.01))) {
    ASSERT_TRUE(verdict.allowed_error.has_value());
    EXPECT_FALSE(verdict.passed);
    EXPECT_GE(*verdict.allowed_error, 2 * verdict.plain_error);
  }
  for (const OutputVerdict& verdict : judge(Level::kBalanced, {}, in_bf16(model))) {
    EXPECT_EQ(verdict.allowed_error, kBf16Factor * *verdict.bf16_error);
  }
  // The base rule decides at aggressive too; cosine and length have no such bound, the user's has.
  for (const OutputVerdict& verdict : judge(Level::kAggressive, {}, model)) {
    EXPECT_EQ(verdict.rule, "tolerance");
    EXPECT_TRUE(verdict.allowed_error.has_value());
  }
  for (const OutputVerdict& verdict : judge(Level::kAggressive, {}, scaled(model, 1.05))) {
    EXPECT_FALSE(verdict.allowed_error.has_value());
  }
  for (const OutputVerdict& verdict : judge(Level::kAggressive, 0.02, scaled(model, 1.05))) {
    ASSERT_TRUE(verdict.allowed_error.has_value());
    EXPECT_NEAR(verdict.candidate_error / *verdict.allowed_error, 2.5, 0.01);
  }
  // Stored by a version that did not keep it.
  auto older = to_json(make_gate(model, {}, seed).judge(model).value());
  for (auto& output : older.at("outputs")) output.erase("allowed_error");
  EXPECT_FALSE(read_gate_report(older).value().outputs[0].allowed_error.has_value());
}

TEST(Gate, BuffersThatAModelWritesCountAsOutputs) {
  const std::string path = source_dir() + "/tests/golden/pt2/2.15.0/linear_state.pt2";
  const ImportedModel model = import_model(path).value();
  const Gate gate = make_gate(model, {}, 6);
  const GateReport same = gate.judge(model).value();
  EXPECT_TRUE(same.passed()) << same.worst()[0].reason;
  bool buffer = false;
  for (const OutputVerdict& verdict : same.outputs) buffer = buffer || verdict.output.starts_with("buffer ");
  EXPECT_TRUE(buffer) << "no buffer was compared";
}

TEST(Layers, ErrorsOfThePlainModelAreWithinToleranceEverywhere) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const ImportedModel model = execution_test::make_bert(seed);
  const Gate gate = make_gate(model, {}, seed);
  const auto layers = compare_layers(model, model, gate, 0, gate.device(), gate.device());
  ASSERT_TRUE(layers.ok()) << layers.status().message();
  EXPECT_EQ(layers->size(), model.graph.nodes.size());
  EXPECT_FALSE(find_first_divergence(*layers).has_value());
}

TEST(Draws, FilesFirstThenSamplesThenSeeds) {
  const ImportedModel model = execution_test::make_bert(1);
  const auto made = make_draws(model, {2, 40, {}, {}}).value();
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[1].origin, "seed 41");
  EXPECT_TRUE(made[1].generated);
  const auto given = make_draws(model, {1, 40, {}, {{{made[0].inputs[0]}, "in.npz"}}}).value();
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].origin, "in.npz (other inputs from seed 40)");
  EXPECT_EQ(given[0].inputs.size(), 3U);
  ImportedModel with_sample = model;
  with_sample.sample_inputs = made[0].inputs;
  EXPECT_EQ(make_draws(with_sample, {3, 0, {}, {}}).value()[0].origin, "sample of the file");
}

TEST(Draws, FilesAreEnoughWhereNoMoreCanBeMadeAndNobodyAskedForMore) {
  ImportedModel model;
  model.graph = ir::read_graph(
                    "kpt_graph 1\ninput x: complex128[4]\n"
                    "y: float64[4] = aten.abs.default(self=%x)\noutput %y \"y\"\n")
                    .value();
  const Tensor x = Tensor::empty(DType::kComplex128, Dims{4}).value();
  DrawOptions options{3, 0, {}, {{{{"x", x}}, "in.npz"}}, true};
  const auto draws = make_draws(model, options);
  ASSERT_TRUE(draws.ok()) << draws.status().message();
  ASSERT_EQ(draws->size(), 1U);
  EXPECT_EQ(draws->front().origin, "in.npz");
  options.fill_up = false;
  EXPECT_EQ(make_draws(model, options).status().code(), StatusCode::kUnsupported) << "three were asked for";
  options.fill_up = true;
  options.given.clear();
  EXPECT_EQ(make_draws(model, options).status().code(), StatusCode::kUnsupported) << "nothing to judge on";
}

}  // namespace
}  // namespace kpt
