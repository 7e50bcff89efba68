#include "base/text.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Trim, RemovesWhiteSpaceAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t\r\n a b \v\f"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("x"), "x");
}

TEST(Split, KeepsEmptyPartsButNoneOfAnEmptyText) {
  EXPECT_THAT(split("", ','), IsEmpty());
  EXPECT_THAT(split("a", ','), ElementsAre("a"));
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split(",a", ','), ElementsAre("", "a"));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
  EXPECT_THAT(split("a,b,", ','), ElementsAre("a", "b", ""));
  EXPECT_THAT(split(",,", ','), ElementsAre("", "", ""));
  EXPECT_THAT(split(std::string_view("a\0b", 3), '\0'), ElementsAre("a", "b"));
}

TEST(Split, JoinIsItsInverse) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::string text(std::uniform_int_distribution<std::size_t>(1, 12)(random), ' ');
    for (char& c : text) c = ",ab"[std::uniform_int_distribution<std::size_t>(0, 2)(random)];
    const auto parts = split(text, ',');
    ASSERT_EQ(join(std::vector<std::string>(parts.begin(), parts.end()), ","), text);
  }
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}, ", "), "a");
  EXPECT_EQ(join(std::vector<std::string>{"a", "", "{}"}, ", "), "a, , {}");
}

TEST(ToLower, TouchesOnlyAsciiLetters) { EXPECT_EQ(to_lower("AZaz09_\xc3\x84"), "azaz09_\xc3\x84"); }

TEST(ParseInt, TakesWholeNumbersWithinRange) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_uint("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_int("007"), 7);
}

TEST(ParseInt, RejectsEverythingElse) {
  for (const std::string_view text : {"", " ", "1 ", " 1", "+1", "1.0", "1e3", "0x10", "-", "--1", "ten",
                                      "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_int(std::string_view("1\0", 2)), std::nullopt);
  EXPECT_EQ(parse_uint("-1"), std::nullopt);
  EXPECT_EQ(parse_uint("18446744073709551616"), std::nullopt);
}

TEST(ParseInt, HexadecimalWithAndWithoutPrefix) {
  EXPECT_EQ(parse_uint("0x10de", 16), 0x10deu);
  EXPECT_EQ(parse_uint("0X10DE", 16), 0x10deu);
  EXPECT_EQ(parse_uint("10de", 16), 0x10deu);
  EXPECT_EQ(parse_uint("0", 16), 0u);
  EXPECT_EQ(parse_int("-ff", 16), -255);
  for (const std::string_view text : {"0x", "0x0x1", "0x-5", "x1", "0xg", "0x 1", "0x+1"}) {
    EXPECT_EQ(parse_int(text, 16), std::nullopt) << text;
    EXPECT_EQ(parse_uint(text, 16), std::nullopt) << text;
  }
}

TEST(ParseDouble, TakesFiniteNumbersOnly) {
  EXPECT_EQ(parse_double("0.5"), 0.5);
  EXPECT_EQ(parse_double("-1e-3"), -1e-3);
  EXPECT_EQ(parse_double("2"), 2.0);
  for (const std::string_view text :
       {"", "nan", "-nan", "inf", "-inf", "infinity", "1e999", "1.0x", " 1", "1 ", "0x1p3", "+1", "."}) {
    EXPECT_EQ(parse_double(text), std::nullopt) << text;
  }
}

TEST(Printable, LeavesGoodTextAlone) {
  for (const std::string_view text : {"", "plain", "Grüße, 世界 🙂", "a\"b\\c{}%s"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlCharactersAndLineBreaksBecomeSpaces) {
  EXPECT_EQ(printable("a\nb\rc\td\x1b[2J\x7f"), "a b c d [2J ");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a b");
  EXPECT_EQ(printable("a\u0085b\u009bc\u2028d\u2029e"), "a b c d e");
  EXPECT_EQ(printable("\u00a0"), "\u00a0");
}

TEST(Printable, WhatIsNotUtf8BecomesTheReplacementCharacter) {
  const std::string bad = "\ufffd";
  EXPECT_EQ(printable("a\xff"
                      "b"),
            "a" + bad + "b");
  EXPECT_EQ(printable("\xc3"), bad);                                // cut short
  EXPECT_EQ(printable("\xc0\xaf"), bad + bad);                      // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), bad + bad + bad);            // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), bad + bad + bad);            // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), bad + bad + bad + bad);  // above U+10FFFF
  EXPECT_EQ(printable("\xf0\x8f\xbf\xbf"), bad + bad + bad + bad);  // overlong
  EXPECT_EQ(printable("\xf4\x8f\xbf\xbf"), "\U0010ffff");
  EXPECT_EQ(printable("\x80x"), bad + "x");
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdef", 5), "abcde…");
  EXPECT_EQ(printable("aüb", 2), "a…");
  EXPECT_EQ(printable("abc", 0), "…");
}

TEST(Printable, RandomBytesGiveOneLineThatIsStable) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text(std::uniform_int_distribution<std::size_t>(0, 30)(random), '\0');
    for (char& c : text) c = static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    const std::string shown = printable(text);
    ASSERT_EQ(shown.find_first_of("\n\r\x1b"), std::string::npos);
    ASSERT_EQ(printable(shown), shown);
  }
}

TEST(FormatBytes, UnitsAndLimits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(150'111'000'000), "139.8 GiB");
  EXPECT_EQ(format_bytes(std::uint64_t{1} << 60), "1.0 EiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(FormatBytes, RoundingNeverShows1024OfAUnit) {
  for (int shift = 10; shift < 60; shift += 10) {
    const std::uint64_t next = std::uint64_t{1} << (shift + 10);
    EXPECT_EQ(format_bytes(next - 1).find("1024"), std::string::npos) << format_bytes(next - 1);
    EXPECT_EQ(format_bytes(next - 1), format_bytes(next));
    EXPECT_TRUE(format_bytes(next - next / 1000).starts_with("1023.0")) << format_bytes(next - next / 1000);
  }
}

TEST(FindNearest, SlipsOfTheFingerAreFound) {
  const std::vector<std::string> names = {"cache.dir", "log.level", "log.format", "threads.count"};
  EXPECT_EQ(find_nearest("log.levle", names), "log.level");
  EXPECT_EQ(find_nearest("cachedir", names), "cache.dir");
  EXPECT_EQ(find_nearest("log.level", names), "log.level");
  EXPECT_EQ(find_nearest("thread.counts", names), "threads.count");
}

TEST(FindNearest, FarNamesAreNotSuggested) {
  const std::vector<std::string> names = {"cache.dir", "log.level"};
  EXPECT_EQ(find_nearest("banana", names), std::nullopt);
  EXPECT_EQ(find_nearest("", names), std::nullopt);
  EXPECT_EQ(find_nearest("x", {}), std::nullopt);
  EXPECT_EQ(find_nearest(std::string(100000, 'c'), names), std::nullopt);
}

TEST(FindNearest, ShortNamesMayDifferInOneLetter) {
  const std::vector<std::string> names = {"on", "off"};
  EXPECT_EQ(find_nearest("ofg", names), "off");
  EXPECT_EQ(find_nearest("of", names), "on");  // equally near: the first
  EXPECT_EQ(find_nearest("oo", names), "on");
  EXPECT_EQ(find_nearest("xy", names), std::nullopt);
}

}  // namespace
}  // namespace kpt
