#include "backends/tpu/examine_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

std::vector<ModelFinding> examine(const std::string& text, const ir::Bindings& sizes = {},
                                  const char* generation = "v5e", std::uint64_t memory = 16 * kGiB) {
  return examine_model(ir::read_graph("kpt_graph 1\n" + text).value(), sizes, *find_tpu_generation(generation), memory);
}

TEST(ExamineModel, SizesThatFillTheMatrixUnitGiveNoFinding) {
  const std::string text = R"(parameter w: bfloat16[256, 512] "w"
input x: bfloat16[8, 512]
y: bfloat16[8, 256] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";
  EXPECT_TRUE(examine(text).empty());
  EXPECT_TRUE(examine(text, {}, "v6e").empty());
}

TEST(ExamineModel, ProductsThatLeaveTheMatrixUnitIdleAreNamedTheLargestFirst) {
  const auto findings = examine(R"(parameter w: float32[10, 128] "w"
parameter k: float32[64, 3, 7, 7] "k"
input x: float32[8, 128]
input image: float32[8, 3, 64, 64]
y: float32[8, 10] = aten.linear.default(input=%x, weight=%w)
c: float32[8, 64, 58, 58] = aten.conv2d.default(input=%image, weight=%k)
output %y "y"
output %c "c"
)");
  ASSERT_EQ(findings.size(), 2U);
  // 3 * 7 * 7 = 147 of 256, 64 of 128.
  EXPECT_EQ(findings[0].kind, FindingKind::kMatrixUnit);
  EXPECT_FALSE(findings[0].refuses);
  EXPECT_THAT(findings[0].text,
              AllOf(HasSubstr("147 x 64"), HasSubstr("29 % of the 128 x 128"), HasSubstr("100 % of the model's work")));
  EXPECT_THAT(findings[1].text, AllOf(HasSubstr("128 x 10"), HasSubstr("7.8 % of the 128 x 128")));
}

TEST(ExamineModel, LaterGenerationsHaveALargerUnit) {
  const std::string text = R"(parameter w: float32[128, 128] "w"
input x: float32[8, 128]
y: float32[8, 128] = aten.linear.default(input=%x, weight=%w)
output %y "y"
)";
  EXPECT_TRUE(examine(text, {}, "v5p").empty());
  const auto findings = examine(text, {}, "v6e");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].text, HasSubstr("25 % of the 256 x 256"));
}

TEST(ExamineModel, ANumberOutOfATensorIsNoSizeToGive) {
  const std::string text = R"(symbol u0 in 0..8
input x: float32[4]
input n: int64[]
count: int(u0) = aten.item.default(self=%n)
y: float32[4] = aten.mul.Scalar(self=%x, other=%count)
output %y "y"
)";
  const auto findings = examine(text);
  ASSERT_GE(findings.size(), 2U);
  EXPECT_EQ(findings[0].kind, FindingKind::kOperator);
  EXPECT_THAT(findings[0].text, HasSubstr("reads a number out of a tensor"));
  ir::Bindings sizes;
  sizes.set("u0", 3);
  const auto given = examine(text, sizes);
  ASSERT_FALSE(given.empty());
  EXPECT_EQ(given[0].kind, FindingKind::kSize);
  EXPECT_THAT(given[0].text, HasSubstr("u0 is no size of the model's inputs"));
}

TEST(ExamineModel, AttentionIsTwoProducts) {
  const auto findings = examine(R"(input q: bfloat16[1, 8, 128, 64]
input k: bfloat16[1, 8, 128, 64]
input v: bfloat16[1, 8, 128, 64]
y: bfloat16[1, 8, 128, 64] = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v)
output %y "y"
)");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("64 x 128"), HasSubstr("50 %")));
}

TEST(ExamineModel, FreeSizesAndThoseOutOfRangeRefuse) {
  const std::string text = R"(symbol s0 in 2..100
symbol s1 in 1..8
input x: float32[s0, s1]
y: float32[s0, s1] = aten.relu.default(self=%x)
output %y "y"
)";
  ir::Bindings sizes;
  sizes.set("s1", 9);
  const auto findings = examine(text, sizes);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_TRUE(findings[0].refuses);
  EXPECT_EQ(findings[0].place, "s0");
  EXPECT_THAT(findings[0].text, AllOf(HasSubstr("2 to 100"), HasSubstr("fixed sizes")));
  EXPECT_THAT(findings[1].text, HasSubstr("s1=9 is out of its range, 1 to 8"));
}

TEST(ExamineModel, ElementTypesThatTpusLackAreCounted) {
  const auto findings = examine(R"(input x: float64[2]
input ids: int64[2]
input unused: float16[2]
y: float64[2] = aten.relu.default(self=%x)
z: bool[2] = aten.gt.Scalar(self=%ids, other=1)
output %y "y"
output %z "z"
)");
  ASSERT_EQ(findings.size(), 2U);
  for (const ModelFinding& finding : findings) EXPECT_EQ(finding.kind, FindingKind::kElementType);
  const auto of = [&](const std::string& place) {
    return std::ranges::find(findings, place, &ModelFinding::place)->text;
  };
  EXPECT_THAT(of("float64"), AllOf(HasSubstr("2 tensors are of type float64"), HasSubstr("'x'")));
  EXPECT_THAT(of("int64"), HasSubstr("1 tensor is of type int64"));
}

TEST(ExamineModel, WhatRefusesComesFirst) {
  const auto findings = examine(R"(parameter w: float32[10, 100000] "w"
input x: float32[1000, 100000]
y: float32[1000, 10] = aten.linear.default(input=%x, weight=%w)
z: float32[1000, 10] = nobody.knows.this(self=%y)
output %z "z"
)",
                                {}, "v5e", 100000000);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].kind, FindingKind::kOperator);
  EXPECT_THAT(findings[0].text, HasSubstr("nobody.knows.this"));
  EXPECT_EQ(findings[1].kind, FindingKind::kMemory);
  EXPECT_THAT(findings[1].text, AllOf(HasSubstr("385.3 MiB"), HasSubstr("95.4 MiB")));
  EXPECT_EQ(findings[2].kind, FindingKind::kMatrixUnit);
}

}  // namespace
}  // namespace kpt
