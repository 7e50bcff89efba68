#include "ir/symbolic.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kpt::ir {
namespace {

bool is_literal(const Expr& expr) {
  return expr.op() == ExprOp::kConstant || expr.op() == ExprOp::kFloat || expr.op() == ExprOp::kTruth;
}

// What an expression yields, as far as its head tells.
enum class Sort : std::uint8_t { kNumber, kTruth, kUnknown };

Sort sort_of(const Expr& expr) {
  switch (expr.op()) {
    case ExprOp::kTruth:
    case ExprOp::kEqual:
    case ExprOp::kNotEqual:
    case ExprOp::kLess:
    case ExprOp::kLessEqual:
    case ExprOp::kGreater:
    case ExprOp::kGreaterEqual:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot: return Sort::kTruth;
    case ExprOp::kOpaque: return Sort::kUnknown;
    // Both branches are of one sort, or one is unknown.
    case ExprOp::kWhere: {
      const Sort first = sort_of(expr.operands()[1]);
      return first == Sort::kUnknown ? sort_of(expr.operands()[2]) : first;
    }
    default: return Sort::kNumber;
  }
}

bool may_be(const Expr& expr, Sort wanted) {
  const Sort sort = sort_of(expr);
  return sort == wanted || sort == Sort::kUnknown;
}

bool all_may_be(std::span<const Expr> operands, Sort wanted) {
  return std::all_of(operands.begin(), operands.end(), [&](const Expr& operand) { return may_be(operand, wanted); });
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// The operands of a sum or product: nested ones of the same kind opened, integers taken together and put last. When
// they do not fit together into 64 bits they all stay, so that the same list always gives the same result.
std::vector<Expr> arrange_flat(ExprOp op, const std::vector<Expr>& operands) {
  std::vector<Expr> others;
  std::vector<std::int64_t> integers;
  const auto take = [&](const Expr& operand) {
    if (const auto constant = operand.constant()) {
      integers.push_back(*constant);
    } else {
      others.push_back(operand);
    }
  };
  for (const Expr& operand : operands) {
    if (operand.op() == op) {
      std::for_each(operand.operands().begin(), operand.operands().end(), take);
    } else {
      take(operand);
    }
  }
  const std::int64_t neutral = op == ExprOp::kAdd ? 0 : 1;
  std::int64_t folded = neutral;
  bool overflow = false;
  for (const std::int64_t integer : integers) {
    overflow |= op == ExprOp::kAdd ? __builtin_add_overflow(folded, integer, &folded)
                                   : __builtin_mul_overflow(folded, integer, &folded);
    if (overflow) break;
  }
  if (overflow) {
    others.insert(others.end(), integers.begin(), integers.end());
  } else if (folded != neutral || others.empty()) {
    others.emplace_back(folded);
  }
  return others;
}

}  // namespace

struct Expr::Node {
  ExprOp op = ExprOp::kOpaque;
  bool truth = false;
  double real = 0;
  std::string text;
  std::vector<Expr> operands;
  std::size_t depth = 1;
  std::size_t text_bytes = 0;  // an upper bound on to_string().size()
};

void Bindings::set(std::string_view symbol, std::int64_t value) {
  for (auto& entry : entries_) {
    if (entry.first == symbol) {
      entry.second = value;
      return;
    }
  }
  entries_.emplace_back(symbol, value);
}

std::optional<std::int64_t> Bindings::find(std::string_view symbol) const {
  for (const auto& entry : entries_) {
    if (entry.first == symbol) return entry.second;
  }
  return std::nullopt;
}

Expr Expr::symbol(std::string name) {
  auto node = std::make_shared<Node>();
  node->op = ExprOp::kSymbol;
  node->text_bytes = 4 * name.size() + 3;  // if every byte must be escaped
  node->text = std::move(name);
  return Expr(std::move(node));
}

Expr Expr::floating(double value) {
  auto node = std::make_shared<Node>();
  node->op = ExprOp::kFloat;
  node->real = value;
  node->text_bytes = 32;
  return Expr(std::move(node));
}

Expr Expr::truth(bool value) {
  auto node = std::make_shared<Node>();
  node->op = ExprOp::kTruth;
  node->truth = value;
  node->text_bytes = 5;
  return Expr(std::move(node));
}

Expr Expr::opaque(std::string text) {
  auto node = std::make_shared<Node>();
  node->op = ExprOp::kOpaque;
  node->text_bytes = 4 * text.size() + 10;
  node->text = std::move(text);
  return Expr(std::move(node));
}

bool Expr::fits(ExprOp op, std::span<const Expr> operands) {
  const std::size_t count = operands.size();
  switch (op) {
    case ExprOp::kConstant:
    case ExprOp::kFloat:
    case ExprOp::kTruth:
    case ExprOp::kSymbol:
    case ExprOp::kOpaque: return false;  // have makers of their own
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kMax:
    case ExprOp::kMin: return count >= 1 && all_may_be(operands, Sort::kNumber);
    case ExprOp::kAnd:
    case ExprOp::kOr: return count >= 1 && all_may_be(operands, Sort::kTruth);
    case ExprOp::kNot: return count == 1 && all_may_be(operands, Sort::kTruth);
    case ExprOp::kWhere: {
      if (count != 3 || !may_be(operands[0], Sort::kTruth)) return false;
      const Sort sort = sort_of(operands[1]);
      return sort == Sort::kUnknown || may_be(operands[2], sort);
    }
    case ExprOp::kEqual:
    case ExprOp::kNotEqual:
      return count == 2 && (all_may_be(operands, Sort::kNumber) || all_may_be(operands, Sort::kTruth));
    case ExprOp::kModularIndexing: return count == 3 && all_may_be(operands, Sort::kNumber);
    case ExprOp::kToFloat:
    case ExprOp::kFloorToInt:
    case ExprOp::kCeilToInt:
    case ExprOp::kTruncToInt:
    case ExprOp::kRoundToInt: return count == 1 && all_may_be(operands, Sort::kNumber);
    default: return count == 2 && all_may_be(operands, Sort::kNumber);
  }
}

Expr Expr::make(ExprOp op, std::vector<Expr> operands) {
  const bool flat = op == ExprOp::kAdd || op == ExprOp::kMul;
  if (flat) operands = arrange_flat(op, operands);
  const bool list = flat || op == ExprOp::kMax || op == ExprOp::kMin || op == ExprOp::kAnd || op == ExprOp::kOr;
  if (list && operands.size() == 1) return operands[0];

  auto node = std::make_shared<Node>();
  node->op = op;
  node->text_bytes = 24;  // the longest name of a function, and its parentheses
  bool literal = true;
  for (const Expr& operand : operands) {
    // Beside the operand's own text: an operator or comma, and parentheses.
    node->text_bytes += 8 + (operand.node_ == nullptr ? 20 : operand.node_->text_bytes);
    if (operand.node_ != nullptr) node->depth = std::max(node->depth, operand.node_->depth + 1);
    literal &= is_literal(operand);
  }
  if (node->depth > kMaxDepth || node->text_bytes > kMaxTextBytes) return opaque("an expression that is too large");
  node->operands = std::move(operands);
  Expr made(std::move(node));
  if (!literal) return made;
  const auto value = made.evaluate_value({});
  if (!value) return made;
  if (const auto* integer = std::get_if<std::int64_t>(&*value)) return *integer;
  if (const double* real = std::get_if<double>(&*value)) return floating(*real);
  return truth(std::get<bool>(*value));
}

ExprOp Expr::op() const { return node_ == nullptr ? ExprOp::kConstant : node_->op; }

std::optional<std::int64_t> Expr::constant() const {
  if (node_ != nullptr) return std::nullopt;
  return constant_;
}

double Expr::real() const { return node_ == nullptr ? 0 : node_->real; }

bool Expr::is_true() const { return node_ != nullptr && node_->truth; }

std::string_view Expr::name() const { return node_ == nullptr ? std::string_view{} : node_->text; }

std::span<const Expr> Expr::operands() const {
  if (node_ == nullptr) return {};
  return node_->operands;
}

std::vector<std::string> Expr::symbols() const {
  std::vector<std::string> found;
  std::vector<const Expr*> open = {this};
  while (!open.empty()) {
    const Expr* expr = open.back();
    open.pop_back();
    if (expr->is_symbol() && std::find(found.begin(), found.end(), expr->name()) == found.end()) {
      found.emplace_back(expr->name());
    }
    const auto inner = expr->operands();
    for (std::size_t i = inner.size(); i-- > 0;) open.push_back(&inner[i]);
  }
  return found;
}

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return constant_ == other.constant_;
  if (node_ == nullptr || other.node_ == nullptr) return false;
  const Node& a = *node_;
  const Node& b = *other.node_;
  return a.op == b.op && a.truth == b.truth && same_bits(a.real, b.real) && a.text == b.text &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end());
}

}  // namespace kpt::ir
