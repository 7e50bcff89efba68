#include "doctor/doctor.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/options.h"
#include "doctor/sections.h"

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
  EXPECT_EQ(json.at("summary").at("absent"), 0);
  EXPECT_EQ(json.at("healthy"), false);
  EXPECT_EQ(json.at("diagnostics").size(), 4U);
}

TEST(Doctor, WhatIsNotHereIsCountedByItself) {
  Report report = report_of({State::kPass, State::kPass, State::kPass, State::kFail});
  report.checks[1].present = false;
  report.checks[3].present = false;  // broken, which is more than absent
  EXPECT_EQ(report.absent(), 1);
  const nlohmann::ordered_json json = to_json(report, false);
  EXPECT_EQ(json.at("summary").at("pass"), 3);
  EXPECT_EQ(json.at("summary").at("absent"), 1);
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

// A module that was compiled where no nvcc was runs models through libtorch alone.
TEST(Doctor, ACudaModuleWithoutKernelsOfOursIsAWarning) {
  TorchReport report;
  report.finding.presence = Presence::kPresent;
  report.cuda.presence = Presence::kPresent;
  report.cuda_devices.emplace_back().name = "NVIDIA H200";
  for (const bool has_kernels : {false, true}) {
    report.cuda_own_kernels = has_kernels;
    const Check line = describe_libtorch(report).back();
    EXPECT_EQ(line.name, "cuda");
    EXPECT_EQ(line.state, has_kernels ? State::kPass : State::kWarn);
    EXPECT_EQ(line.message, has_kernels ? "sees 1 device"
                                        : "sees 1 device, but this build has no GPU kernels of ours: no nvcc was there "
                                          "when it was made");
    EXPECT_EQ(line.recommendation.empty(), has_kernels);
  }
  report.cuda_devices.clear();  // nothing runs there anyway
  report.cuda_own_kernels = false;
  EXPECT_EQ(describe_libtorch(report).back().state, State::kPass);
}

// The command names the Python environment that the note is about.
TEST(Doctor, ANoteAboutLibtorchSaysWhereToInstallItAnew) {
  TorchReport report;
  report.finding.presence = Presence::kPresent;
  report.torch_dir = "/no/such/lib/python3.11/site-packages/torch";
  report.library_version = "2.15.0";
  report.notes = {"something could not be read"};
  EXPECT_EQ(describe_libtorch(report).back().recommendation,
            "python3.11 -m pip install --upgrade --target /no/such/lib/python3.11/site-packages --force-reinstall "
            "torch==2.15.0");
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
