// validate_model() and check_production() on a small model whose batch may vary.
#include "validation/validate.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/model_loading.h"
#include "ir/text.h"
#include "passes/pass_testing.h"
#include "validation/production.h"

namespace kpt {
namespace {

using testing::HasSubstr;

class Validate : public testing::Test {
 protected:
  Validate() {
    const Environment environment = Environment::from_process();
    context_ = make_backend_context(load_config({}, environment).value(), environment).value();
    model_.graph = ir::read_graph(
                       "kpt_graph 1\nsymbol s0 in 1..8\nparameter w: float32[64, 32]\nparameter w2: float32[16, 64]\n"
                       "input x: float32[s0, 32]\n"
                       "hidden: float32[s0, 64] = aten.linear.default(input=%x, weight=%w)\n"
                       "relu: float32[s0, 64] = aten.relu.default(self=%hidden)\n"
                       "last: float32[s0, 16] = aten.linear.default(input=%relu, weight=%w2)\n"
                       "output %last \"y\"\n")
                       .value();
    model_.weights = pass_testing::draw_weights(model_.graph, seed_);
    options_.draws.seed = seed_;
  }
  // One row, as many files carry it.
  void add_sample() {
    const Tensor row = Tensor::empty(DType::kFloat32, Dims{1, 32}).value();
    std::mt19937 random(seed_);
    for (float& value : row.elements<float>()) value = std::normal_distribution<float>()(random);
    model_.sample_inputs = {{"x", row}};
  }
  ProductionReport produce(const Requirements& requirements, const std::string& program = {}) {
    return check_production(model_, options_.draws, requirements, context_, "cpu", program).value();
  }
  static ProductionCheck find(const ProductionReport& report, const std::string& name) {
    for (const ProductionCheck& check : report.checks) {
      if (check.name == name) return check;
    }
    ADD_FAILURE() << "no check " << name;
    return {};
  }

  unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  BackendContext context_;
  ImportedModel model_;
  ValidateOptions options_;
};

TEST_F(Validate, FiguresOfDeterminismAreThereAlsoWhenTheFirstDrawHasOneRow) {
  add_sample();
  const auto report = validate_model(model_, {{"cpu", "cpu", model_}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->passed());
  EXPECT_EQ(report->contenders[0].gate.draws[0], "sample of the file");
  const Determinism& same = report->contenders[0].determinism;
  EXPECT_EQ(same.twice, 0);
  ASSERT_TRUE(same.threads.has_value());
  EXPECT_LT(*same.threads, 1e-3);
  EXPECT_THAT(same.threads_text, HasSubstr(" threads"));
  ASSERT_TRUE(same.neighbours.has_value()) << same.batch_note;
  EXPECT_LT(*same.neighbours, 1e-3);
  ASSERT_TRUE(same.alone.has_value()) << same.batch_note;
  EXPECT_LT(*same.alone, 1e-3);
  const auto json = to_json(*report).at("contenders").at(0).at("determinism");
  for (const char* figure : {"twice", "threads", "other_neighbours", "alone"}) EXPECT_TRUE(json.at(figure).is_number());
}

TEST_F(Validate, AModelOfOneRowSaysWhyItHasNoFigure) {
  for (ir::SymbolRange& range : model_.graph.symbols) range.max = 1;
  const auto report = validate_model(model_, {{"cpu", "cpu", model_}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(report->contenders[0].determinism.neighbours.has_value());
  EXPECT_EQ(report->contenders[0].determinism.batch_note, "the batch has one row");
}

// Rows that look at their neighbours give other answers beside others: the figures must show it.
TEST_F(Validate, RowsThatFeelTheirNeighboursAreSeen) {
  model_.graph = ir::read_graph(
                     "kpt_graph 1\nsymbol s0 in 1..8\ninput x: float32[s0, 32]\n"
                     "mean: float32[1, 32] = aten.mean.dim(self=%x, dim=[0], keepdim=true)\n"
                     "y: float32[s0, 32] = aten.sub.Tensor(self=%x, other=%mean)\noutput %y \"y\"\n")
                     .value();
  model_.weights.clear();
  const auto report = validate_model(model_, {{"cpu", "cpu", model_}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->contenders[0].determinism.neighbours.value(), 0.1);
  EXPECT_GT(report->contenders[0].determinism.alone.value(), 0.1);
  EXPECT_TRUE(report->passed()) << "a figure to know, no fault";
}

TEST_F(Validate, TheFirstWrongNodeIsNamedAndPairsShowTheDifference) {
  ImportedModel wrong = model_;
  const Tensor weight = model_.weights.at("w2").contiguous_copy().value();
  for (std::size_t i = 0; i < 64; ++i) weight.elements<float>()[i] += 1;  // of one output; some inputs are 0
  wrong.weights["w2"] = weight;
  options_.layers = true;
  const auto report = validate_model(model_, {{"right", "cpu", model_}, {"wrong", "cpu", wrong}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(report->passed());
  EXPECT_FALSE(report->contenders[0].first_divergence.has_value());
  ASSERT_TRUE(report->contenders[1].first_divergence.has_value());
  EXPECT_EQ(to_json(*report).at("contenders").at(1).at("first_divergence"), "last");
  ASSERT_EQ(report->pairs.size(), 1U);
  EXPECT_EQ(report->pairs[0].first, "right");
  EXPECT_EQ(report->pairs[0].second, "wrong");
  EXPECT_GT(report->pairs[0].agreement.max_difference, 1e-3);
}

TEST_F(Validate, IntegersThatDifferAreCountedInPairsAndInsideThem) {
  model_.graph = ir::read_graph(
                     "kpt_graph 1\nparameter w: float32[8, 8]\ninput x: float32[2, 8]\n"
                     "y: float32[2, 8] = aten.linear.default(input=%x, weight=%w)\n"
                     "positive: bool[2, 8] = aten.gt.Scalar(self=%y, other=0)\noutput %positive \"p\"\n")
                     .value();
  model_.weights = pass_testing::draw_weights(model_.graph, seed_);
  ImportedModel wrong = model_;
  wrong.weights["w"] = model_.weights.at("w").contiguous_copy().value();
  for (float& element : wrong.weights["w"].elements<float>()) element = -element;  // every sign turns
  options_.layers = true;
  const auto report = validate_model(model_, {{"right", "cpu", model_}, {"wrong", "cpu", wrong}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto json = to_json(*report);
  ASSERT_EQ(json.at("pairs").size(), 1U);
  EXPECT_EQ(json.at("pairs")[0].at("differing"), json.at("pairs")[0].at("elements"));
  EXPECT_EQ(json.at("pairs")[0].at("max_difference"), 1);
  ASSERT_EQ(json.at("pair_layers")[0].at("layers").size(), 2U);
  const auto& inside = json.at("pair_layers")[0].at("layers");
  EXPECT_TRUE(inside[0].at("differing").is_null());
  EXPECT_GT(inside[0].at("max_difference").get<double>(), 0);
  EXPECT_EQ(inside[1].at("value"), "positive");
  EXPECT_EQ(inside[1].at("differing"), 16);
  EXPECT_EQ(inside[1].at("elements"), 16);
  EXPECT_EQ(inside[1].at("max_difference"), 1);
}

TEST_F(Validate, PairsAreComparedAtTheLastPositionOnlyWhereOneMayGiveNoMore) {
  const auto read = [](const std::string& end) {
    return ir::read_graph(
               "kpt_graph 1\nsymbol s0 in 2..8\nparameter w: float32[40, 8]\ninput x: float32[2, s0, 8]\n"
               "logits: float32[2, s0, 40] = aten.linear.default(input=%x, weight=%w)\n" +
               end)
        .value();
  };
  model_.graph = read("output %logits \"y\"\n");
  model_.weights = pass_testing::draw_weights(model_.graph, seed_);
  Contender last{"last", "cpu", model_};
  last.model.graph =
      read("last: float32[2, 1, 40] = aten.slice.Tensor(self=%logits, dim=1, start=-1)\noutput %last \"y\"\n");
  for (const bool allowed : {false, true}) {
    last.last_position = allowed;
    const auto report = validate_model(model_, {{"whole", "cpu", model_}, last}, options_, context_);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->passed(), allowed);
    ASSERT_EQ(report->pairs.size(), 1U);
    EXPECT_EQ(std::isfinite(report->pairs[0].agreement.max_difference), allowed);
  }
}

// Draws of 2, 1 and 3 rows, of which the model takes three alone.
TEST_F(Validate, ValuesInsidePairsAreThoseOfADrawThatTheModelRuns) {
  model_.graph = ir::read_graph(
                     "kpt_graph 1\nsymbol s0 in 1..8\nparameter w: float32[64, 32]\ninput x: float32[s0, 32]\n"
                     "hidden: float32[s0, 64] = aten.linear.default(input=%x, weight=%w)\n"
                     "third: float32[64] = aten.select.int(self=%hidden, dim=0, index=2)\noutput %third \"y\"\n")
                     .value();
  model_.weights = pass_testing::draw_weights(model_.graph, seed_);
  options_.layers = true;
  const auto report = validate_model(model_, {{"one", "cpu", model_}, {"other", "cpu", model_}}, options_, context_);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->passed());
  ASSERT_EQ(report->contenders[0].gate.draws.size(), 1U);
  ASSERT_EQ(report->pair_layers.size(), 1U);
  ASSERT_EQ(report->pair_layers[0].layers.size(), 2U);
  EXPECT_EQ(report->pair_layers[0].layers[0].agreement.elements, 3U * 64U);
}

TEST_F(Validate, ProductionHoldsFiguresAgainstRequirements) {
  const ProductionReport fine = produce({1e6, 1e-3, 1e6, {1, 8}});
  EXPECT_TRUE(fine.passed());
  for (const char* name : {"latency", "throughput", "memory", "batch_1", "batch_8"}) {
    EXPECT_EQ(find(fine, name).severity, "ok") << name;
    EXPECT_GT(find(fine, name).value.value_or(0), 0) << name;
  }
  EXPECT_EQ(find(produce({}), "latency").severity, "info") << "nobody required anything";
  const ProductionReport bad = produce({1e-9, 1e15, 1, {8, 9}});
  EXPECT_FALSE(bad.passed());
  for (const char* name : {"latency", "throughput", "memory", "batch_9"}) {
    EXPECT_EQ(find(bad, name).severity, "error") << name;
  }
  EXPECT_EQ(find(bad, "batch_8").severity, "ok");
  EXPECT_THAT(find(produce({{}, 1, {}, {}}), "throughput").text, HasSubstr("needs --batch-sizes"));
}

TEST_F(Validate, ProductionLeavesOutGeneratedDrawsThatTheModelCannotRun) {
  model_.graph = ir::read_graph(
                     "kpt_graph 1\nsymbol s0 in 1..8\nparameter w: float32[64, 32]\ninput x: float32[s0, 32]\n"
                     "hidden: float32[s0, 64] = aten.linear.default(input=%x, weight=%w)\n"
                     "third: float32[64] = aten.select.int(self=%hidden, dim=0, index=2)\noutput %third \"y\"\n")
                     .value();
  model_.weights = pass_testing::draw_weights(model_.graph, seed_);
  const ProductionReport report = produce({});  // on 2, 1 and 3 rows
  EXPECT_EQ(find(report, "forward").severity, "ok") << find(report, "forward").text;
  EXPECT_THAT(find(report, "forward").text, HasSubstr("1 draws, all outputs finite; draw 'seed "));
  EXPECT_THAT(find(report, "latency").text, HasSubstr("s0=3"));
  EXPECT_TRUE(report.passed());
  options_.draws.count = 2;
  EXPECT_EQ(find(produce({}), "forward").severity, "error") << "no draw ran";
  add_sample();
  options_.draws.count = 3;
  EXPECT_EQ(find(produce({}), "forward").severity, "error") << "the file's own sample must run";
}

TEST_F(Validate, ProductionForgivesInfiniteAnswersToGeneratedDrawsOnly) {
  model_.graph = ir::read_graph(
                     "kpt_graph 1\nsymbol s0 in 1..8\nparameter w: float32[32]\ninput x: float32[s0, 32]\n"
                     "log: float32[s0, 32] = aten.log.default(self=%x)\n"
                     "y: float32[s0, 32] = aten.add.Tensor(self=%log, other=%w)\noutput %y \"y\"\n")
                     .value();
  model_.weights = pass_testing::draw_weights(model_.graph, seed_);
  EXPECT_EQ(find(produce({}), "forward").severity, "error") << "nothing was answered with numbers";
  add_sample();
  EXPECT_EQ(find(produce({}), "forward").severity, "error") << "the file's own sample is below zero";
  for (float& value : model_.sample_inputs[0].tensor.elements<float>()) value = std::fabs(value) + 0.1F;
  const ProductionReport report = produce({});
  EXPECT_EQ(find(report, "forward").severity, "ok");
  EXPECT_THAT(find(report, "forward").text, HasSubstr("1 draws, all outputs finite; draw 'seed "));
  EXPECT_THAT(find(report, "forward").text, HasSubstr("output 'y' is not finite"));
}

TEST_F(Validate, ProductionRunsTheStoredProgram) {
  const PlacedDevice cpu = find_runnable_device("cpu", context_).value();
  const std::string program = cpu.device->target().compile(model_.graph).value()->serialize().value();
  EXPECT_TRUE(produce({}, program).passed());
  const ProductionReport broken = produce({}, "no program");
  EXPECT_FALSE(broken.passed());
  EXPECT_EQ(find(broken, "load").severity, "error");
}

}  // namespace
}  // namespace kpt
