#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/symbolic.h"

namespace kpt::ir {
namespace {

using ::testing::HasSubstr;

std::string read(const std::string& text) {
  const auto expr = parse_srepr(text);
  return expr.ok() ? expr->to_string() : std::string(to_string(expr.status().code()));
}

const std::string kS = "Symbol('s77', positive=True, integer=True)";
const std::string kT = "Symbol('s3', integer=True, nonnegative=True)";

TEST(Srepr, EveryHeadHasItsOperation) {
  EXPECT_EQ(read("Integer(-5)"), "-5");
  EXPECT_EQ(read(kS), "s77");
  EXPECT_EQ(read("Add(" + kS + ", " + kT + ", Integer(-1))"), "s77 + s3 - 1");
  EXPECT_EQ(read("Mul(Integer(-1), " + kS + ")"), "-s77");
  EXPECT_EQ(read("FloorDiv(" + kS + ", Integer(3))"), "s77 // 3");
  EXPECT_EQ(read("CleanDiv(" + kS + ", Integer(3))"), "s77 // 3");
  EXPECT_EQ(read("CeilDiv(" + kS + ", " + kT + ")"), "-((-s77) // s3)");
  EXPECT_EQ(read("PythonMod(" + kS + ", " + kT + ")"), "s77 % s3");
  EXPECT_EQ(read("Mod(" + kS + ", Integer(3))"), "s77 % 3");
  EXPECT_EQ(read("ModularIndexing(" + kS + ", Integer(2), " + kT + ")"), "modular_indexing(s77, 2, s3)");
  EXPECT_EQ(read("LShift(" + kS + ", Integer(2))"), "s77 << 2");
  EXPECT_EQ(read("RShift(" + kS + ", Integer(2))"), "s77 >> 2");
  EXPECT_EQ(read("Pow(" + kS + ", Integer(3))"), "s77 ** 3");
  EXPECT_EQ(read("PowByNatural(" + kS + ", " + kT + ")"), "s77 ** s3");
  EXPECT_EQ(read("Max(Integer(3), " + kT + ")"), "max(3, s3)");
  EXPECT_EQ(read("Min(Integer(3), " + kT + ")"), "min(3, s3)");
  EXPECT_EQ(read("TruncToInt(IntTrueDiv(" + kS + ", " + kT + "))"), "trunc(s77 / s3)");
  EXPECT_EQ(read("FloatTrueDiv(ToFloat(" + kS + "), Float('2.5', precision=53))"), "float(s77) / 2.5");
  EXPECT_EQ(read("CeilToInt(IntTrueDiv(" + kS + ", Integer(2)))"), "ceil(s77 / 2)");
  EXPECT_EQ(read("FloorToInt(IntTrueDiv(" + kS + ", Integer(2)))"), "floor(s77 / 2)");
  EXPECT_EQ(read("RoundToInt(IntTrueDiv(" + kS + ", Integer(2)))"), "round(s77 / 2)");
  EXPECT_EQ(read("TruncToFloat(IntTrueDiv(" + kS + ", Integer(2)))"), "float(trunc(s77 / 2))");
  EXPECT_EQ(read("Identity(Mul(Integer(2), " + kS + "))"), "s77 * 2");
  EXPECT_EQ(read("Where(StrictLessThan(" + kS + ", Integer(3)), " + kS + ", " + kT + ")"), "where(s77 < 3, s77, s3)");
  EXPECT_EQ(read("And(GreaterThan(" + kT + ", Integer(2)), LessThan(" + kS + ", Integer(3)))"), "s3 >= 2 and s77 <= 3");
  EXPECT_EQ(read("Or(StrictGreaterThan(" + kT + ", Integer(2)), true)"), "s3 > 2 or true");
  EXPECT_EQ(read("Not(Equality(" + kS + ", " + kT + "))"), "not s77 == s3");
  EXPECT_EQ(read("Unequality(" + kS + ", Integer(3))"), "s77 != 3");
  EXPECT_EQ(read("false"), "false");
}

TEST(Srepr, QuotientsBecomeOneDivision) {
  EXPECT_EQ(read("Mul(Rational(1, 2), " + kS + ")"), "s77 / 2");
  EXPECT_EQ(read("Mul(Pow(" + kT + ", Integer(-1)), " + kS + ")"), "s77 / s3");
  EXPECT_EQ(read("Mul(Rational(3, 2), Pow(" + kT + ", Integer(-2)), " + kS + ")"), "(s77 * 3) / (s3 ** 2 * 2)");
  EXPECT_EQ(read("Pow(" + kT + ", Integer(-1))"), "1 / s3");
  EXPECT_EQ(read("floor(Mul(Rational(1, 2), " + kS + "))"), "s77 // 2");
  EXPECT_EQ(read("floor(" + kS + ")"), "floor(s77)");
  EXPECT_EQ(read("ceiling(Add(Mul(Rational(1, 2), " + kS + "), Rational(1, 3)))"), "-((-(s77 * 3 + 2)) // 6)");
  EXPECT_EQ(read("Rational(1, 2)"), "0.5");
}

TEST(Srepr, UnknownHeadsAreKept) {
  EXPECT_EQ(read("oo"), "opaque(\"oo\")");
  EXPECT_EQ(read("Integer"), "opaque(\"Integer\")");
  EXPECT_EQ(read("-oo"), "opaque(\"-oo\")");
  EXPECT_EQ(read("Pow(Symbol('s'), Rational(1, 2))"), "opaque(\"Pow(Symbol('s'), Rational(1, 2))\")");
  EXPECT_EQ(read("Add(Foo([1, {'(': \"]\"}], x=None), Integer(1))"),
            "opaque(\"Foo([1, {'(': \\\"]\\\"}], x=None)\") + 1");
  EXPECT_EQ(read("Integer(99999999999999999999)"), "opaque(\"Integer(99999999999999999999)\")");
  EXPECT_EQ(read("FloatPow(Symbol('a'), Symbol('b'))"), "opaque(\"FloatPow(Symbol('a'), Symbol('b'))\")");
  EXPECT_EQ(read("torch.sym(1)"), "opaque(\"torch.sym(1)\")");
  EXPECT_TRUE(parse_srepr("oo")->symbols().empty());
}

TEST(Srepr, BadTextIsRefused) {
  for (const char* text : {"",
                           "(",
                           "1",
                           "s0 + 1",

                           "Integer()",
                           "Integer(1.5)",
                           "Integer(1",
                           "Integer(1))",
                           "Integer(1) Integer(1)",
                           "Symbol()",
                           "Symbol(s0)",
                           "Symbol('s0'",
                           "Symbol('s0",
                           "Symbol('')",
                           "Symbol('s0', positive)",
                           "Symbol('\\q')",
                           "Add()",
                           "Add(,)",
                           "Add(Integer(1),)",
                           "Rational(1, 0)",
                           "Rational(1)",
                           "FloorDiv(Integer(1))",
                           "Foo(]",
                           "Foo('",
                           "Foo(()",
                           "Add(true, Integer(1))",
                           "Not(Integer(1))",
                           "Where(Integer(1), true, false)",
                           "Identity()",
                           "Identity(true, true)",
                           "Pow(Integer(1))",
                           "floor()",
                           "Float(1.5)",
                           "CeilDiv(Integer(1))"}) {
    EXPECT_EQ(parse_srepr(text).status().code(), StatusCode::kCorruptData) << text;
  }
  EXPECT_THAT(parse_srepr("Add(Integer(1) Integer(2))").status().message(), HasSubstr("byte 15"));
}

TEST(Srepr, DepthAndLengthAreBounded) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 1; i < depth; ++i) text += "CeilDiv(";
    text += "Symbol('a')";
    for (int i = 1; i < depth; ++i) text += ", Symbol('b'))";
    return text;
  };
  const auto deepest = parse_srepr(nested(64));
  ASSERT_TRUE(deepest.ok());
  EXPECT_NE(deepest->op(), ExprOp::kOpaque);
  EXPECT_EQ(*parse_expr(deepest->to_string()), *deepest);
  EXPECT_EQ(parse_srepr(nested(65)).status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(parse_srepr(nested(3000)).status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(parse_srepr("Foo(" + std::string(30000, '(') + std::string(30000, ')') + ")")->op(), ExprOp::kOpaque);
  EXPECT_EQ(parse_srepr("Symbol('" + std::string(70000, 'a') + "')").status().code(), StatusCode::kCorruptData);
}

}  // namespace
}  // namespace kpt::ir
