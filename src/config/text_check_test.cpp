#include "config/text_check.h"

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(Utf8Check, AcceptsEveryLength) { EXPECT_EQ(find_invalid_utf8("aé€😀\xf4\x8f\xbf\xbf"), std::nullopt); }

TEST(Utf8Check, FindsMalformedBytes) {
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0u);          // overlong NUL
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0u);      // overlong
  EXPECT_EQ(find_invalid_utf8("a\xed\xa0\x80"), 1u);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);  // beyond U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xf0\x90\x80"), 0u);      // cut short
  EXPECT_EQ(find_invalid_utf8("\xe2\x82"
                              "a"),
            0u);  // third byte is no continuation
}

TEST(QuotedExcerpt, StaysOnOneLineAndShort) {
  EXPECT_EQ(quoted_excerpt("a\nb\tc\x1b[0m\xff"), "\"a\\nb\\tc\\x1b[0m\\xff\"");
  EXPECT_EQ(quoted_excerpt("\xc2\x9b"), "\"\\u009b\"");
  EXPECT_EQ(quoted_excerpt("abcdef", 3), "\"abc…\"");
  EXPECT_EQ(quoted_excerpt("abc", 3), "\"abc\"");
  EXPECT_LT(quoted_excerpt(std::string(100000, 'x')).size(), 80u);
}

TEST(OneLine, EscapesControlCharacters) { EXPECT_EQ(one_line("dir\n/é"), "dir\\n/é"); }

}  // namespace
}  // namespace kpt
