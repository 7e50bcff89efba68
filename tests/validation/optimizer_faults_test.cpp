// A fault in a pass of the pipeline or in a kernel must not get past `optimize`: refused, no artifact, pass and node
// named. With the check after each pass it is taken back instead, and the rest stays.
#include <algorithm>
#include <iterator>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_loading.h"
#include "optimize/optimize.h"
#include "passes/own_calls.h"
#include "validation/faults.h"
#include "validation/pass_faults.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using validation_test::list_pass_faults;
using validation_test::PassFault;

PlacedDevice find_cpu() {
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  return find_runnable_device("cpu", context).value();
}

OptimizeOptions make_options(Level level, std::uint64_t seed) {
  OptimizeOptions options;
  options.level = level;
  options.draws.seed = seed;
  options.measure = false;
  return options;
}

OptimizeOptions make_options(const PassFault& fault, std::uint64_t seed) {
  OptimizeOptions options = make_options(fault.level, seed);
  options.disabled = fault.disabled;
  options.added = {{&fault.pass, fault.behind}};
  return options;
}

const PassRecord& record_of(const OptimizeReport& report, std::string_view pass) {
  return *std::ranges::find(report.passes, pass, &PassRecord::pass);
}

std::size_t count_applied(const OptimizeReport& report) {
  return static_cast<std::size_t>(
      std::ranges::count_if(report.passes, [](const PassRecord& record) { return record.changes > 0; }));
}

class FaultyPass : public testing::TestWithParam<std::size_t> {};

TEST_P(FaultyPass, IsRefusedWithoutAnArtifactAndNamedWithItsNode) {
  const PassFault& fault = list_pass_faults()[GetParam()];
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << fault.pass.name << ", seed " << seed);
  const PlacedDevice cpu = find_cpu();
  const auto outcome = optimize_model(fault.make(seed), make_options(fault, seed), cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const OptimizeReport& report = outcome->report;
  const std::vector<std::string>& spoiled = record_of(report, fault.pass.name).details;
  ASSERT_FALSE(spoiled.empty()) << "the fault found nothing to spoil";
  EXPECT_FALSE(report.passed()) << "the gate let it through";
  EXPECT_FALSE(outcome->artifact.has_value());
  ASSERT_TRUE(report.culprit.has_value());
  EXPECT_EQ(report.culprit->pass, fault.pass.name) << report.culprit->sentence();
  ASSERT_TRUE(report.culprit->node.has_value()) << report.culprit->sentence();
  const auto is_spoiled = [&](const std::string& name) { return std::ranges::find(spoiled, name) != spoiled.end(); };
  EXPECT_TRUE(std::ranges::any_of(report.culprit->suspects, is_spoiled)) << report.culprit->sentence();
  EXPECT_THAT(report.culprit->sentence(), StartsWith("pass " + std::string(fault.pass.name) + " broke it: node '"));
}

TEST_P(FaultyPass, IsTakenBackAloneWhenEachIsChecked) {
  const PassFault& fault = list_pass_faults()[GetParam()];
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << fault.pass.name << ", seed " << seed);
  const PlacedDevice cpu = find_cpu();
  OptimizeOptions options = make_options(fault, seed);
  options.check_each = true;
  const auto outcome = optimize_model(fault.make(seed), options, cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->report.passed()) << outcome->report.gate.worst()[0].reason;
  EXPECT_TRUE(outcome->artifact.has_value());
  const PassRecord& record = record_of(outcome->report, fault.pass.name);
  EXPECT_EQ(record.changes, 0U);
  EXPECT_THAT(record.skipped, HasSubstr("taken back, output '"));
  EXPECT_GT(record_of(outcome->report, fault.behind == "channels_last" ? "fuse_linear" : fault.behind).changes, 0U);
}

