// Expr::to_string and parse_expr.
#include "ir/expr_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace kpt::ir {
namespace {

// How tightly an expression holds together, as in Python.
enum Level : std::uint8_t { kOr = 1, kAnd, kNot, kComparison, kShift, kSum, kTerm, kUnary, kPower, kPrimary };

struct Infix {
  std::string_view sign;
  ExprOp op;
  Level level;
};

// Longer signs before their beginnings.
constexpr std::array kInfixes = {
    Infix{"//", ExprOp::kFloorDiv, kTerm},
    Infix{"<<", ExprOp::kLeftShift, kShift},
    Infix{">>", ExprOp::kRightShift, kShift},
    Infix{"==", ExprOp::kEqual, kComparison},
    Infix{"!=", ExprOp::kNotEqual, kComparison},
    Infix{"<=", ExprOp::kLessEqual, kComparison},
    Infix{">=", ExprOp::kGreaterEqual, kComparison},
    Infix{"<", ExprOp::kLess, kComparison},
    Infix{">", ExprOp::kGreater, kComparison},
    Infix{"+", ExprOp::kAdd, kSum},
    Infix{"-", ExprOp::kAdd, kSum},
    Infix{"*", ExprOp::kMul, kTerm},
    Infix{"/", ExprOp::kTrueDiv, kTerm},
    Infix{"%", ExprOp::kMod, kTerm},
    Infix{"and", ExprOp::kAnd, kAnd},
    Infix{"or", ExprOp::kOr, kOr},
};

struct Function {
  std::string_view name;
  ExprOp op;
};

constexpr std::array kFunctions = {
    Function{"max", ExprOp::kMax},          Function{"min", ExprOp::kMin},
    Function{"float", ExprOp::kToFloat},    Function{"floor", ExprOp::kFloorToInt},
    Function{"ceil", ExprOp::kCeilToInt},   Function{"trunc", ExprOp::kTruncToInt},
    Function{"round", ExprOp::kRoundToInt}, Function{"modular_indexing", ExprOp::kModularIndexing},
    Function{"where", ExprOp::kWhere},
};

constexpr std::array<std::string_view, 8> kReserved = {"and", "or", "not", "true", "false", "inf", "nan", "opaque"};

const Function* find_function(std::string_view name) {
  const auto* found = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const auto& f) { return f.name == name; });
  return found == kFunctions.end() ? nullptr : found;
}

