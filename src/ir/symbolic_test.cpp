#include "ir/symbolic.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"
#include "ir/expr_sampling.h"
#include "support/tree_paths.h"

namespace kpt::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Expr sym(const char* name) { return Expr::symbol(name); }
Expr make(ExprOp op, std::vector<Expr> operands) { return Expr::make(op, std::move(operands)); }

Bindings bind(std::int64_t a, std::int64_t b = 0, std::int64_t c = 0) {
  Bindings bindings;
  bindings.set("a", a);
  bindings.set("b", b);
  bindings.set("c", c);
  return bindings;
}

TEST(Bindings, ReplaceAndFind) {
  Bindings bindings;
  EXPECT_EQ(bindings.find("s0"), std::nullopt);
  bindings.set("s0", 1);
  bindings.set("s1", 2);
  bindings.set("s0", 3);
  EXPECT_EQ(bindings.find("s0"), 3);
  EXPECT_EQ(bindings.entries().size(), 2U);
  bindings.clear();
  EXPECT_EQ(bindings.find("s1"), std::nullopt);
}

TEST(SizesAgainstPython, AreTheSameForEveryLineOfTheTable) {
  const auto table = read_text_file(source_dir() + "/src/ir/test_data/python_sizes.txt", 1U << 20U);
  ASSERT_TRUE(table.ok());
  const auto lines = split(trim(*table), '\n');
  ASSERT_GT(lines.size(), 300U);
  for (const std::string_view line : lines) {
    const auto fields = split(line, '\t');
    ASSERT_EQ(fields.size(), 5U) << line;
    const auto expr = parse_srepr(fields[0]);
    ASSERT_TRUE(expr.ok()) << expr.status().message();
    const auto value = expr->evaluate(bind(*parse_int(fields[1]), *parse_int(fields[2]), *parse_int(fields[3])));
    if (fields[4] == "error") {
      EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument) << line;
    } else {
      ASSERT_TRUE(value.ok()) << line << "\n" << value.status().message();
      EXPECT_EQ(*value, *parse_int(fields[4])) << line;
    }
    const auto again = parse_expr(expr->to_string());
    ASSERT_TRUE(again.ok()) << expr->to_string() << "\n" << again.status().message();
    EXPECT_EQ(*again, *expr) << expr->to_string();
  }
}

TEST(ExprText, GivesTheSameExpressionBack) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  ExprSampler sampler(random);
  int evaluated = 0;
  for (int round = 0; round < 20000; ++round) {
    const Expr expr = round % 4 == 0 ? sampler.truth(4) : sampler.number(static_cast<int>(sampler.draw(0, 6)));
    const std::string text = expr.to_string();
    const auto again = parse_expr(text);
    ASSERT_TRUE(again.ok()) << text << "\n" << again.status().message();
    ASSERT_EQ(*again, expr) << text << "\n" << again->to_string();
    Bindings bindings = bind(sampler.draw(-9, 9), sampler.draw(1, 4000));
    bindings.set("or", 2);
    bindings.set("two words", -3);
    const auto value = expr.evaluate_value(bindings);
    const auto value_again = again->evaluate_value(bindings);
    ASSERT_EQ(value.ok(), value_again.ok()) << text;
    if (!value.ok()) continue;
    ++evaluated;
    const double* real = std::get_if<double>(&*value);
    if (real == nullptr || !std::isnan(*real)) {
      ASSERT_EQ(*value, *value_again) << text;
    }
  }
  EXPECT_GT(evaluated, 2000);
}

