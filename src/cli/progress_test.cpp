#include "cli/progress.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::cli {
namespace {

TEST(Progress, PlainLinesOncePerStepWithoutATerminal) {
  std::ostringstream out;
  Progress progress(out, false, true);
  progress.tell("first", 0);
  progress.tell("first", 0.5);
  progress.tell("second", 1);
  progress.finish();
  EXPECT_EQ(out.str(), "first\nsecond\n");
}

TEST(Progress, OneLineThatGoesAwayOnATerminal) {
  std::ostringstream out;
  Progress progress(out, true, true);
  progress.tell("work", 0.5);
  EXPECT_THAT(out.str(), testing::HasSubstr("[############............] work"));
  progress.finish();
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
}

TEST(Progress, SilentWhenSwitchedOff) {
  std::ostringstream out;
  Progress progress(out, true, false);
  progress.tell("work", 0.5);
  progress.finish();
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace kpt::cli
