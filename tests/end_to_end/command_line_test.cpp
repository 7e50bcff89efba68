#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CommandLine, VersionNamesVersionCommitCompilerAndLibtorch) {
  const ProgramRun run = run_kpt({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* word : {"kpt 0.", "commit ", "compiler ", "libtorch "}) EXPECT_THAT(run.out, HasSubstr(word));
}

TEST(CommandLine, HelpListsTheCommandsWithAnExample) {
  const ProgramRun run = run_kpt({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* word : {"doctor", "config", "--json", "--preset", "Example:"}) EXPECT_THAT(run.out, HasSubstr(word));
  EXPECT_THAT(run_kpt({"doctor", "--help"}).out, HasSubstr("Example:"));
}

TEST(CommandLine, UsageErrorsExitWithTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"no-such-verb"}, {"doctor", "--no-such-flag"}, {"doctor", "--category", "gpu"}}) {
    const ProgramRun run = run_kpt(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_FALSE(run.err.empty());
  }
}

TEST(CommandLine, GlobalFlagsMayFollowTheVerb) {
  EXPECT_EQ(run_kpt({"doctor", "--category", "system", "--json"}).json().at("schema_version"), 1);
  EXPECT_EQ(run_kpt({"--json", "doctor", "--category", "system"}).json().at("schema_version"), 1);
}

TEST(CommandLine, ConfigShowSaysWhereEachValueCameFrom) {
  const nlohmann::ordered_json shown =
      run_kpt({"config", "show", "--json", "--set", "log.level=info"}, {"KPT_STRICT=true"}).json();
  EXPECT_EQ(shown.at("values").at("log").at("level"), "info");
  EXPECT_THAT(shown.at("origins").at("log.level"), HasSubstr("--set"));
  EXPECT_THAT(shown.at("origins").at("strict"), HasSubstr("KPT_STRICT"));
  EXPECT_EQ(shown.at("origins").at("cache.dir"), "default");
}

TEST(CommandLine, LostOutputIsAFailure) {
  const ProgramRun run = run_program({"/bin/sh", "-c", KPT_BUILD_DIR "/bin/kpt config docs >/dev/full"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("could not be written"));
}

TEST(CommandLine, AWrongOptionIsOneSentenceWithTheNearestName) {
  const ProgramRun run = run_kpt({"doctor", "--set", "log.levle=debug"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("log.levle"));
  EXPECT_THAT(run.err, HasSubstr("log.level"));
  const ProgramRun as_json = run_kpt({"doctor", "--json", "--set", "log.levle=debug"});
  EXPECT_EQ(as_json.exit_code, 1);
  EXPECT_EQ(as_json.json().at("error").at("code"), "configuration");
}

}  // namespace
}  // namespace kpt::testing
