#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "config/options.h"
#include "support/tree_paths.h"

namespace kpt::cli {
namespace {

using ::testing::HasSubstr;

struct Line {
  std::ostringstream out;
  std::ostringstream err;
  CommandContext context;
  explicit Line(std::map<std::string, std::string, std::less<>> variables = {{"HOME", "/nonexistent"}},
                bool terminal = false)
      : context(Environment::from_map(std::move(variables)), out, err, terminal) {}
};

TEST(CommandContext, ColourFollowsTheOptionThenNoColorThenTheTerminal) {
  const Config config;
  EXPECT_TRUE(Line({}, true).context.use_color(config));
  EXPECT_FALSE(Line({}, false).context.use_color(config));
  EXPECT_FALSE(Line({{"NO_COLOR", "1"}}, true).context.use_color(config));
  Line line({{"KPT_COLOR", "always"}, {"NO_COLOR", "1"}}, false);
  const Result<Config> loaded = line.context.load_config();
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(line.context.use_color(*loaded));
}

TEST(CommandContext, ProgressChangesItsLineOnlyWhereItIsSeen) {
  const auto progress_of = [](bool out_is_terminal, bool err_is_terminal) {
    std::ostringstream out;
    std::ostringstream err;
    const std::string model = source_dir() + "/tests/golden/pt2/2.15.0/linear_state.pt2";
    CommandContext context(Environment::from_map({{"HOME", "/nonexistent"}}), out, err, out_is_terminal,
                           err_is_terminal);
    run_command_line({"inspect", model, "--check"}, context);
    EXPECT_THAT(out.str(), ::testing::Not(HasSubstr("\r")));
    EXPECT_THAT(err.str(), HasSubstr("comparing checksums"));
    return err.str();
  };
  EXPECT_THAT(progress_of(true, false), ::testing::Not(HasSubstr("\r"))) << "2>file in a terminal";
  EXPECT_THAT(progress_of(false, true), HasSubstr("\r")) << "| less in a terminal";
}

TEST(CommandContext, FailureIsOneSentenceOrOneObject) {
  Line line;
  line.context.fail(Status(StatusCode::kOutOfMemory, "no room", Vendor::kNvidia).with("requested_bytes", "4096"));
  EXPECT_EQ(line.context.exit_code(), kExitFailed);
  EXPECT_EQ(line.err.str(), "kpt: no room (requested_bytes=4096)\n");

  Line json;
  json.context.flags().json = true;
  json.context.fail(Status(StatusCode::kOutOfMemory, "no room", Vendor::kNvidia).with("requested_bytes", "4096"));
  const auto object = nlohmann::json::parse(json.out.str());
  EXPECT_EQ(object["error"]["code"], "out_of_memory");
  EXPECT_EQ(object["error"]["vendor"], "nvidia");
  EXPECT_EQ(object["error"]["details"]["requested_bytes"], "4096");
}

TEST(RunCommandLine, AutomaticThreadsNeverReplaceTheUsersChoice) {
  Line chosen({{"HOME", "/nonexistent"}, {"KPT_THREADS", "3"}});
  const Result<Config> config = chosen.context.load_config();
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->get(options::kThreadsCount), 3);
  Line left_alone;
  const Result<Config> automatic = left_alone.context.load_config();
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->origin(options::kThreadsCount).kind, Origin::Kind::kAutomatic);
  EXPECT_GE(automatic->get(options::kThreadsCount), 1);
}

TEST(RunCommandLine, WhatHasNoPlaceIsOneSentenceWithTheNearestName) {
  const auto told = [](const std::vector<std::string>& arguments) {
    Line line;
    EXPECT_EQ(run_command_line(arguments, line.context), kExitUsage);
    EXPECT_TRUE(line.out.str().empty());
    return line.err.str();
  };
  EXPECT_EQ(told({"optimise", "model.pt2"}),
            "kpt: 'optimise' is no command of kpt; did you mean optimize? (kpt --help tells what there is)\n");
  EXPECT_EQ(told({"run", "--devise", "cpu", "model.pt2"}),
            "kpt: --devise is no flag of kpt run; did you mean --device? (kpt run --help tells what there is)\n");
  EXPECT_THAT(told({"run", "model.pt2", "--jsn"}), HasSubstr("did you mean --json?"));
  EXPECT_THAT(told({"inspect", "a.pt2", "b.pt2"}), HasSubstr("'b.pt2' is one argument too many for kpt inspect"));
  EXPECT_THAT(told({"cache", "lst"}), HasSubstr("'lst' is no command of kpt cache; did you mean ls"));
  EXPECT_THAT(told({"nothing like it"}), ::testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(told({"run"}), HasSubstr("MODEL is required (kpt run --help"));
  EXPECT_THAT(told({"optimize", "m.pt2", "--level", "fast"}), HasSubstr("'fast' is no level"));
  EXPECT_THAT(told({"optimize", "m.pt2", "--draws", "-3"}), HasSubstr("'-3' is no whole number from 1 on"));
  EXPECT_THAT(told({"run", "m.pt2", "--seed", "-1"}), HasSubstr("'-1' is no whole number from 0 on"));
  EXPECT_THAT(told({"run", "m.pt2", "--repeat", "x"}), HasSubstr("'x' is no whole number from 1 on"));
  EXPECT_THAT(told({"validate", "m.pt2", "--production", "--max-memory-mb", "nan"}), HasSubstr("'nan' is no number"));
  EXPECT_THAT(told({}), HasSubstr("kpt: "));
}

TEST(RunCommandLine, AUsageErrorIsAnObjectForPrograms) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "--json"}, {"optimise", "--json"}, {"--json", "--no-such-flag", "doctor"}}) {
    Line line;
    EXPECT_EQ(run_command_line(arguments, line.context), kExitUsage);
    EXPECT_EQ(nlohmann::json::parse(line.out.str())["error"]["code"], "invalid_argument") << line.out.str();
    EXPECT_TRUE(line.err.str().empty());
  }
}

TEST(RunCommandLine, BothOutputsCanBeAsked) {
  Line line;
  EXPECT_EQ(run_command_line({"doctor", "--category", "serving"}, line.context), kExitOk);
  EXPECT_THAT(line.out.str(), HasSubstr("open files"));
}

}  // namespace
}  // namespace kpt::cli