// Taking out a pass that loses builds the model anew: what was taken back before stays out.
TEST(Optimizer, APassThatWasTakenBackDoesNotComeBackWithTheNextBuild) {
  const PassFault& fault = list_pass_faults()[0];
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << fault.pass.name << ", seed " << seed);
  const PlacedDevice cpu = find_cpu();
  OptimizeOptions options = make_options(fault, seed);
  options.added.push_back({&validation_test::kWasteTime, "channels_last"});
  options.check_each = true;
  options.measure = true;
  options.seconds_per_pair = 0.2;
  const auto outcome = optimize_model(fault.make(seed), options, cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->report.passed()) << outcome->report.gate.worst()[0].reason;
  EXPECT_THAT(record_of(outcome->report, fault.pass.name).skipped, HasSubstr("taken back, output '"));
  // By the clock: on a busy machine nothing may be beyond the noise, and nothing is built anew.
  if (outcome->report.dropped.empty()) GTEST_SKIP() << "too much else runs here to see that a pass is slow";
}

TEST(Optimizer, OfAPassThatStandsTwiceOnlyThePlaceThatFailedIsTakenBack) {
  using validation_test::kShiftUnfused;
  using validation_test::kWasteTime;
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const PlacedDevice cpu = find_cpu();
  OptimizeOptions options = make_options(Level::kConservative, seed);
  options.added = {{&kShiftUnfused, "fold_constants"}, {&kShiftUnfused, "fuse_linear"}, {&kWasteTime, "channels_last"}};
  options.check_each = true;
  options.measure = true;
  options.seconds_per_pair = 0.2;
  const auto outcome = optimize_model(validation_test::make_classifier(seed), options, cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const OptimizeReport& report = outcome->report;
  const auto is_dropped = [&](std::string_view name) {
    return std::ranges::find(report.dropped, name, &DroppedPass::pass) != report.dropped.end();
  };
  // By the clock, and then the second place has something to spoil.
  if (is_dropped("fuse_linear")) GTEST_SKIP() << "fused products are slower here";
  EXPECT_TRUE(report.passed()) << report.gate.worst()[0].reason;
  // As above: without a second build nothing is seen, and a pass that is taken out has no record.
  if (!is_dropped(kWasteTime.name) || is_dropped(kShiftUnfused.name)) GTEST_SKIP() << "too much else runs here";
  std::vector<PassRecord> places;
  std::ranges::copy_if(report.passes, std::back_inserter(places),
                       [](const PassRecord& record) { return record.pass == kShiftUnfused.name; });
  ASSERT_EQ(places.size(), 2U);
  EXPECT_THAT(places[0].skipped, HasSubstr("taken back, output '"));
  EXPECT_EQ(places[1].skipped, "");
  EXPECT_EQ(places[1].changes, 1U);
}

// All passes together are slower, so the model is built without them. A pass that had nothing to do behind them spoils
// that one: what is left is judged too.
TEST(Optimizer, AModelThatIsLeftAfterASlowWholeIsRefusedToo) {
  using validation_test::kShiftUnfusedOnly;
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const PlacedDevice cpu = find_cpu();
  OptimizeOptions options = make_options(Level::kConservative, seed);
  options.added = {{&kShiftUnfusedOnly, "fuse_linear"}, {&validation_test::kWasteTime, "channels_last"}};
  options.measure = true;
  options.known_losers.emplace();  // no pass is measured singly
  options.seconds_per_pair = 0.2;
  const auto outcome = optimize_model(validation_test::make_classifier(seed), options, cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const OptimizeReport& report = outcome->report;
  if (report.dropped.empty()) GTEST_SKIP() << "too much else runs here to see that the whole is slow";
  EXPECT_THAT(report.dropped.front().reason, HasSubstr("all passes together make the model slower"));
  ASSERT_EQ(record_of(report, kShiftUnfusedOnly.name).changes, 1U);
  EXPECT_FALSE(report.passed());
  EXPECT_FALSE(outcome->artifact.has_value());
  EXPECT_FALSE(report.speed.has_value());
  ASSERT_TRUE(report.culprit.has_value());
  EXPECT_EQ(report.culprit->pass, kShiftUnfusedOnly.name) << report.culprit->sentence();
}

INSTANTIATE_TEST_SUITE_P(Optimizer, FaultyPass, testing::Range<std::size_t>(0, list_pass_faults().size()),
                         [](const auto& each) { return std::string(list_pass_faults()[each.param].pass.name); });

TEST(Optimizer, TheSameModelsPassWithoutAFault) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const PlacedDevice cpu = find_cpu();
  for (auto* make : {validation_test::make_small_bert, validation_test::make_decoder, validation_test::make_classifier,
                     validation_test::make_conv_norm}) {
    for (const Level level : {Level::kConservative, Level::kBalanced, Level::kAggressive}) {
      const auto outcome = optimize_model(make(seed), make_options(level, seed), cpu, cpu);
      ASSERT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_TRUE(outcome->report.passed()) << level_name(level) << ": " << outcome->report.gate.worst()[0].reason;
      EXPECT_TRUE(outcome->artifact.has_value());
      EXPECT_FALSE(outcome->report.culprit.has_value());
      EXPECT_GT(count_applied(outcome->report), 1U);
    }
  }
}

// What an integer layer costs too much is no reason to refuse: it is not quantized, and the report names it.
TEST(Optimizer, ALayerThatIsWrongInIntegersGoesUpAndIsNamed) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const PlacedDevice cpu = find_cpu();
  if (!has_matrix_dtype(cpu.device->target().capabilities(), DType::kInt8)) {
    GTEST_SKIP() << "this processor has no int8 products";
  }
  OptimizeOptions options = make_options(Level::kAggressive, seed);
  options.added = {{&validation_test::kInvertOneScale, "quantize_int8"}};
  const auto outcome = optimize_model(validation_test::make_small_bert(seed), options, cpu, cpu);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_TRUE(outcome->report.passed());
  EXPECT_THAT(outcome->report.not_quantized, Contains("add_4"));
}

