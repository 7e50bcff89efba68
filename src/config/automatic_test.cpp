#include "config/automatic.h"

#include <unistd.h>

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/thread_pool.h"
#include "config/user_folders.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Config load(std::vector<std::string> settings, const Environment& environment = Environment::from_map({})) {
  ConfigSources sources;
  sources.settings = std::move(settings);
  return load_config(sources, environment).value();
}

TEST(AutomaticTuning, ReplacesADefault) {
  const Environment environment = Environment::from_map({{"OMP_NUM_THREADS", "1"}});
  Config config;
  apply_automatic(config, SystemFiles(), environment);
  EXPECT_EQ(config.get(options::kThreadsCount), 1);
  EXPECT_EQ(config.origin(options::kThreadsCount).to_string(), "automatic");
}

TEST(AutomaticTuning, NeverReplacesWhatAUserSet) {
  const Environment environment = Environment::from_map({{"OMP_NUM_THREADS", "1"}});
  for (const std::int64_t chosen : {0, 7}) {
    Config config = load({"threads.count=" + std::to_string(chosen)});
    apply_automatic(config, SystemFiles(), environment);
    EXPECT_EQ(config.get(options::kThreadsCount), chosen);
    EXPECT_EQ(config.origin(options::kThreadsCount).to_string(), "flag --set threads.count");
  }
}

TEST(ThreadCount, ZeroMeansAsManyAsTheMachineAllows) {
  const Environment environment = Environment::from_map({});
  EXPECT_EQ(thread_count(load({"threads.count=0"}), SystemFiles(), environment),
            default_thread_count(SystemFiles(), environment));
  EXPECT_EQ(thread_count(load({"threads.count=5"}), SystemFiles(), environment), 5);
}

TEST(CacheFolder, FollowsOptionThenXdgThenHome) {
  const Environment both = Environment::from_map({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}});
  const Environment home = Environment::from_map({{"XDG_CACHE_HOME", "not/absolute"}, {"HOME", "/h"}});
  EXPECT_EQ(cache_folder(load({"cache.dir=/c"}), both), "/c");
  EXPECT_EQ(cache_folder(load({"cache.dir=~/c"}), both), "/h/c");
  EXPECT_EQ(cache_folder(Config(), both), "/x/kpt");
  EXPECT_EQ(cache_folder(Config(), home), "/h/.cache/kpt");
  EXPECT_EQ(cache_folder(Config(), Environment::from_map({})), "");
}

TEST(TorchFolder, ExpandsHome) {
  const Environment home = Environment::from_map({{"HOME", "/h"}});
  EXPECT_EQ(torch_folder(load({"torch.dir=~/torch"}), home), "/h/torch");
  EXPECT_EQ(torch_folder(Config(), home), "");
}

TEST(HomeExpansion, TouchesOnlyALeadingTilde) {
  const Environment home = Environment::from_map({{"HOME", "/h"}});
  EXPECT_EQ(expand_home("~", home), "/h");
  EXPECT_EQ(expand_home("~user/a", home), "~user/a");
  EXPECT_EQ(expand_home("a/~/b", home), "a/~/b");
  EXPECT_EQ(expand_home("~/a", Environment::from_map({})), "~/a");
}

TEST(LoggingSetup, FollowsLevelAndFormat) {
  std::string lines;
  const auto capture = log::capture(&lines);
  apply_logging(load({"log.level=info", "log.format=json"}));
  log::debug("too quiet");
  log::info("loud enough");
  EXPECT_THAT(lines, HasSubstr("\"message\":\"loud enough\""));
  EXPECT_THAT(lines, Not(HasSubstr("too quiet")));
  apply_logging(Config());
}

TEST(LoggingSetupDeathTest, ALibraryIsSilentUnlessItIsAsked) {
  // Started anew, so that no other test has configured the process.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto speak = [] {
    apply_library_logging(Config());
    log::error("hidden by default");
    apply_library_logging(load({}, Environment::from_map({{"KPT_LOG", "info"}})));
    log::info("shown by the level");
    apply_library_logging(load({}, Environment::from_map({{"KPT_PRESET", "inference"}})));
    log::warn("shown by the format");
    apply_logging(Config());
    apply_library_logging(load({}, Environment::from_map({{"KPT_LOG", "debug"}})));
    log::info("hidden by the program");
    ::_exit(0);
  };
  EXPECT_EXIT(speak(), ::testing::ExitedWithCode(0),
              AllOf(Not(HasSubstr("hidden")), HasSubstr("info  shown by the level"),
                    HasSubstr("\"message\":\"shown by the format\"")));
}

TEST(UnknownVariables, AreToldOnceWithTheNearestName) {
  const Environment environment =
      Environment::from_map({{"KPT_LOGG", "1"}, {"KPT_ZZZZZZZZ", "1"}, {"KPT_LOG", "warn"}});
  EXPECT_THAT(describe_unknown_variables(environment),
              ElementsAre("the environment variable KPT_LOGG is read by nobody; did you mean KPT_LOG?",
                          "the environment variable KPT_ZZZZZZZZ is read by nobody"));
  std::string lines;
  const auto capture = log::capture(&lines);
  apply_logging(Config());
  log_unknown_variables(environment);
  log_unknown_variables(environment);
  EXPECT_THAT(lines, AllOf(HasSubstr("warn  the environment variable KPT_LOGG"), HasSubstr("KPT_ZZZZZZZZ")));
  EXPECT_EQ(std::ranges::count(lines, '\n'), 2) << lines;
}

}  // namespace
}  // namespace kpt
