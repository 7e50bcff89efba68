#include "device/vendor_text.h"

#include <array>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(PrintableText, StopsAtTheFirstNulAndTrims) {
  constexpr std::array<char, 8> kBuffer = {' ', 'L', '4', '\n', '\0', 'x', 'y', 'z'};
  EXPECT_EQ(printable_text(kBuffer), "L4");
}

TEST(PrintableText, BufferWithoutNulIsReadToItsEnd) {
  constexpr std::array<char, 2> kBuffer = {'L', '4'};
  EXPECT_EQ(printable_text(kBuffer), "L4");
}

TEST(PrintableText, BytesOutsideAsciiBecomeQuestionMarks) {
  constexpr std::array<char, 3> kBuffer = {'a', static_cast<char>(0xff), '\x01'};
  EXPECT_EQ(printable_text(kBuffer), "a??");
}

TEST(PrintableText, LongTextIsCut) { EXPECT_EQ(printable_text(std::string(10000, 'a')).size(), 256U); }

}  // namespace
}  // namespace kpt