// The graph is right and the kernel is not: the pass that brought the kernel in is named, with the node.
struct KernelFault {
  std::string target;
  std::string argument;
  std::optional<ir::Argument> from;  // nothing: any
  ir::Argument to;
  ImportedModel (*make)(std::uint64_t seed);
  std::string pass;
  std::string node;
};

TEST(Optimizer, AKernelWithAWrongConstantIsRefusedAndNamed) {
  using validation_test::make_decoder;
  using validation_test::make_small_bert;
  const auto text = [](const char* word) { return ir::Argument{std::string(word)}; };
  const KernelFault faults[] = {
      {std::string(kLinearTarget), "activation", text("gelu"), text("gelu_tanh"), make_small_bert, "fuse_linear",
       "gelu"},
      {std::string(kAttentionTarget), "scale", {}, {0.3}, make_decoder, "fuse_attention", "heads_heads_last"},
      {std::string(kAddNormTarget), "epsilon", {}, {1e-3}, make_decoder, "fuse_norm", "normed"},
      {std::string(kGluTarget), "activation", text("silu"), text("gelu"), make_decoder, "merge_linear", "gated"},
  };
  const auto seed = std::random_device{}();
  const PlacedDevice cpu = find_cpu();
  for (const KernelFault& fault : faults) {
    SCOPED_TRACE(testing::Message() << fault.target << ", seed " << seed);
    const PlacedDevice wrong = validation_test::make_wrong_device(cpu, [&](ir::Node& node) {
      if (node.target != fault.target) return;
      ir::Argument& argument = validation_test::argument_of(node, fault.argument);
      if (!fault.from || argument == *fault.from) argument = fault.to;
    });
    const auto outcome = optimize_model(fault.make(seed), make_options(Level::kConservative, seed), wrong, cpu);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_FALSE(outcome->report.passed());
    EXPECT_FALSE(outcome->artifact.has_value());
    ASSERT_TRUE(outcome->report.culprit.has_value());
    EXPECT_EQ(outcome->report.culprit->pass, fault.pass);
    EXPECT_THAT(outcome->report.culprit->suspects, Contains(fault.node)) << outcome->report.culprit->sentence();
  }
}

}  // namespace
}  // namespace kpt