bool is_reserved(std::string_view name) {
  return find_function(name) != nullptr || std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

// --- writing

void write(const Expr& expr, Level at_least, std::string& out);

void write_list(std::span<const Expr> operands, std::string_view separator, Level at_least, std::string& out) {
  bool first = true;
  for (const Expr& operand : operands) {
    if (!std::exchange(first, false)) out += separator;
    write(operand, at_least, out);
  }
}

// A product with exactly one integer, which is negative, can be written as the negative of another product.
bool is_negative_product(const Expr& expr) {
  if (expr.op() != ExprOp::kMul) return false;
  const auto operands = expr.operands();
  const auto last = operands.back().constant();
  return last && *last < 0 && *last != INT64_MIN && !operands[operands.size() - 2].constant();
}

// The product without its sign.
std::string write_magnitude(const Expr& product) {
  const auto operands = product.operands();
  std::string out;
  write_list(operands.first(operands.size() - 1), " * ", kUnary, out);
  const std::int64_t factor = -*operands.back().constant();
  if (factor != 1) out += " * " + std::to_string(factor);
  return out;
}

// "-2.5 * x" is read as the product of the number -2.5, so a text that starts with a number takes no sign.
bool starts_with_number(std::string_view text) {
  Scanner scanner(text);
  return scanner.number().has_value();
}

void write_product(const Expr& expr, std::string& out) {
  if (is_negative_product(expr)) {
    const std::string magnitude = write_magnitude(expr);
    if (!starts_with_number(magnitude)) {
      out += "-" + magnitude;
      return;
    }
  }
  write_list(expr.operands(), " * ", kUnary, out);
}

void write_sum(const Expr& expr, std::string& out) {
  bool first = true;
  for (const Expr& operand : expr.operands()) {
    const auto constant = operand.constant();
    if (std::exchange(first, false)) {
      write(operand, kTerm, out);
    } else if (is_negative_product(operand)) {
      out += " - " + write_magnitude(operand);
    } else if (constant && *constant < 0 && *constant != INT64_MIN) {
      out += " - " + std::to_string(-*constant);
    } else {
      out += " + ";
      write(operand, kTerm, out);
    }
  }
}

Level level_of(const Expr& expr) {
  switch (expr.op()) {
    case ExprOp::kConstant: return *expr.constant() < 0 ? kUnary : kPrimary;
    case ExprOp::kFloat: return format_double(expr.real())[0] == '-' ? kUnary : kPrimary;
    case ExprOp::kNot: return kNot;
    case ExprOp::kPow: return kPower;
    default: break;
  }
  for (const Infix& infix : kInfixes) {
    if (infix.op == expr.op()) return infix.level;
  }
  return kPrimary;
}

void write_infix(const Expr& expr, std::string& out) {
  const auto* infix = std::find_if(kInfixes.begin(), kInfixes.end(), [&](const Infix& i) { return i.op == expr.op(); });
  const std::string separator = " " + std::string(infix->sign) + " ";
  write_list(expr.operands(), separator, static_cast<Level>(infix->level + 1), out);
}

void write_bare(const Expr& expr, std::string& out) {
  switch (expr.op()) {
    case ExprOp::kConstant: out += std::to_string(*expr.constant()); return;
    case ExprOp::kFloat: out += format_double(expr.real()); return;
    case ExprOp::kTruth: out += expr.is_true() ? "true" : "false"; return;
    case ExprOp::kSymbol: out += format_symbol(expr.name()); return;
    case ExprOp::kOpaque: out += "opaque(" + quote(expr.name()) + ")"; return;
    case ExprOp::kAdd: write_sum(expr, out); return;
    case ExprOp::kMul: write_product(expr, out); return;
    case ExprOp::kNot:
      out += "not ";
      write(expr.operands()[0], kNot, out);
      return;
    case ExprOp::kPow:
      write(expr.operands()[0], kPrimary, out);
      out += " ** ";
      write(expr.operands()[1], kUnary, out);
      return;
    default: break;
  }
  for (const Function& function : kFunctions) {
    if (function.op != expr.op()) continue;
    out += function.name;
    out += "(";
    write_list(expr.operands(), ", ", kOr, out);
    out += ")";
    return;
  }
  write_infix(expr, out);
}

void write(const Expr& expr, Level at_least, std::string& out) {
  const bool parentheses = level_of(expr) < at_least;
  if (parentheses) out += "(";
  write_bare(expr, out);
  if (parentheses) out += ")";
}

// --- reading

class InfixParser {
 public:
  explicit InfixParser(Scanner& scanner) : scanner_(scanner) {}

  // Everything that holds together at least as tightly as `at_least`.
  bool parse(Level at_least, Expr& result);
  Status failure() const {
    const std::size_t end = std::min(scanner_.position(), scanner_.text().size());
    return {StatusCode::kCorruptData,
            "an expression breaks its form at '" + printable(scanner_.text().substr(end), 20) + "': " + failure_};
  }

 private:
  bool fail(std::string_view reason) {
    if (failure_.empty()) failure_ = reason;
    return false;
  }
  bool make(ExprOp op, std::vector<Expr> operands, Expr& result) {
    if (!Expr::fits(op, operands)) return fail("the operands do not fit the operation");
    result = Expr::make(op, std::move(operands));
    return true;
  }

  const Infix* peek_infix();
  bool parse_run(const Infix& infix, Expr& left);
  bool parse_prefix(Expr& result);
  bool parse_primary(Expr& result);
  bool parse_call(const Function& function, Expr& result);

  Scanner& scanner_;
  std::size_t depth_ = 0;
  std::string failure_;
};

const Infix* InfixParser::peek_infix() {
  if (scanner_.starts_with("**")) return nullptr;  // only behind a primary expression, which has taken it
  const std::string_view word = scanner_.peek_word();
  for (const Infix& infix : kInfixes) {
    if (word.empty() ? scanner_.starts_with(infix.sign) : word == infix.sign) return &infix;
  }
  return nullptr;
}

bool InfixParser::parse(Level at_least, Expr& result) {
  if (!parse_prefix(result)) return false;
  while (const Infix* infix = peek_infix()) {
    if (infix->level < at_least) break;
    if (!parse_run(*infix, result)) return false;
  }
  return true;
}

// `left`, then one operator and its right side; of a sum, product, "and" or "or" as many as follow one another, because
// their operands are one list.
bool InfixParser::parse_run(const Infix& infix, Expr& left) {
  const bool list =
      infix.op == ExprOp::kAdd || infix.op == ExprOp::kMul || infix.op == ExprOp::kAnd || infix.op == ExprOp::kOr;
  std::vector<Expr> operands = {left};
  const Infix* next = &infix;
  while (next != nullptr && next->op == infix.op && (list || operands.size() == 1)) {
    scanner_.accept(next->sign);
    Expr right;
    if (!parse(static_cast<Level>(infix.level + 1), right)) return false;
    if (next->sign == "-" && !make(ExprOp::kMul, {right, -1}, right)) return false;
    operands.push_back(std::move(right));
    next = peek_infix();
  }
  if (infix.level == kComparison && next != nullptr && next->level == kComparison) {
    return fail("comparisons in a row need parentheses");
  }
  return make(infix.op, std::move(operands), left);
}

bool InfixParser::parse_prefix(Expr& result) {
  // A level of an expression can take two here: its parentheses, and its sign or exponent.
  if (++depth_ > 2 * Expr::kMaxDepth + 2) return fail("it is nested too deeply");
  bool good = false;
  if (scanner_.accept_word("not")) {
    good = parse(kNot, result) && make(ExprOp::kNot, {result}, result);
  } else if (auto number = scanner_.number()) {
    if (const double* real = std::get_if<double>(&*number)) {
      result = Expr::floating(*real);
    } else {
      result = std::get<std::int64_t>(*number);
    }
    good = true;
  } else if (scanner_.accept("-")) {
    good = parse_prefix(result) && make(ExprOp::kMul, {result, -1}, result);
  } else {
    good = parse_primary(result);
  }
  if (good && scanner_.accept("**")) {
    Expr exponent;
    good = parse_prefix(exponent) && make(ExprOp::kPow, {result, exponent}, result);
  }
  --depth_;
  return good;
}

bool InfixParser::parse_primary(Expr& result) {
  if (scanner_.accept("(")) {
    return parse(kOr, result) && (scanner_.accept(")") || fail("')' is missing"));
  }
  const std::string_view word = scanner_.peek_word();
  if (const Function* function = find_function(word)) return parse_call(*function, result);
  if (scanner_.accept_word("opaque")) {
    if (!scanner_.accept("(")) return fail("'(' is missing");
    const auto text = scanner_.quoted();
    if (!text || !scanner_.accept(")")) return fail("opaque needs a text in quotes");
    result = Expr::opaque(*text);
    return true;
  }
  if (word == "true" || word == "false") {
    result = Expr::truth(word == "true");
    return scanner_.accept_word(word);
  }
  const std::string symbol = scan_symbol(scanner_);
  if (symbol.empty()) return fail("a number, a symbol or '(' is missing");
  result = Expr::symbol(symbol);
  return true;
}

bool InfixParser::parse_call(const Function& function, Expr& result) {
  scanner_.accept_word(function.name);
  if (!scanner_.accept("(")) return fail("'(' is missing");
  std::vector<Expr> operands;
  do {
    if (!parse(kOr, operands.emplace_back())) return false;
  } while (scanner_.accept(","));
  if (!scanner_.accept(")")) return fail("')' is missing");
  return make(function.op, std::move(operands), result);
}

}  // namespace

std::string Expr::to_string() const {
  std::string text;
  write_bare(*this, text);
  return text;
}

std::string format_symbol(std::string_view name) {
  return is_word(name) && !is_reserved(name) ? std::string(name) : "$" + quote(name);
}

std::string scan_symbol(Scanner& scanner) {
  if (scanner.accept("$")) return scanner.quoted().value_or("");
  if (is_reserved(scanner.peek_word())) return {};
  return std::string(scanner.word());
}

Result<Expr> scan_expr(Scanner& scanner) {
  InfixParser parser(scanner);
  Expr result;
  if (!parser.parse(kOr, result)) return parser.failure();
  return result;
}

Result<Expr> parse_expr(std::string_view text) {
  if (text.size() > Expr::kMaxTextBytes) {
    return Status(StatusCode::kCorruptData, "an expression is longer than 1 MiB");
  }
  Scanner scanner(text);
  KPT_ASSIGN_OR_RETURN(Expr result, scan_expr(scanner));
  if (!scanner.at_end()) {
    return Status(StatusCode::kCorruptData,
                  "an expression is followed by '" + printable(text.substr(scanner.position()), 20) + "'");
  }
  return result;
}

}  // namespace kpt::ir
