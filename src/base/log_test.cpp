#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace kpt::log {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class Log : public ::testing::Test {
 protected:
  void SetUp() override { configure(Level::kDebug, Format::kText); }
  void TearDown() override { configure(Level::kWarn, Format::kText); }

  // What the statements in `body` log.
  template <typename Body>
  static std::string captured(Body body) {
    std::string lines;
    const auto capturing = capture(&lines);
    body();
    return lines;
  }
};

TEST_F(Log, TextLineHasTimeLevelMessageAndFields) {
  const std::string line = captured([] { info("model loaded", {{"path", "/m.pt2"}, {"seconds", "0.31"}}); });
  EXPECT_THAT(line, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} info  model loaded "
                                 "path=/m.pt2 seconds=0.31\n"));
}

TEST_F(Log, JsonLineHasTheSameFactsAsFields) {
  configure(Level::kDebug, Format::kJson);
  const std::string line = captured([] { error("model \"x\" lost", {{"path", "/m.pt2"}, {"bytes", "12"}}); });
  const auto json = nlohmann::ordered_json::parse(line);
  EXPECT_THAT(json["time"].get<std::string>(),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"));
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["message"], "model \"x\" lost");
  EXPECT_EQ(json["path"], "/m.pt2");
  EXPECT_EQ(json["bytes"], "12");
  EXPECT_EQ(json.begin().key(), "time");
}

TEST_F(Log, ValuesThatCouldBeMisreadAreQuoted) {
  const std::string line = captured([] {
    warn("w", {{"a", "two words"}, {"b", ""}, {"c", "x=y"}, {"d", "say \"hi\""}, {"e", "tab\there"}, {"f", "grün"}});
  });
  EXPECT_THAT(line, EndsWith(R"(w a="two words" b="" c="x=y" d="say \"hi\"" e="tab\there" f=grün)"
                             "\n"));
}

TEST_F(Log, LineBreaksCannotForgeAnEvent) {
  const std::string forged = "x\n2026-01-01 00:00:00.000 error forged\r\nmore\u2028end";
  for (const Format format : {Format::kText, Format::kJson}) {
    configure(Level::kDebug, format);
    const std::string lines = captured([&] { info(forged, {{"field", forged}, {"key\nbroken", "1"}}); });
    EXPECT_EQ(std::ranges::count(lines, '\n'), 1) << lines;
    EXPECT_EQ(lines.back(), '\n');
    EXPECT_EQ(lines.find('\r'), std::string::npos);
  }
}

TEST_F(Log, EscapeSequencesDoNotReachTheTerminal) {
  const std::string line = captured([] { info("red \x1b[31mtext", {{"value", "\x1b[2J"}}); });
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_THAT(line, HasSubstr(R"(value="\u001b[2J")"));
}

TEST_F(Log, BytesThatAreNotUtf8AreReplaced) {
  for (const Format format : {Format::kText, Format::kJson}) {
    configure(Level::kDebug, format);
    const std::string line = captured([] { info("bad \xff byte", {{"value", "\xc3("}}); });
    EXPECT_EQ(printable(trim(line)), trim(line));
    EXPECT_THAT(line, AllOf(HasSubstr("bad \ufffd byte"), HasSubstr("\ufffd(")));
  }
}

TEST_F(Log, BracesInAMessageAreNotAFormat) {
  EXPECT_THAT(captured([] { info("{} {0} %s %v {", {{"k", "{}"}}); }), EndsWith("{} {0} %s %v { k={}\n"));
}

TEST_F(Log, FieldCannotReplaceTheLevel) {
  configure(Level::kDebug, Format::kJson);
  const auto json = nlohmann::json::parse(captured([] { warn("m", {{"level", "debug"}, {"message", "other"}}); }));
  EXPECT_EQ(json["level"], "warn");
  EXPECT_EQ(json["message"], "m");
  EXPECT_EQ(json["level_"], "debug");
  EXPECT_EQ(json["message_"], "other");
}

TEST_F(Log, LevelsBelowTheConfiguredOneAreDropped) {
  const auto all = [] {
    debug("a-debug");
    info("a-info");
    warn("a-warn");
    error("a-error");
  };
  const std::vector<std::string> names = {"a-debug", "a-info", "a-warn", "a-error"};
  const std::vector<Level> levels = {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError, Level::kOff};
  for (std::size_t shown_from = 0; shown_from < levels.size(); ++shown_from) {
    configure(levels[shown_from], Format::kText);
    const std::string lines = captured(all);
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(lines.find(names[i]) != std::string::npos, i >= shown_from) << names[i] << " at level " << shown_from;
    }
  }
}

