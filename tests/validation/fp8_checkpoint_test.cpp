// An FP8 checkpoint on the CPU: judged by fp64 as it is, after the passes of each level, and with wrong scales.
#include "execution/fp8_checkpoint.h"

#include <algorithm>
#include <functional>
#include <random>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "ir/text.h"
#include "passes/runner.h"
#include "validation/gate.h"
#include "validation/layers.h"
#include "validation/validate.h"

namespace kpt {
namespace {

class Fp8Checkpoint : public testing::Test {
 protected:
  Fp8Checkpoint() : model_(execution_test::make_fp8_checkpoint(seed_, "s0")) {
    const Environment environment = Environment::from_process();
    context_ = make_backend_context(load_config({}, environment).value(), environment).value();
    cpu_ = find_runnable_device("cpu", context_).value();
  }
  Gate make_gate(Level level) const {
    return Gate::prepare(model_, make_draws(model_, {2, seed_, {}, {}}).value(), {level, {}}, cpu_, cpu_).value();
  }
  // The model with other scales of the first weight's columns.
  ImportedModel with_scales(const std::function<void(std::span<float>)>& change) const {
    ImportedModel candidate = model_;
    const Tensor scales = candidate.weights.at("w_scale").contiguous_copy().value();
    change(scales.elements<float>());
    candidate.weights.at("w_scale") = scales;
    return candidate;
  }
  ImportedModel with_larger_scales(float factor = 1.25F) const {
    return with_scales([factor](std::span<float> scales) {
      for (float& scale : scales) scale *= factor;
    });
  }

  unsigned seed_ = std::random_device{}();
  testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  ImportedModel model_;
  BackendContext context_;
  PlacedDevice cpu_;
};

TEST_F(Fp8Checkpoint, PassesTheGateAsExportedAndAfterThePassesOfEachLevel) {
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    SCOPED_TRACE(level_name(level));
    const Gate gate = make_gate(level);
    const auto plain = gate.judge(model_);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    EXPECT_TRUE(plain->passed()) << plain->worst()[0].reason;
    EXPECT_EQ(plain->outputs.size(), 4U) << "two outputs on two draws";
    for (const OutputVerdict& verdict : plain->outputs) {
      EXPECT_GT(verdict.plain_error, 0) << "FP8 rounds, fp64 does not";
      EXPECT_GT(verdict.cosine, 0.99);
    }
    ImportedModel candidate = model_;
    PassContext context{candidate.weights, cpu_.device->target().capabilities(), {}, {}};
    const auto records = run_passes(level_passes(level), candidate.graph, context);
    ASSERT_TRUE(records.ok()) << records.status().message();
    const auto optimized = gate.judge(candidate);
    ASSERT_TRUE(optimized.ok()) << optimized.status().message();
    EXPECT_TRUE(optimized->passed()) << optimized->worst()[0].reason;
  }
}

TEST_F(Fp8Checkpoint, WrongScalesAreRefusedAtEveryLevel) {
  const ImportedModel turned = with_scales([](std::span<float> scales) { std::ranges::reverse(scales); });
  for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
    SCOPED_TRACE(level_name(level));
    const Gate gate = make_gate(level);
    EXPECT_FALSE(gate.judge(with_larger_scales()).value().passed());
    EXPECT_FALSE(gate.judge(turned).value().passed()) << "each column has another's scale";
  }
}

// The fp64 run does not round to FP8, so the plain error is FP8's and hides this;
// docs/how_to/is_my_model_still_right.md says so, and why.
TEST_F(Fp8Checkpoint, ScalesThatAreWrongByLessThanTheRoundingAreNotSeen) {
  const auto report = make_gate(Level::kConservative).judge(with_larger_scales(1.03F));
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->passed()) << "the gate sees more than its page says: " << report->worst()[0].reason;
}

// Weights of FP8 are widened before they are multiplied: what computes is bfloat16, and its tolerance holds.
TEST_F(Fp8Checkpoint, TheToleranceIsThatOfTheTypeThatComputes) {
  ImportedModel model;
  model.graph = ir::read_graph(R"(kpt_graph 1
buffer w: float8_e4m3fn[32, 64] "w"
buffer b: bfloat16[32] "b"
input x: bfloat16[8, 64]
wide: bfloat16[32, 64] = aten.to.dtype(self=%w, dtype=dtype(bfloat16))
y: bfloat16[8, 32] = aten.linear.default(input=%x, weight=%wide, bias=%b)
out: float32[8, 32] = aten.to.dtype(self=%y, dtype=dtype(float32))
output %out "out"
)")
                    .value();
  execution_test::draw_fp8_weights(model, seed_);
  const Gate gate =
      Gate::prepare(model, make_draws(model, {2, seed_, {}, {}}).value(), {Level::kConservative, {}}, cpu_, cpu_)
          .value();
  ImportedModel near = model;  // within bfloat16's tolerance of the plain run, and far outside float32's
  ir::Value scaled = near.graph.at(*near.graph.outputs[0].value.value_id());
  scaled.name = "scaled";
  ir::Node node;
  node.name = "scaled";
  node.target = "aten.mul.Scalar";
  node.arguments = {{"self", near.graph.outputs[0].value}, {"other", {1.01}}};
  const ir::ValueId id = near.graph.add_value(std::move(scaled));
  node.outputs = {{false, {id}}};
  near.graph.nodes.push_back(std::move(node));
  near.graph.outputs[0].value.value = id;
  const auto report = gate.judge(near);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->passed()) << report->worst()[0].reason;
}

// Values correspond by name, so the product is the first that is blamed.
TEST_F(Fp8Checkpoint, TheProductIsNamedWhereItsScalesAreWrong) {
  const Gate gate = make_gate(Level::kConservative);
  const auto layers = compare_layers(model_, with_larger_scales(), gate, 0, cpu_, cpu_);
  ASSERT_TRUE(layers.ok()) << layers.status().message();
  const auto first = find_first_divergence(*layers);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ((*layers)[*first].node, "mm");
  EXPECT_EQ((*layers)[*first].target, "aten._scaled_mm.default");
  const auto same = compare_layers(model_, model_, gate, 0, cpu_, cpu_);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_FALSE(find_first_divergence(*same).has_value());
}

TEST_F(Fp8Checkpoint, ValidateJudgesItOnFreshInputs) {
  ValidateOptions options;
  options.draws.seed = seed_;
  const auto right = validate_model(model_, {{"cpu", "cpu", model_}}, options, context_);
  ASSERT_TRUE(right.ok()) << right.status().message();
  EXPECT_TRUE(right->passed());
  EXPECT_EQ(right->contenders[0].gate.draws.size(), 3U);
  const auto wrong = validate_model(model_, {{"wrong on cpu", "cpu", with_larger_scales()}}, options, context_);
  ASSERT_TRUE(wrong.ok()) << wrong.status().message();
  EXPECT_FALSE(wrong->passed());
}

}  // namespace
}  // namespace kpt
