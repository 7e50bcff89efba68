// Each planted fault must be caught by the gate and located: the pass first, then the node.
#include "validation/faults.h"

#include <random>

#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "ir/verifier.h"
#include "validation/gate.h"
#include "validation/locate.h"

namespace kpt {
namespace {

using validation_test::Fault;

PlacedDevice cpu() {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  return find_runnable_device("cpu", context).value();
}

class PlantedFault : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedFault, IsCaughtAndLocated) {
  const Fault fault = validation_test::list_faults()[GetParam()];
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << fault.name << ", seed " << seed);
  const ImportedModel model = validation_test::make_small_bert(seed);
  const PlacedDevice device = cpu();
  const auto draws = make_draws(model, {3, seed, {}, {}});
  ASSERT_TRUE(draws.ok()) << draws.status().message();
  const auto gate = Gate::prepare(model, *draws, {fault.level, {}}, device, device);
  ASSERT_TRUE(gate.ok()) << gate.status().message();

  ImportedModel harmless = model;
  validation_test::split_linears(harmless);
  ASSERT_TRUE(ir::verify(harmless.graph).ok()) << ir::verify(harmless.graph).message();
  const auto before = gate->judge(harmless);
  ASSERT_TRUE(before.ok()) << before.status().message();
  EXPECT_TRUE(before->passed()) << "other rounding alone is no fault: " << before->worst()[0].reason;

  ImportedModel broken = model;
  fault.plant(broken);
  ASSERT_TRUE(ir::verify(broken.graph).ok()) << ir::verify(broken.graph).message();
  ImportedModel last = broken;
  validation_test::split_linears(last);
  const auto report = gate->judge(last);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(report->passed()) << "the gate let it through";

  const PassStage stages[] = {{"harmless", harmless}, {"faulty", broken}, {"after", last}};
  const auto culprit = locate_culprit(model, *gate, stages, device);
  ASSERT_TRUE(culprit.ok()) << culprit.status().message();
  ASSERT_TRUE(culprit->has_value());
  EXPECT_EQ((*culprit)->pass, "faulty");
  ASSERT_TRUE((*culprit)->node.has_value()) << (*culprit)->sentence();
  EXPECT_EQ((*culprit)->node->node, fault.node) << (*culprit)->sentence();

  if (!fault.correct) return;
  ImportedModel right = model;
  fault.correct(right);
  const auto passed = gate->judge(right);
  ASSERT_TRUE(passed.ok()) << passed.status().message();
  EXPECT_TRUE(passed->passed()) << "the rewrite done right must pass: " << passed->worst()[0].reason;
}

INSTANTIATE_TEST_SUITE_P(Gate, PlantedFault, testing::Range<std::size_t>(0, validation_test::list_faults().size()));

}  // namespace
}  // namespace kpt
