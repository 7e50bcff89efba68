// Random expressions for tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ir/symbolic.h"

namespace kpt::ir {

class ExprSampler {
 public:
  explicit ExprSampler(std::mt19937& random) : random_(random) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  // Symbols are a, b, "or" and "two words".
  Expr number(int depth) {
    const std::int64_t kind = depth <= 0 ? draw(0, 6) : draw(4, 20);
    switch (kind) {
      case 0:
      case 4: return draw(-3, 3);
      case 1: return draw(0, 1) == 0 ? INT64_MIN : INT64_MAX;
      case 2:
      case 5: return Expr::symbol(std::vector<std::string>{"a", "b", "or", "two words"}[index(4)]);
      case 3: return Expr::floating(std::vector<double>{-0.0, 0.5, -2.5, 1e300, 3}[index(5)]);
      case 6: return Expr::opaque("Foo(Symbol('x'), \"\\n\")");
      case 7:
      case 8: return make(ExprOp::kAdd, numbers(static_cast<int>(draw(1, 4)), depth));
      case 9:
      case 10: return make(ExprOp::kMul, numbers(static_cast<int>(draw(1, 4)), depth));
      case 11: return make(draw(0, 1) == 0 ? ExprOp::kMax : ExprOp::kMin, numbers(static_cast<int>(draw(1, 3)), depth));
      case 12: return make(ExprOp::kModularIndexing, numbers(3, depth));
      case 13: return make(ExprOp::kWhere, {truth(depth - 1), number(depth - 1), number(depth - 1)});
      case 14: return make(kUnary[index(5)], numbers(1, depth));
      default: return make(kBinary[index(6)], numbers(2, depth));
    }
  }

  Expr truth(int depth) {
    if (depth <= 0) return Expr::truth(draw(0, 1) == 0);
    switch (draw(0, 4)) {
      case 0: return make(ExprOp::kNot, {truth(depth - 1)});
      case 1: return make(ExprOp::kAnd, {truth(depth - 1), truth(depth - 1)});
      case 2: return make(ExprOp::kOr, {truth(depth - 1), truth(depth - 1), truth(depth - 2)});
      case 3: return make(ExprOp::kEqual, {truth(depth - 1), truth(depth - 1)});
      default: return make(kRelations[index(6)], numbers(2, depth));
    }
  }

 private:
  static constexpr ExprOp kUnary[] = {ExprOp::kToFloat, ExprOp::kFloorToInt, ExprOp::kCeilToInt, ExprOp::kTruncToInt,
                                      ExprOp::kRoundToInt};
  static constexpr ExprOp kBinary[] = {ExprOp::kFloorDiv, ExprOp::kMod,       ExprOp::kPow,
                                       ExprOp::kTrueDiv,  ExprOp::kLeftShift, ExprOp::kRightShift};
  static constexpr ExprOp kRelations[] = {ExprOp::kEqual,     ExprOp::kNotEqual, ExprOp::kLess,
                                          ExprOp::kLessEqual, ExprOp::kGreater,  ExprOp::kGreaterEqual};

  static Expr make(ExprOp op, std::vector<Expr> operands) { return Expr::make(op, std::move(operands)); }
  std::size_t index(std::int64_t count) { return static_cast<std::size_t>(draw(0, count - 1)); }
  std::vector<Expr> numbers(int count, int depth) {
    std::vector<Expr> operands;
    for (int i = 0; i < count; ++i) operands.push_back(number(depth - static_cast<int>(draw(1, 2))));
    return operands;
  }

  std::mt19937& random_;
};

}  // namespace kpt::ir
