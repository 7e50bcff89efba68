#include <utility>

#include "ir/symbolic.h"

namespace kpt::ir {
namespace {

// The same with any factor; without a symbol the factor is 0.
std::optional<LinearForm> find_terms(const Expr& expr) {
  if (const auto constant = expr.constant()) return LinearForm{.symbol = {}, .factor = 0, .offset = *constant};
  if (expr.is_symbol()) return LinearForm{.symbol = expr.name()};
  const bool product = expr.op() == ExprOp::kMul;
  if (!product && expr.op() != ExprOp::kAdd) return std::nullopt;
  LinearForm all{.symbol = {}, .factor = 0, .offset = product ? 1 : 0};
  for (const Expr& operand : expr.operands()) {
    std::optional<LinearForm> term = find_terms(operand);
    if (!term) return std::nullopt;
    bool overflow = false;
    if (product) {
      if (!all.symbol.empty()) std::swap(all, *term);  // `term` has the symbol, if one has
      if (!all.symbol.empty()) return std::nullopt;
      overflow = __builtin_mul_overflow(term->factor, all.offset, &term->factor) ||
                 __builtin_mul_overflow(term->offset, all.offset, &term->offset);
      all = *term;
    } else {
      if (!all.symbol.empty() && !term->symbol.empty() && all.symbol != term->symbol) return std::nullopt;
      if (all.symbol.empty()) all.symbol = term->symbol;
      overflow = __builtin_add_overflow(all.factor, term->factor, &all.factor) ||
                 __builtin_add_overflow(all.offset, term->offset, &all.offset);
    }
    if (overflow) return std::nullopt;
  }
  return all;
}

}  // namespace

std::optional<LinearForm> find_linear(const Expr& expr) {
  const std::optional<LinearForm> form = find_terms(expr);
  return form && form->factor > 0 && !form->symbol.empty() ? form : std::nullopt;
}

std::optional<std::int64_t> LinearForm::solve(std::int64_t value) const {
  std::int64_t rest = 0;
  if (__builtin_sub_overflow(value, offset, &rest) || rest % factor != 0) return std::nullopt;
  return rest / factor;
}

std::optional<std::int64_t> LinearForm::at(std::int64_t symbol_value) const {
  std::int64_t value = 0;
  if (__builtin_mul_overflow(symbol_value, factor, &value) || __builtin_add_overflow(value, offset, &value)) {
    return std::nullopt;
  }
  return value;
}

void bind_size(const Expr& expr, std::int64_t size, Bindings& bindings) {
  if (expr.constant()) return;
  if (expr.is_symbol()) return bindings.set(expr.name(), size);
  const std::optional<LinearForm> form = find_linear(expr);
  if (!form || bindings.find(form->symbol)) return;
  if (const auto value = form->solve(size)) bindings.set(form->symbol, *value);
}

}  // namespace kpt::ir
