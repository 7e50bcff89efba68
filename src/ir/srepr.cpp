// parse_srepr: sympy's srepr as torch.export writes it.
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "ir/scanner.h"
#include "ir/symbolic.h"

namespace kpt::ir {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{64} << 10U;
constexpr std::size_t kMaxDepth = 64;

struct Head {
  std::string_view name;
  ExprOp op;
};

// Heads whose operands are ours as they stand.
constexpr std::array kHeads = {
    Head{"Max", ExprOp::kMax},
    Head{"Min", ExprOp::kMin},
    Head{"FloorDiv", ExprOp::kFloorDiv},
    Head{"CleanDiv", ExprOp::kFloorDiv},
    Head{"Mod", ExprOp::kMod},
    Head{"PythonMod", ExprOp::kMod},
    Head{"PowByNatural", ExprOp::kPow},
    Head{"IntTrueDiv", ExprOp::kTrueDiv},
    Head{"FloatTrueDiv", ExprOp::kTrueDiv},
    Head{"ToFloat", ExprOp::kToFloat},
    Head{"FloorToInt", ExprOp::kFloorToInt},
    Head{"CeilToInt", ExprOp::kCeilToInt},
    Head{"TruncToInt", ExprOp::kTruncToInt},
    Head{"RoundToInt", ExprOp::kRoundToInt},
    Head{"ModularIndexing", ExprOp::kModularIndexing},
    Head{"LShift", ExprOp::kLeftShift},
    Head{"RShift", ExprOp::kRightShift},
    Head{"Where", ExprOp::kWhere},
    Head{"ITE", ExprOp::kWhere},
    Head{"Equality", ExprOp::kEqual},
    Head{"Eq", ExprOp::kEqual},
    Head{"Unequality", ExprOp::kNotEqual},
    Head{"Ne", ExprOp::kNotEqual},
    Head{"StrictLessThan", ExprOp::kLess},
    Head{"Lt", ExprOp::kLess},
    Head{"LessThan", ExprOp::kLessEqual},
    Head{"Le", ExprOp::kLessEqual},
    Head{"StrictGreaterThan", ExprOp::kGreater},
    Head{"Gt", ExprOp::kGreater},
    Head{"GreaterThan", ExprOp::kGreaterEqual},
    Head{"Ge", ExprOp::kGreaterEqual},
    Head{"And", ExprOp::kAnd},
    Head{"Or", ExprOp::kOr},
    Head{"Not", ExprOp::kNot},
};

// sympy writes a quotient as a product with Rational(1, q) or Pow(x, Integer(-1)). Numerator and denominator are kept
// apart until the whole product is read, so that one division of integers comes out.
struct Fraction {
  Expr numerator;
  Expr denominator = 1;
};

bool is_whole(const Fraction& fraction) { return fraction.denominator == Expr(1); }

Expr negative(const Expr& expr) { return Expr::make(ExprOp::kMul, {expr, -1}); }

// As one expression; a quotient is a float.
Expr divided(const Fraction& fraction) {
  if (is_whole(fraction)) return fraction.numerator;
  return Expr::make(ExprOp::kTrueDiv, {fraction.numerator, fraction.denominator});
}

class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : scanner_(text) {}

  Result<Expr> run() {
    Fraction fraction;
    if (!parse(fraction)) return failure();
    if (!scanner_.at_end()) {
      fail("more text follows");
      return failure();
    }
    return divided(fraction);
  }

 private:
  using Operands = std::vector<Fraction>;

  Status failure() const {
    return {StatusCode::kCorruptData, "a symbolic size breaks its form at byte " + std::to_string(scanner_.position()) +
                                          " of '" + printable(scanner_.text(), 120) + "': " + failure_};
  }
  bool failed() const { return !failure_.empty(); }
  bool fail(std::string_view reason) {
    if (failure_.empty()) failure_ = reason;
    return false;
  }

  bool parse(Fraction& result);
  bool parse_call(std::string_view head, std::size_t start, Fraction& result);
  bool parse_operands(Operands& operands);
  bool parse_integer(std::optional<std::int64_t>& value);
  bool parse_number(std::string_view head, std::size_t start, Fraction& result);
  bool parse_symbol(Fraction& result);
  bool parse_text(std::string& text);
  bool skip_options();
  bool combine(std::string_view head, std::size_t start, Operands operands, Fraction& result);
  bool combine_sum(const Operands& operands, Fraction& result);
  bool combine_product(const Operands& operands, Fraction& result);
  bool combine_power(const Operands& operands, std::size_t start, Fraction& result);
  bool combine_rounded(bool down, const Operands& operands, Fraction& result);
  bool make(ExprOp op, const Operands& operands, Fraction& result);
  bool skip_call();
  void take_opaque(std::size_t start, Fraction& result) {
    result = {Expr::opaque(std::string(scanner_.text().substr(start, scanner_.position() - start)))};
  }

  Scanner scanner_;
  std::size_t depth_ = 0;
  std::string failure_;
};

