#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace kpt::cli {
namespace {

TEST(Terminal, PaintAddsNothingWhenColourIsOff) {
  EXPECT_EQ(paint("text", Color::kRed, false), "text");
  EXPECT_EQ(paint("text", Color::kNone, true), "text");
  EXPECT_EQ(paint("text", Color::kRed, true), "\x1b[31mtext\x1b[0m");
}

TEST(Terminal, WidthCountsCodePointsAndNoColourSequences) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("4 × TPU"), 7U);
  EXPECT_EQ(display_width(paint("– ab", Color::kBold, true)), 4U);
}

TEST(Terminal, TableAlignsColumnsAndLeavesNoTrailingBlanks) {
  EXPECT_EQ(format_table({{"a", "long name", "x"}, {"bbb", "n", ""}}), "a    long name  x\nbbb  n\n");
}

TEST(Terminal, TableAlignsPaintedCellsByWhatIsSeen) {
  EXPECT_EQ(format_table({{paint("a", Color::kRed, true), "x"}, {"bb", "y"}}), "\x1b[31ma\x1b[0m   x\nbb  y\n");
}

TEST(Terminal, TableWrapsTheLastColumnBelowItself) {
  const std::string text = format_table({{"name", "aaaa bbbb cccc dddd eeee ffff"}}, 26);
  EXPECT_EQ(text, "name  aaaa bbbb cccc dddd\n      eeee ffff\n");
}

TEST(Terminal, ALongWordIsNotBroken) {
  EXPECT_EQ(format_table({{"n", "0123456789012345678901234567890 b"}}, 24),
            "n  0123456789012345678901234567890\n   b\n");
}

TEST(Terminal, EmptyTableAndEmptyRowsAreFine) {
  EXPECT_EQ(format_table({}), "");
  EXPECT_EQ(format_table({{}, {"a"}}), "\na\n");
}

}  // namespace
}  // namespace kpt::cli
