// Symbolic sizes: integer expressions over named symbols, as torch.export writes them.
//
// Semantics are Python's: floor division, the modulus has the sign of the divisor. Arithmetic is checked; an overflow
// is a failure, never a wrap. An Expr is an immutable value, cheap to copy; safe to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kpt/status.h"

namespace kpt::ir {

// What an expression can be at a point inside: integers, and for the few float and truth-valued heads those too.
using SymValue = std::variant<std::int64_t, double, bool>;

// Symbols and what they stand for. A handful of entries: searched from the front, never allocates after reserve().
class Bindings {
 public:
  void set(std::string_view symbol, std::int64_t value);  // replaces; the text must outlive the bindings
  std::optional<std::int64_t> find(std::string_view symbol) const;
  void clear() { entries_.clear(); }
  void reserve(std::size_t count) { entries_.reserve(count); }
  std::span<const std::pair<std::string_view, std::int64_t>> entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string_view, std::int64_t>> entries_;
};

enum class ExprOp : std::uint8_t {
  kConstant,  // integer
  kFloat,     // floating constant
  kTruth,     // true or false
  kSymbol,
  kAdd,
  kMul,
  kFloorDiv,
  kMod,  // Python's
  kPow,  // integer power, exponent >= 0
  kMax,
  kMin,
  kTrueDiv,  // float
  kToFloat,
  kFloorToInt,
  kCeilToInt,
  kTruncToInt,
  kRoundToInt,
  kModularIndexing,  // (base // divisor) % modulus
  kLeftShift,
  kRightShift,
  kWhere,  // condition, then, else
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAnd,
  kOr,
  kNot,
  kOpaque,  // a head that we do not know: kept as text, cannot be evaluated
};

class Expr {
 public:
  Expr() : Expr(0) {}
  Expr(std::int64_t value) : constant_(value) {}  // NOLINT(google-explicit-constructor)
  static Expr symbol(std::string name);
  static Expr floating(double value);
  static Expr truth(bool value);
  static Expr opaque(std::string text);
  // `operands` must fit the operation: fits() (checked by parse_srepr and parse_expr before they call this). Folds
  // constants where that cannot fail, makes sums of sums and products of products flat, and puts their integer last.
  // What would become deeper than kMaxDepth or longer than kMaxTextBytes is opaque instead.
  static Expr make(ExprOp op, std::vector<Expr> operands);
  // Whether the number of operands is right, and truth values stand only where they make sense.
  static bool fits(ExprOp op, std::span<const Expr> operands);
  static constexpr std::size_t kMaxDepth = 256;
  static constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20U;

  ExprOp op() const;
  std::optional<std::int64_t> constant() const;  // only for kConstant
  double real() const;                           // of a kFloat
  bool is_true() const;                          // of a kTruth
  std::string_view name() const;                 // of a kSymbol; the text of a kOpaque
  std::span<const Expr> operands() const;
  bool is_symbol() const { return op() == ExprOp::kSymbol; }

  // Fails with kInvalidArgument for an unbound symbol (named), division by zero, overflow, a value that is no integer
  // (2.0 is one); with kUnsupported for an opaque head.
  Result<std::int64_t> evaluate(const Bindings& bindings) const;
  Result<SymValue> evaluate_value(const Bindings& bindings) const;

  // Each symbol once, in order of first appearance.
  std::vector<std::string> symbols() const;

  // "s0 * 2 + 1": parse_expr() gives the same expression back.
  std::string to_string() const;
  bool operator==(const Expr& other) const;  // structural; nan equals nan

 private:
  struct Node;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;  // null: the constant
  std::int64_t constant_ = 0;
};

// sympy's srepr, as in `.pt2` files: "Add(Integer(1), Symbol('s77', positive=True, integer=True))". Unknown heads give
// kOpaque; text that is not of the form fails with kCorruptData. Bounded: at most 64 KiB of text and depth 64.
Result<Expr> parse_srepr(std::string_view text);

// The form that Expr::to_string() writes: Python's operators and precedence, and max, min, float, floor, ceil, trunc,
// round, where, modular_indexing and opaque as functions. Fails with kCorruptData. Bounded as Expr::make() is.
Result<Expr> parse_expr(std::string_view text);

// factor * symbol + offset, with a factor above 0: what sizes are that an exporter derives from another one
// (Dim("h") * 2 + 1).
struct LinearForm {
  std::string_view symbol;  // of the expression
  std::int64_t factor = 1;
  std::int64_t offset = 0;
  // Where the form is `value`; nothing when no integer makes it so.
  std::optional<std::int64_t> solve(std::int64_t value) const;
  // The form there; nothing on overflow.
  std::optional<std::int64_t> at(std::int64_t symbol_value) const;
};
// Nothing when an expression is not of this form. A symbol is.
std::optional<LinearForm> find_linear(const Expr& expr);

// What an input's size says of its symbol: of a symbol itself; of a linear form when nothing else has bound it. The
// expression must outlive the bindings.
void bind_size(const Expr& expr, std::int64_t size, Bindings& bindings);

// What a symbol may be; both ends included.
struct SymbolRange {
  std::string name;
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
  bool operator==(const SymbolRange&) const = default;
};

}  // namespace kpt::ir