bool SreprParser::parse(Fraction& result) {
  if (depth_ == kMaxDepth) return fail("it is nested more than 64 deep");
  ++depth_;
  scanner_.skip_space();
  const std::size_t start = scanner_.position();
  (void)scanner_.accept("-");  // "-oo"
  const std::string_view head = scanner_.word(".");
  bool good = true;
  if (head.empty()) {
    good = fail("a name is missing");
  } else if (scanner_.peek() == '(') {
    good = parse_call(head, start, result);
  } else if (head == "true" || head == "True" || head == "false" || head == "False") {
    result = {Expr::truth(head == "true" || head == "True")};
  } else {
    take_opaque(start, result);
  }
  --depth_;
  return good;
}

bool SreprParser::parse_call(std::string_view head, std::size_t start, Fraction& result) {
  if (head == "Integer" || head == "Rational" || head == "Float") return parse_number(head, start, result);
  if (head == "Symbol") return parse_symbol(result);
  constexpr std::array<std::string_view, 8> kOwn = {"Add",      "Mul",          "Pow",   "CeilDiv",
                                                    "Identity", "TruncToFloat", "floor", "ceiling"};
  bool known = false;
  for (const std::string_view name : kOwn) known |= name == head;
  for (const Head& row : kHeads) known |= row.name == head;
  if (!known) {
    if (!skip_call()) return false;
    take_opaque(start, result);
    return true;
  }
  Operands operands;
  return parse_operands(operands) && combine(head, start, std::move(operands), result);
}

bool SreprParser::parse_operands(Operands& operands) {
  if (!scanner_.accept("(")) return fail("'(' is missing");
  if (scanner_.accept(")")) return true;
  do {
    if (!parse(operands.emplace_back())) return false;
  } while (scanner_.accept(","));
  return scanner_.accept(")") || fail("',' or ')' is missing");
}

// An integer of any length; nothing in `value` when it does not fit into 64 bits.
bool SreprParser::parse_integer(std::optional<std::int64_t>& value) {
  scanner_.skip_space();
  const std::string_view rest = scanner_.text().substr(scanner_.position());
  std::size_t end = rest.starts_with("-") ? 1 : 0;
  const std::size_t digits = end;
  while (end < rest.size() && rest[end] >= '0' && rest[end] <= '9') ++end;
  if (end == digits) return fail("an integer is missing");
  value = parse_int(rest.substr(0, end));
  scanner_.go_to(scanner_.position() + end);
  return true;
}

bool SreprParser::parse_number(std::string_view head, std::size_t start, Fraction& result) {
  scanner_.accept("(");
  if (head == "Float") {
    std::string text;
    if (!parse_text(text) || !skip_options()) return false;
    const auto value = parse_double(text);
    if (value) {
      result = {Expr::floating(*value)};
    } else {
      take_opaque(start, result);
    }
    return true;
  }
  std::optional<std::int64_t> numerator;
  std::optional<std::int64_t> denominator = 1;
  if (!parse_integer(numerator)) return false;
  if (head == "Rational" && !(scanner_.accept(",") ? parse_integer(denominator) : fail("',' is missing"))) return false;
  if (!scanner_.accept(")")) return fail("')' is missing");
  if (denominator == 0) return fail("a denominator is zero");
  if (numerator && denominator) {
    result = {*numerator, *denominator};
  } else {
    take_opaque(start, result);
  }
  return true;
}

bool SreprParser::parse_symbol(Fraction& result) {
  scanner_.accept("(");
  std::string name;
  if (!parse_text(name) || !skip_options()) return false;
  if (name.empty()) return fail("a symbol has no name");
  result = {Expr::symbol(std::move(name))};
  return true;
}

// Python's repr of a text. Names and numbers need no escapes but those of quotes and backslashes.
bool SreprParser::parse_text(std::string& text) {
  const char mark = scanner_.peek();
  if (mark != '\'' && mark != '"') return fail("a text in quotes is missing");
  const std::string_view all = scanner_.text();
  std::size_t at = scanner_.position() + 1;
  for (; at < all.size() && all[at] != mark; ++at) {
    if (all[at] == '\\') {
      ++at;
      if (at == all.size() || (all[at] != '\\' && all[at] != '\'' && all[at] != '"')) return fail("an unknown escape");
    }
    text += all[at];
  }
  if (at >= all.size()) return fail("a text does not end");
  scanner_.go_to(at + 1);
  return true;
}

// ", positive=True, precision=53)": what sympy knows beside the name.
bool SreprParser::skip_options() {
  while (scanner_.accept(",")) {
    if (scanner_.word().empty() || !scanner_.accept("=")) return fail("an option is missing");
    std::optional<std::int64_t> number;
    if (scanner_.word().empty() && !parse_integer(number)) return fail("an option has no value");
  }
  return scanner_.accept(")") || fail("',' or ')' is missing");
}

