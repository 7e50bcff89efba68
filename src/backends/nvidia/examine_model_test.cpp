#include "backends/nvidia/examine_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<ModelFinding> examine(const std::string& text, int major, int minor) {
  return examine_model(ir::read_graph("kpt_graph 1\n" + text).value(), {}, *find_nvidia_architecture(major, minor));
}

std::string product(const std::string& dtype, int inner, int columns) {
  const std::string in = std::to_string(inner);
  const std::string out = std::to_string(columns);
  return "parameter w: " + dtype + "[" + out + ", " + in + "] \"w\"\ninput x: " + dtype + "[8, " + in +
         "]\ny: " + dtype + "[8, " + out + "] = aten.linear.default(input=%x, weight=%w)\noutput %y \"y\"\n";
}

TEST(ExamineForNvidia, ProductsThatTheMatrixUnitsTakeGiveNoFinding) {
  EXPECT_TRUE(examine(product("bfloat16", 512, 256), 9, 0).empty());
  EXPECT_TRUE(examine(product("float16", 8, 16), 7, 5).empty());
  EXPECT_TRUE(examine(product("float64", 2, 4), 9, 0).empty());
  EXPECT_TRUE(examine(product("float32", 64, 64), 7, 0).empty());  // nothing else would be faster and as near
}

TEST(ExamineForNvidia, TypesThatTheMatrixUnitsDoNotTakeAreNamedWithWhatHelps) {
  const auto findings = examine(product("float32", 512, 256), 9, 0);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, FindingKind::kElementType);
  EXPECT_FALSE(findings[0].refuses);
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("1 product is in float32, 100 % of the model's work"),
                                      HasSubstr("--level balanced"), HasSubstr("nvidia.tf32")));
  EXPECT_THAT(examine(product("bfloat16", 64, 64), 7, 5)[0].text, HasSubstr("take float16, not bfloat16"));
  EXPECT_THAT(examine(product("float16", 64, 64), 6, 1)[0].text, HasSubstr("has no matrix units"));
  EXPECT_THAT(examine(product("float64", 64, 64), 8, 9)[0].text, HasSubstr("take no float64"));
}

TEST(ExamineForNvidia, RowsThatAreNoWholeSixteenBytesAreNamedTheLargestFirst) {
  const auto findings = examine(R"(parameter w: bfloat16[30, 64] "w"
parameter k: bfloat16[64, 3, 7, 7] "k"
parameter deep: bfloat16[64, 1, 3, 3] "deep"
input x: bfloat16[8, 64]
input image: bfloat16[8, 3, 64, 64]
y: bfloat16[8, 30] = aten.linear.default(input=%x, weight=%w)
c: bfloat16[8, 64, 58, 58] = aten.conv2d.default(input=%image, weight=%k)
d: bfloat16[8, 64, 56, 56] = aten.conv2d.default(input=%c, weight=%deep, groups=64)
output %y "y"
output %d "d"
)",
                                9, 0);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].kind, FindingKind::kMatrixUnit);
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("3 x 64"), HasSubstr("whole 16 bytes"), HasSubstr("multiples of 8")));
  EXPECT_THAT(findings[1].text, HasSubstr("64 x 30"));
  // Four float32 are 16 bytes.
  EXPECT_EQ(examine(product("float32", 12, 20), 9, 0).size(), 1U);
  EXPECT_EQ(examine(product("float32", 12, 30), 9, 0).size(), 2U);
}

TEST(ExamineForNvidia, SizesThatAreOpenAreLeftOut) {
  EXPECT_TRUE(examine(R"(symbol s0 in 1..64
input x: bfloat16[4, s0]
input w: bfloat16[s0, 64]
y: bfloat16[4, 64] = aten.mm.default(self=%x, mat2=%w)
output %y "y"
)",
                      9, 0)
                  .empty());
}

}  // namespace
}  // namespace kpt
