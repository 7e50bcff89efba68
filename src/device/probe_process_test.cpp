#include "device/probe_process.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/text.h"
#include "device/hardware_json.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A folder with a shell script in the place of kpt-probe.
class ProbeProcess : public ::testing::Test {
 protected:
  Result<std::string> probe(const std::string& script, const std::vector<std::string>& arguments = {"nvidia"},
                            std::chrono::milliseconds limit = 20s) {
    const auto file = folder_.path() / "kpt-probe";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return run_probe({Environment::from_map({{"KPT_HELPER_DIR", folder_.path().string()}}), limit}, arguments);
  }
  std::string folder() const { return folder_.path().string(); }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(ProbeProcess, AnswerIsWhatTheHelperPrinted) {
  const auto answer = probe("echo \"{\\\"arguments\\\": \\\"$*\\\"}\"; echo chatter >&2", {"pjrt", "/a b/plugin.so"});
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(*answer, "{\"arguments\": \"pjrt /a b/plugin.so\"}\n");
}

TEST_F(ProbeProcess, CrashIsAFailureOfTheVendorLibrary) {
  const auto answer = probe("echo half an answer; echo 'HSA: aborting' >&2; kill -ABRT $$");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), StatusCode::kVendorLibrary);
  EXPECT_EQ(answer.status().message(), "the probe for nvidia failed: killed by signal 6 (Aborted): HSA: aborting");
}

TEST_F(ProbeProcess, SilentSegmentationFaultIsDescribed) {
  const auto answer = probe("kill -SEGV $$", {"amd"});
  EXPECT_EQ(answer.status().code(), StatusCode::kVendorLibrary);
  EXPECT_EQ(answer.status().message(), "the probe for amd failed: killed by signal 11 (Segmentation fault)");
}

TEST_F(ProbeProcess, NonZeroExitBringsTheLastLineOfComplaint) {
  const auto answer = probe("echo first >&2; echo 'no device' >&2; echo >&2; exit 3");
  EXPECT_EQ(answer.status().code(), StatusCode::kVendorLibrary);
  EXPECT_THAT(answer.status().message(), EndsWith("exit code 3: no device"));
}

TEST_F(ProbeProcess, ComplaintIsMadeHarmless) {
  const auto answer = probe("printf '\\033[31mred\\377' >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1");
  const std::string message = answer.status().message();
  EXPECT_LT(message.size(), 600u);
  EXPECT_EQ(printable(message), message);
  EXPECT_THAT(message, HasSubstr("[31mred"));
}

TEST_F(ProbeProcess, HangIsKilledAtTheLimit) {
  const auto start = std::chrono::steady_clock::now();
  const auto answer = probe("sleep 60", {"tpu"}, 300ms);
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(answer.status().message(), "the probe for tpu was killed: no answer within 0.3 s");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST_F(ProbeProcess, HangInAProcessThatTheLibraryStartedIsKilledToo) {
  EXPECT_EQ(probe("sh -c 'sleep 60; true'; true", {"tpu"}, 300ms).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(ProbeProcess, MissingHelperIsNotFound) {
  const auto answer = run_probe({Environment::from_map({{"KPT_HELPER_DIR", folder()}}), 1s}, {"nvidia"});
  EXPECT_EQ(answer.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(answer.status().message(), HasSubstr(folder() + "/kpt-probe"));
}

TEST_F(ProbeProcess, HelperThatCannotBeExecutedSaysSo) {
  std::ofstream(folder() + "/kpt-probe") << "no program";
  const auto answer = run_probe({Environment::from_map({{"KPT_HELPER_DIR", folder()}}), 1s}, {"nvidia"});
  EXPECT_EQ(answer.status().code(), StatusCode::kPermissionDenied);
}

TEST_F(ProbeProcess, GarbageIsFoundWhenTheAnswerIsRead) {
  const auto answer = probe("echo warning: this library talks on standard output; echo '{}'");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(parse_report<NvidiaReport>(*answer, "the probe for nvidia").status().code(), StatusCode::kCorruptData);
}

TEST(ExplainProbeFailure, RemedyFitsTheKindOfFailure) {
  const auto explain = [](StatusCode code) { return explain_probe_failure(Status(code, "why"), "reinstall ROCm"); };
  for (const StatusCode code : {StatusCode::kNotFound, StatusCode::kDeadlineExceeded, StatusCode::kVendorLibrary}) {
    EXPECT_EQ(explain(code).presence, Presence::kBroken);
    EXPECT_EQ(explain(code).reason, "why");
  }
  EXPECT_THAT(explain(StatusCode::kNotFound).remedy, HasSubstr("KPT_HELPER_DIR"));
  EXPECT_THAT(explain(StatusCode::kNotFound).remedy, Not(HasSubstr("ROCm")));
  EXPECT_THAT(explain(StatusCode::kDeadlineExceeded).remedy, HasSubstr("KPT_PROBE_TIMEOUT_MS"));
  EXPECT_EQ(explain(StatusCode::kVendorLibrary).remedy, "reinstall ROCm");
}

TEST_F(ProbeProcess, WholeReportComesThrough) {
  const auto answer = probe(R"(echo '{"finding": {"presence": "present"}, "driver_version": "580.1", "gpus": [{}]}')");
  ASSERT_TRUE(answer.ok());
  const auto report = parse_report<NvidiaReport>(*answer, "the probe for nvidia");
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->finding.presence, Presence::kPresent);
  EXPECT_EQ(report->gpus.size(), 1u);
}

TEST_F(ProbeProcess, DebugLogHoldsTheWholeComplaint) {
  std::string lines;
  {
    const auto capturing = log::capture(&lines);
    log::configure(log::Level::kDebug, log::Format::kText);
    EXPECT_FALSE(probe("echo line one >&2; echo line two >&2; exit 1").ok());
  }
  EXPECT_THAT(lines, HasSubstr("line one\\nline two"));
  lines.clear();
  {
    const auto capturing = log::capture(&lines);
    EXPECT_TRUE(probe("echo '{}'; echo chatter >&2").ok());
  }
  EXPECT_THAT(lines, Not(HasSubstr("chatter")));
}

}  // namespace
}  // namespace kpt
