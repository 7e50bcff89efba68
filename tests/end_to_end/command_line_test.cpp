#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CommandLine, VersionNamesVersionCommitCompilerAndLibtorch) {
  const ProgramRun run = run_kpt({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* word : {"kpt 0.", "commit ", "compiler ", "libtorch "}) EXPECT_THAT(run.out, HasSubstr(word));
}

TEST(CommandLine, VersionListensToTheGlobalFlags) {
  const nlohmann::ordered_json json = run_kpt({"--version", "--json"}).json();
  for (const char* key : {"version", "commit", "compiler", "libtorch"}) EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(run_kpt({"--json", "--version"}).json(), json);
  const ProgramRun elsewhere = run_kpt({"--version", "--json", "--set", "torch.dir=/no/such/torch"});
  EXPECT_EQ(elsewhere.json().at("libtorch").at("here"), "");
  const ProgramRun wrong = run_kpt({"--version", "--set", "nonsense=1"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("nonsense"));
  // What nobody asked for here does not keep the version from being told.
  const ProgramRun broken = run_kpt({"--version"}, {"KPT_CONFIG=/no/such/file.yaml"});
  EXPECT_EQ(broken.exit_code, 0) << broken.err;
  EXPECT_THAT(broken.out, HasSubstr("kpt 0."));
}

TEST(CommandLine, FlagsWithoutAMeaningAreUsageErrors) {
  const std::string file = source_dir() + "/tests/data/hardware/cpu/neoverse_v1.json";
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"config", "docs", "--set", "nonsense=1"},
                                                    {"config", "docs", "--preset", "training"},
                                                    {"config", "docs", "--config", file},
                                                    {"config", "check", file, "--set", "log.level=info"},
                                                    {"config", "check", file, "--config", file},
                                                    {"config", "show", "--json", "--format", "yaml"},
                                                    {"config", "show", "--json", "--format", "table"}}) {
    const ProgramRun run = run_kpt(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_FALSE((run.out + run.err).empty());
  }
}

TEST(CommandLine, ConfigDocsAsJsonListsTheOptions) {
  const ProgramRun run = run_kpt({"config", "docs", "--json"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.json().at("options").at(0).at("name"), "log.level");
  EXPECT_THAT(run_kpt({"config", "docs"}).out, HasSubstr("# Options"));
}

TEST(CommandLine, TheWrittenConfigurationGivesTheSameValuesAndLeavesAutomaticOnesOpen) {
  const TemporaryFolder folder;
  const std::vector<std::string> settings = {"--set", "log.level=error", "--set", "probe.backends=torch"};
  const auto with = [&settings](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return arguments;
  };
  const nlohmann::ordered_json values = run_kpt(with({"config", "show", "--json"})).json().at("values");
  for (const char* format : {"yaml", "json"}) {
    const std::string file = (folder.path() / "config.").string() + format;
    std::ofstream(file) << run_kpt(with({"config", "show", "--format", format})).out;
    const nlohmann::ordered_json loaded = run_kpt({"config", "show", "--json", "--config", file}).json();
    EXPECT_EQ(loaded.at("values"), values);
    EXPECT_EQ(loaded.at("origins").at("threads.count"), "automatic");
    EXPECT_THAT(loaded.at("origins").at("log.level"), HasSubstr("file "));
  }
}

TEST(CommandLine, AVariableThatNobodyReadsIsToldWithTheNearestName) {
  const std::vector<std::string> variables = {"KPT_LOGG=1", "KPT_LOG="};
  const ProgramRun shown = run_kpt({"config", "show"}, variables);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.err, HasSubstr("KPT_LOGG is read by nobody; did you mean KPT_LOG?"));
  const ProgramRun doctor = run_kpt({"doctor", "--json", "--category", "system"}, variables);
  const nlohmann::ordered_json line = find_line(doctor.json(), "system", "environment");
  ASSERT_FALSE(line.is_null()) << doctor.out;
  EXPECT_EQ(line.at("status"), "warn");
  EXPECT_THAT(line.at("message"), HasSubstr("did you mean KPT_LOG?"));
  EXPECT_EQ(line.at("recommendation"), "unset KPT_LOGG");
  EXPECT_TRUE(
      find_line(run_kpt({"doctor", "--json", "--category", "system"}).json(), "system", "environment").is_null());
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
    EXPECT_EQ(std::ranges::count(run.err, '\n'), 1) << "one sentence: " << run.err;
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
  const ProgramRun run = run_program({"/bin/sh", "-c", build_dir() + "/bin/kpt config docs >/dev/full"});
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