// Passes what stands in parentheses, whatever it is, as long as brackets and quotes match.
bool SreprParser::skip_call() {
  const std::string_view all = scanner_.text();
  std::string open;  // the closing brackets still to come
  for (std::size_t at = scanner_.position(); at < all.size(); ++at) {
    const char c = all[at];
    if (c == '\'' || c == '"') {
      scanner_.go_to(at);
      std::string ignored;
      if (!parse_text(ignored)) return false;
      at = scanner_.position() - 1;
    } else if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : (c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return fail("brackets do not match");
      open.pop_back();
      if (open.empty()) {
        scanner_.go_to(at + 1);
        return true;
      }
    }
  }
  return fail("')' is missing");
}

bool SreprParser::make(ExprOp op, const Operands& operands, Fraction& result) {
  std::vector<Expr> whole;
  for (const Fraction& operand : operands) whole.push_back(divided(operand));
  if (!Expr::fits(op, whole)) return fail("the operands do not fit the operation");
  result = {Expr::make(op, std::move(whole))};
  return true;
}

bool SreprParser::combine(std::string_view head, std::size_t start, Operands operands, Fraction& result) {
  for (const Head& row : kHeads) {
    if (row.name == head) return make(row.op, operands, result);
  }
  if (head == "Add") return combine_sum(operands, result);
  if (head == "Mul") return combine_product(operands, result);
  if (head == "Pow") return combine_power(operands, start, result);
  if (head == "floor" || head == "ceiling") return combine_rounded(head == "floor", operands, result);
  if (head == "CeilDiv") {
    if (!make(ExprOp::kFloorDiv, operands, result)) return false;
    result = {negative(Expr::make(ExprOp::kFloorDiv, {negative(divided(operands[0])), divided(operands[1])}))};
    return true;
  }
  if (head == "TruncToFloat") {
    if (!make(ExprOp::kTruncToInt, operands, result)) return false;
    result = {Expr::make(ExprOp::kToFloat, {result.numerator})};
    return true;
  }
  if (operands.size() != 1) return fail("the operands do not fit the operation");
  result = std::move(operands[0]);  // Identity
  return true;
}

// Over a shared denominator where all are integers, so that ceiling(s/2 + 1/2) is exact.
bool SreprParser::combine_sum(const Operands& operands, Fraction& result) {
  std::int64_t shared = 1;
  bool exact = true;
  for (const Fraction& operand : operands) {
    const auto denominator = operand.denominator.constant();
    exact = exact && denominator && *denominator > 0 &&
            !__builtin_mul_overflow(shared, *denominator / std::gcd(shared, *denominator), &shared);
  }
  if (!make(ExprOp::kAdd, operands, result) || !exact || shared == 1) return !failed();
  std::vector<Expr> numerators;
  for (const Fraction& operand : operands) {
    numerators.push_back(Expr::make(ExprOp::kMul, {operand.numerator, shared / *operand.denominator.constant()}));
  }
  result = {Expr::make(ExprOp::kAdd, std::move(numerators)), shared};
  return true;
}

bool SreprParser::combine_product(const Operands& operands, Fraction& result) {
  std::vector<Expr> numerators;
  std::vector<Expr> denominators;
  for (const Fraction& operand : operands) {
    numerators.push_back(operand.numerator);
    if (!is_whole(operand)) denominators.push_back(operand.denominator);
  }
  if (!Expr::fits(ExprOp::kMul, numerators)) return fail("the operands do not fit the operation");
  result = {Expr::make(ExprOp::kMul, std::move(numerators))};
  if (!denominators.empty()) result.denominator = Expr::make(ExprOp::kMul, std::move(denominators));
  return true;
}

bool SreprParser::combine_power(const Operands& operands, std::size_t start, Fraction& result) {
  if (operands.size() != 2) return fail("the operands do not fit the operation");
  const Fraction& exponent = operands[1];
  if (!is_whole(exponent) || exponent.numerator.op() == ExprOp::kFloat) {  // a root
    take_opaque(start, result);
    return true;
  }
  const auto constant = exponent.numerator.constant();
  if (!constant || *constant >= 0 || *constant == INT64_MIN) return make(ExprOp::kPow, operands, result);
  Fraction power;
  const Fraction positive{-*constant};
  if (!make(ExprOp::kPow, {operands[0], positive}, power)) return false;
  const bool one = *constant == -1;
  result = {1, one ? divided(operands[0]) : power.numerator};
  return true;
}

// The quotient of two integers is rounded exactly, not by way of a float.
bool SreprParser::combine_rounded(bool down, const Operands& operands, Fraction& result) {
  if (!make(down ? ExprOp::kFloorToInt : ExprOp::kCeilToInt, operands, result)) return false;
  const Fraction& operand = operands[0];
  if (is_whole(operand)) return true;
  if (down) {
    result = {Expr::make(ExprOp::kFloorDiv, {operand.numerator, operand.denominator})};
  } else {
    result = {negative(Expr::make(ExprOp::kFloorDiv, {negative(operand.numerator), operand.denominator}))};
  }
  return true;
}

}  // namespace

Result<Expr> parse_srepr(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return Status(StatusCode::kCorruptData, "a symbolic size is longer than 64 KiB");
  }
  return SreprParser(text).run();
}

}  // namespace kpt::ir