TEST(ExprText, ReadsLikePython) {
  const auto text = [](const Expr& expr) { return expr.to_string(); };
  EXPECT_EQ(text(*parse_srepr("Add(Integer(1), Mul(Integer(2), Symbol('s0', positive=True, integer=True)))")),
            "s0 * 2 + 1");
  EXPECT_EQ(text(make(ExprOp::kAdd, {sym("a"), make(ExprOp::kMul, {-3, sym("b")}), -1})), "a - b * 3 - 1");
  EXPECT_EQ(text(make(ExprOp::kMul, {sym("a"), -1})), "-a");
  EXPECT_EQ(text(make(ExprOp::kFloorDiv, {make(ExprOp::kAdd, {sym("a"), 1}), 2})), "(a + 1) // 2");
  EXPECT_EQ(text(make(ExprOp::kPow, {make(ExprOp::kMul, {sym("a"), -1}), 2})), "(-a) ** 2");
  EXPECT_EQ(text(make(ExprOp::kPow, {-2, sym("a")})), "(-2) ** a");
  EXPECT_EQ(text(make(ExprOp::kMul, {Expr::floating(2.5), sym("a"), -2})), "2.5 * a * -2");
  EXPECT_EQ(text(make(ExprOp::kAdd, {sym("a"), INT64_MIN})), "a + -9223372036854775808");
  EXPECT_EQ(text(make(ExprOp::kNot, {make(ExprOp::kLess, {sym("a"), 3})})), "not a < 3");
  EXPECT_EQ(text(make(ExprOp::kMax, {sym("a"), 1})), "max(a, 1)");
  EXPECT_EQ(text(sym("max")), "$\"max\"");
  EXPECT_EQ(text(Expr::opaque("oo")), "opaque(\"oo\")");
  EXPECT_EQ(*parse_expr("  2*s0+1 "), *parse_expr("s0 * 2 + 1"));
  EXPECT_EQ(*parse_expr("7 - 2 - 1"), Expr(4));
  EXPECT_EQ(*parse_expr("2 ** 3 ** 2"), Expr(512));
  EXPECT_EQ(*parse_expr("17 // 5 % 2 * 4"), Expr(4));
  EXPECT_EQ(*parse_expr("1 + 1 << 3"), Expr(16));
  EXPECT_EQ(*parse_expr("1 < 2 and not 3 < 2 or false"), Expr::truth(true));
}

TEST(ExprText, BadTextIsRefused) {
  for (const char* text : {"",
                           " ",
                           "1 +",
                           "(1",
                           "1)",
                           "a b",
                           "1 < 2 < 3",
                           "max()",
                           "max(1",
                           "max 1",
                           "and",
                           "$x",
                           "$\"x",
                           "opaque(x)",
                           "1 + true",
                           "not 1",
                           "a // ",
                           "9223372036854775808",
                           "1e999",
                           "a ** true",
                           "where(1, 2, 3)",
                           "where(true, 1)",
                           "**",
                           "--",
                           "floor(1, 2)",
                           "where(a < 1, 2, a < 3)",
                           "0x10",
                           "$\"\""}) {
    const auto expr = parse_expr(text);
    EXPECT_EQ(expr.status().code(), StatusCode::kCorruptData) << text;
  }
}

