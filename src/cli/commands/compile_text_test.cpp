#include "cli/commands/compile_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/artifact_loading.h"
#include "optimize/optimize_json.h"

namespace kpt::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LevelOutcome make_level(bool passed) {
  LevelOutcome outcome;
  outcome.level = Level::kBalanced;
  outcome.passes = {{"assign_bf16", 3, {}, 0.5, ""}};
  outcome.report.emplace();
  outcome.report->device = "cpu";
  OutputVerdict verdict;
  verdict.output = "logits";
  verdict.passed = passed;
  verdict.reason = passed ? "" : "too far off";
  outcome.report->gate.outputs = {verdict};
  return outcome;
}

TEST(CompileText, ARefusalHasNoProgramAndIsShown) {
  CompileOutcome outcome;
  outcome.targets.emplace_back();
  outcome.targets.back().name = "tpu:v5e:2x2";
  EXPECT_FALSE(outcome.refused());
  outcome.targets.back().level = make_level(true);
  EXPECT_FALSE(outcome.refused());
  outcome.targets.back().level = make_level(false);
  EXPECT_TRUE(outcome.refused());
  EXPECT_THAT(render(outcome, false),
              AllOf(HasSubstr("the accuracy gate refused"), HasSubstr("logits"), Not(HasSubstr("compiled in"))));
  const auto json = to_json(outcome);
  EXPECT_EQ(json.at("written"), nullptr);
  EXPECT_EQ(json.at("targets").at(0).at("target"), "tpu:v5e:2x2");
  EXPECT_EQ(json.at("targets").at(0).at("level").at("report").at("passed"), false);
  EXPECT_EQ(json.at("targets").at(0).at("compile_seconds"), nullptr);
}

TEST(CompileText, TheStoredReportIsReadByThoseWhoShowOne) {
  CompiledTarget compiled;
  compiled.name = "xla:cpu";
  EXPECT_EQ(find_optimize_report(make_report(compiled, {{"s0", 4}}).dump()).value(), std::nullopt);
  compiled.level = make_level(true);
  const auto report = make_report(compiled, {{"s0", 4}});
  EXPECT_EQ(report.at("sizes").at("s0"), 4);
  const auto found = find_optimize_report(report.dump());
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->device, "cpu");
  compiled.level->report.reset();
  compiled.level->not_judged = "the CPU cannot run it";
  const auto unjudged = make_report(compiled, {});
  EXPECT_EQ(unjudged.at("not_judged").at("not_judged"), "the CPU cannot run it");
  EXPECT_EQ(find_optimize_report(unjudged.dump()).value(), std::nullopt);
  EXPECT_EQ(find_stored_level(unjudged.dump()), Level::kBalanced) << "nobody judged it, but it is no plain model";
  compiled.level.reset();
  EXPECT_EQ(find_stored_level(make_report(compiled, {}).dump()), Level::kConservative);
}

TEST(CompileText, RepeatedCompilationsHaveThePredecessorsNames) {
  CompileOutcome outcome;
  outcome.targets.emplace_back();
  EXPECT_EQ(to_json(outcome).at("targets").at(0).at("benchmark"), nullptr);
  outcome.targets.back().repeated = {2.5, 1.0, 4.0, 0.5};
  const auto json = to_json(outcome);
  const auto& times = json.at("targets").at(0).at("benchmark");
  EXPECT_EQ(times.at("min_time"), 0.5);
  EXPECT_EQ(times.at("max_time"), 4.0);
  EXPECT_EQ(times.at("avg_time"), 2.0);
  EXPECT_EQ(times.at("total_time"), 8.0);
  EXPECT_EQ(times.at("runs"), 4);
}

TEST(CompileText, ARunCostsTheDevicesShareOfItsChip) {
  CompiledTarget compiled;
  EXPECT_EQ(compiled.dollars_million_runs(), std::nullopt);
  compiled.dollars_hour = 7.2;
  EXPECT_EQ(compiled.dollars_million_runs(), std::nullopt) << "no time";
  compiled.our_seconds = 1e-3;
  EXPECT_DOUBLE_EQ(compiled.dollars_million_runs().value(), 2);
  compiled.figures.compiler_seconds = 2e-3;
  EXPECT_DOUBLE_EQ(compiled.dollars_million_runs().value(), 4) << "the compiler's time comes first";
  compiled.rates.emplace().devices_per_chip = 2;
  EXPECT_DOUBLE_EQ(compiled.dollars_million_runs().value(), 2);
}

TEST(CompileText, WhatALevelMadeForAnotherGpuIsNotTaken) {
  CompiledTarget compiled;
  compiled.name = "amd:gfx942";
  Artifact artifact;
  ArtifactTarget& part = artifact.targets.emplace_back();
  part.name = compiled.name;
  part.program = "code";
  part.report = make_report(compiled, {}).dump();
  EXPECT_EQ(find_part(artifact, "amd:gfx90a"), &part) << "the model's own graph";
  compiled.level = make_level(true);
  part.report = make_report(compiled, {}).dump();
  EXPECT_EQ(find_part(artifact, "amd:gfx90a"), nullptr);
  EXPECT_EQ(find_part(artifact, "amd:gfx942"), &part);
  part.name = "tpu:v7:2x2x1";  // in FP8, say
  EXPECT_EQ(find_part(artifact, "tpu:v5e:2x2"), nullptr);
  EXPECT_EQ(find_part(artifact, "tpu"), nullptr) << "of unknown generation";
  EXPECT_EQ(find_part(artifact, "tpu:v7:2x2x2"), &part) << "a greater slice";
  part.name = compiled.name;
  compiled.level->report.reset();
  part.report = make_report(compiled, {}).dump();
  EXPECT_EQ(find_part(artifact, "amd:gfx90a"), nullptr);
  compiled.level.reset();
  part.name = "xla:cuda";
  part.report = make_report(compiled, {}).dump();
  EXPECT_EQ(find_part(artifact, "xla:cpu"), nullptr) << "another plugin's";
}

TEST(CompileText, APartForTheSameChipIsTakenBeforeOneThatServesAll) {
  CompiledTarget compiled;
  Artifact artifact;
  artifact.targets.resize(2);
  for (ArtifactTarget& part : artifact.targets) part.program = "code";
  artifact.targets[0].name = "tpu:v6e:2x2";
  artifact.targets[0].report = make_report(compiled, {}).dump();  // as exported
  compiled.level = make_level(true);
  artifact.targets[1].name = "tpu:v5e:2x2";
  artifact.targets[1].report = make_report(compiled, {}).dump();
  EXPECT_EQ(find_part(artifact, "tpu:v5e:4x4"), &artifact.targets[1]);
  EXPECT_EQ(find_part(artifact, "tpu:v4:2x2x1"), &artifact.targets[0]);
  EXPECT_EQ(find_part(artifact, "tpu:v6e:4x4"), &artifact.targets[0]);
}

}  // namespace
}  // namespace kpt::cli