TEST_F(Log, OffIsNoLevelToWriteAt) {
  configure(Level::kOff, Format::kText);
  EXPECT_EQ(captured([] { write(Level::kOff, "never"); }), "");
}

TEST_F(Log, CaptureShowsLinesAtOnceAndEndsWithTheObject) {
  std::string outer;
  std::string inner;
  auto capturing_outer = capture(&outer);
  warn("first");
  EXPECT_THAT(outer, HasSubstr("first"));
  auto capturing_inner = capture(&inner);
  warn("second");
  capturing_inner.reset();
  warn("third");
  capturing_outer.reset();
  EXPECT_THAT(outer, AllOf(HasSubstr("third"), Not(HasSubstr("second"))));
  EXPECT_THAT(inner, HasSubstr("second"));
}

TEST_F(Log, CaptureTakesBackWhatWasConfiguredMeanwhile) {
  configure(Level::kWarn, Format::kText);
  {
    std::string lines;
    const auto capturing = capture(&lines);
    configure(Level::kDebug, Format::kJson);
  }
  EXPECT_EQ(captured([] { info("hidden"); }), "");
  EXPECT_THAT(captured([] { warn("shown"); }), Not(HasSubstr("{")));
}

TEST_F(Log, ManyThreadsWriteWholeLines) {
  constexpr int kThreads = 8;
  constexpr int kLines = 200;
  const std::string lines = captured([] {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) info("line", {{"thread", std::to_string(t)}, {"number", std::to_string(i)}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  std::vector<int> next(kThreads, 0);
  int count = 0;
  for (const std::string_view line : split(trim(lines), '\n')) {
    const auto thread = line.find(" thread=");
    const auto number = line.find(" number=");
    ASSERT_NE(thread, std::string_view::npos) << line;
    ASSERT_NE(number, std::string_view::npos) << line;
    const auto t = parse_uint(line.substr(thread + 8, number - thread - 8));
    ASSERT_TRUE(t && *t < kThreads) << line;
    ASSERT_EQ(parse_int(line.substr(number + 8)), next[*t]++) << line;
    ++count;
  }
  EXPECT_EQ(count, kThreads * kLines);
}

TEST_F(Log, CaptureMayEndWhileOthersLog) {
  std::string outer;
  const auto quiet = capture(&outer);  // keeps what the threads write between the captures off the terminal
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) warn("busy");
    });
  }
  for (int i = 0; i < 300; ++i) {
    auto inner = std::make_unique<std::string>();
    auto capturing = capture(inner.get());
    configure(Level::kDebug, i % 2 == 0 ? Format::kText : Format::kJson);
    capturing.reset();
    inner.reset();  // a late writer would now touch freed memory, which ASan and TSan see
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST(LogDeathTest, TheLibrarySetsTheLevelUntilTheProgramDoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto speak = [] {
    configure_library(Level::kOff, Format::kText);
    warn("first-hidden");
    configure_library(Level::kInfo, Format::kText);
    info("second-shown");
    configure(Level::kError, Format::kText);
    configure_library(Level::kDebug, Format::kJson);
    warn("third-hidden");
    error("fourth-shown");
    ::_exit(0);
  };
  EXPECT_EXIT(speak(), ::testing::ExitedWithCode(0),
              AllOf(Not(HasSubstr("hidden")), HasSubstr("info  second-shown\n"), HasSubstr("error fourth-shown\n")));
}

TEST(LogDeathTest, UnconfiguredProcessShowsWarningsAsTextOnStandardError) {
  // The style "threadsafe" starts the program anew, so that no other test has configured it.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto speak = [] {
    info("quiet-message");
    warn("loud-message", {{"why", "test"}});
    ::_exit(0);
  };
  EXPECT_EXIT(speak(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("warn  loud-message why=test\n"), Not(HasSubstr("quiet-message"))));
}

}  // namespace
}  // namespace kpt::log
