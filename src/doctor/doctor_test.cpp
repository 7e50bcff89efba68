#include "doctor/doctor.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/options.h"

namespace kpt::doctor {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::Not;

Report report_of(std::initializer_list<State> states) {
  Report report;
  for (const State state : states) report.checks.push_back(Check{.category = "system", .name = "x", .state = state});
  return report;
}

TEST(Doctor, OnlyFailuresMakeAMachineUnhealthyUnlessStrict) {
  EXPECT_TRUE(is_healthy(report_of({State::kPass, State::kWarn}), false));
  EXPECT_FALSE(is_healthy(report_of({State::kPass, State::kWarn}), true));
  EXPECT_FALSE(is_healthy(report_of({State::kPass, State::kFail}), false));
  EXPECT_TRUE(is_healthy(report_of({}), true));
}

TEST(Doctor, JsonCountsWhatItLists) {
  const nlohmann::ordered_json json =
      to_json(report_of({State::kPass, State::kWarn, State::kWarn, State::kFail}), false);
  EXPECT_EQ(json.at("summary").at("pass"), 1);
  EXPECT_EQ(json.at("summary").at("warn"), 2);
  EXPECT_EQ(json.at("summary").at("fail"), 1);
  EXPECT_EQ(json.at("healthy"), false);
  EXPECT_EQ(json.at("diagnostics").size(), 4U);
}

TEST(Doctor, OnlyTheCategoriesAskedForAreRun) {
  const Config config;
  const Environment environment = Environment::from_map({{"HOME", "/tmp"}});
  const Report report = run({config, environment, SystemFiles(), {"serving", "system"}});
  ASSERT_FALSE(report.checks.empty());
  EXPECT_THAT(report.checks, Contains(Field(&Check::category, "serving")));
  EXPECT_THAT(report.checks, Not(Contains(Field(&Check::category, "nvidia"))));
  // In the order of the report, not of the request.
  EXPECT_EQ(report.checks.front().category, "system");
}

TEST(Doctor, WithoutAHomeTheCacheFails) {
  const Config config;
  const Environment environment = Environment::from_map({});
  const Report report = run({config, environment, SystemFiles(), {"cache"}});
  ASSERT_EQ(report.checks.size(), 1U);
  EXPECT_EQ(report.checks[0].state, State::kFail);
  EXPECT_FALSE(report.checks[0].recommendation.empty());
}

// Where this machine has none in a place that is always looked at.
TEST(Doctor, CompilersThatAreMissingNameTheirRemedy) {
  const Config config;
  const Environment environment = Environment::from_map({{"HOME", "/tmp"}, {"PATH", "/nowhere"}});
  const Report report = run({config, environment, SystemFiles(), {"toolchains"}});
  ASSERT_EQ(report.checks.size(), 2U);
  for (const Check& check : report.checks) EXPECT_TRUE(check.present || !check.recommendation.empty()) << check.name;
}

TEST(Doctor, UnreadableSystemFilesAreSaidAndDoNotBreakTheReport) {
  const Config config;
  const Environment environment = Environment::from_map({{"HOME", "/tmp"}});
  const Report report = run({config, environment, SystemFiles("/no/such/root"), {"system", "cpu", "serving"}});
  EXPECT_GT(report.count(State::kWarn), 0);
  EXPECT_EQ(report.count(State::kFail), 0);
}

}  // namespace
}  // namespace kpt::doctor