TEST(ExprText, DepthAndLengthAreBounded) {
  const std::string open(100000, '(');
  EXPECT_EQ(parse_expr(open + "a").status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(parse_expr(std::string(100000, '-') + "a").status().code(), StatusCode::kCorruptData);
  std::string powers;
  for (int i = 0; i < 50000; ++i) powers += "a**";
  EXPECT_EQ(parse_expr(powers + "a").status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(parse_expr(std::string(2 << 20, ' ')).status().code(), StatusCode::kCorruptData);
  EXPECT_TRUE(parse_expr(std::string(200, '(') + "a" + std::string(200, ')')).ok());
  // What has grown too large by other ways is opaque, and stays readable.
  Expr deep = sym("a");
  Expr wide = sym("a");
  for (int i = 0; i < 300; ++i) deep = make(ExprOp::kMax, {deep, 1});
  for (int i = 0; i < 64; ++i) wide = make(ExprOp::kMax, {wide, wide});
  EXPECT_EQ(parse_expr(deep.to_string())->to_string(), deep.to_string());
  EXPECT_EQ(deep.evaluate(bind(1)).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(wide.evaluate(bind(1)).status().code(), StatusCode::kUnsupported);
}

TEST(ExprText, LongestAllowedNestingComesBack) {
  Expr deep = sym("a");
  for (std::size_t i = 1; i < Expr::kMaxDepth; ++i) {
    switch (i % 3) {
      case 0: deep = make(ExprOp::kPow, {2, deep}); break;
      case 1: deep = make(ExprOp::kFloorDiv, {deep, sym("b")}); break;
      default: deep = make(ExprOp::kMul, {deep, -1});
    }
  }
  ASSERT_NE(deep.op(), ExprOp::kOpaque);
  const auto again = parse_expr(deep.to_string());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, deep);
}

TEST(ExprMake, FoldsOnlyWhatCannotFail) {
  EXPECT_EQ(make(ExprOp::kAdd, {1, sym("a"), 2}), make(ExprOp::kAdd, {sym("a"), 3}));
  EXPECT_EQ(make(ExprOp::kAdd, {sym("a"), 0}), sym("a"));
  EXPECT_EQ(make(ExprOp::kMul, {1, sym("a")}), sym("a"));
  EXPECT_EQ(make(ExprOp::kMul, {0, sym("a")}).op(), ExprOp::kMul);
  EXPECT_EQ(make(ExprOp::kFloorDiv, {7, -2}), Expr(-4));
  EXPECT_EQ(make(ExprOp::kFloorDiv, {7, 0}).op(), ExprOp::kFloorDiv);
  EXPECT_EQ(make(ExprOp::kAdd, {INT64_MAX, 1}).op(), ExprOp::kAdd);
  EXPECT_EQ(make(ExprOp::kTrueDiv, {1, 2}), Expr::floating(0.5));
  EXPECT_EQ(make(ExprOp::kLess, {1, 2}), Expr::truth(true));
  EXPECT_NE(Expr::floating(0.0), Expr::floating(-0.0));
  EXPECT_EQ(Expr::floating(NAN), Expr::floating(NAN));
  EXPECT_NE(Expr(1), Expr::floating(1));
  EXPECT_NE(sym("a"), Expr::opaque("a"));
}

TEST(ExprSymbols, AreListedOnceInOrder) {
  EXPECT_THAT(parse_expr("b + a * b + max(c, a)")->symbols(), ElementsAre("b", "a", "c"));
  EXPECT_TRUE(Expr(5).symbols().empty());
}

TEST(ExprEvaluation, FailsWithAReason) {
  const auto reason = [](const char* text, const Bindings& bindings) {
    const auto value = parse_expr(text)->evaluate(bindings);
    return std::string(to_string(value.status().code())) + ": " + value.status().message();
  };
  EXPECT_THAT(reason("a + s9", bind(1)), HasSubstr("invalid_argument: "));
  EXPECT_THAT(reason("a + s9", bind(1)), HasSubstr("the symbol 's9' has no value"));
  EXPECT_THAT(reason("a // b", bind(1)), HasSubstr("divides by zero"));
  EXPECT_THAT(reason("a % b", bind(1)), HasSubstr("divides by zero"));
  EXPECT_THAT(reason("a / b", bind(1)), HasSubstr("divides by zero"));
  EXPECT_THAT(reason("modular_indexing(a, 1, b)", bind(1)), HasSubstr("divides by zero"));
  EXPECT_THAT(reason("a * 2", bind(INT64_MAX)), HasSubstr("overflows"));
  EXPECT_THAT(reason("a + b", bind(INT64_MIN, -1)), HasSubstr("overflows"));
  EXPECT_THAT(reason("a // b", bind(INT64_MIN, -1)), HasSubstr("overflows"));
  EXPECT_THAT(reason("a ** b", bind(2, 64)), HasSubstr("overflows"));
  EXPECT_THAT(reason("a ** b", bind(2, -1)), HasSubstr("negative"));
  EXPECT_THAT(reason("a << b", bind(2, -1)), HasSubstr("negative"));
  EXPECT_THAT(reason("floor(float(a) * 1e300)", bind(2)), HasSubstr("overflows"));
  EXPECT_THAT(reason("a / 2", bind(3)), HasSubstr("not an integer"));
  EXPECT_THAT(reason("a < 2", bind(3)), HasSubstr("not an integer"));
  EXPECT_THAT(reason("opaque(\"oo\") + a", bind(3)), HasSubstr("unsupported: "));
}

TEST(ExprEvaluation, TakesOnlyTheBranchItNeeds) {
  EXPECT_EQ(*parse_expr("where(b == 0, 7, a // b)")->evaluate(bind(1, 0)), 7);
  EXPECT_EQ(parse_expr("b == 0 or a // b > 1")->evaluate_value(bind(1, 0)).value(), SymValue(true));
  EXPECT_EQ(parse_expr("b != 0 and a // b > 1")->evaluate_value(bind(1, 0)).value(), SymValue(false));
}

TEST(ExprEvaluation, MixesIntegersAndFloatsAsPython) {
  EXPECT_EQ(*parse_expr("a / 2")->evaluate(bind(6)), 3);
  EXPECT_EQ(parse_expr("a / 2")->evaluate_value(bind(3)).value(), SymValue(1.5));
  EXPECT_EQ(parse_expr("a + 0.5")->evaluate_value(bind(3)).value(), SymValue(3.5));
  EXPECT_EQ(parse_expr("max(a, 2.5)")->evaluate_value(bind(3)).value(), SymValue(std::int64_t{3}));
  EXPECT_EQ(parse_expr("round(a / 2)")->evaluate_value(bind(5)).value(), SymValue(std::int64_t{2}));
  EXPECT_EQ(parse_expr("a == 3.0")->evaluate_value(bind(3)).value(), SymValue(true));
  EXPECT_EQ(parse_expr("trunc(float(a) / 2.0)")->evaluate_value(bind(-5)).value(), SymValue(std::int64_t{-2}));
}

TEST(LinearForms, AreFoundAndSolved) {
  const auto find = [](const std::string& text) { return parse_expr(text).value(); };
  const Expr derived = find("(s0 + 3) * 4 + s0 - 1");
  const auto form = find_linear(derived);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->symbol, "s0");
  EXPECT_EQ(form->factor, 5);
  EXPECT_EQ(form->offset, 11);
  EXPECT_EQ(form->solve(26), 3);
  EXPECT_EQ(form->solve(27), std::nullopt);
  EXPECT_EQ(form->solve(1), -2);
  EXPECT_EQ(form->solve(std::numeric_limits<std::int64_t>::min()), std::nullopt);
  EXPECT_EQ(form->at(3), 26);
  EXPECT_EQ(form->at(std::int64_t{1} << 62), std::nullopt);
  EXPECT_EQ(find_linear(find("s7"))->solve(9), 9);
  EXPECT_EQ(find_linear(find("2 * 3 * s7"))->factor, 6);
  for (const char* text : {"7", "s0 * s1", "s0 * s0", "s0 + s1", "s0 // 2", "s0 * -2", "0 * s0", "s0 - s0",
                           "s0 * 4611686018427387904 * 4", "max(s0, 1)"}) {
    const Expr expr = find(text);
    EXPECT_FALSE(find_linear(expr).has_value()) << text;
  }
}

TEST(LinearForms, ASymbolsOwnSizeGoesBeforeWhatIsDerived) {
  const Expr derived = parse_expr("s0 * 8").value();
  const Expr plain = parse_expr("s0").value();
  const Expr other = parse_expr("s0 // 2").value();
  Bindings bindings;
  bind_size(other, 5, bindings);
  EXPECT_TRUE(bindings.entries().empty());
  bind_size(derived, 12, bindings);
  EXPECT_TRUE(bindings.entries().empty());
  bind_size(derived, 16, bindings);
  EXPECT_EQ(bindings.find("s0"), 2);
  bind_size(plain, 3, bindings);
  bind_size(derived, 16, bindings);
  EXPECT_EQ(bindings.find("s0"), 3);
}

}  // namespace
}  // namespace kpt::ir
