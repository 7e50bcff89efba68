// Any bytes as a symbolic size, in both text forms: never a crash, and what is accepted survives writing and reading
// back, with the same value.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "ir/symbolic.h"

namespace {

// nan is the same as nan.
bool same(const kpt::Result<kpt::ir::SymValue>& a, const kpt::Result<kpt::ir::SymValue>& b) {
  if (!a.ok() || !b.ok()) return a.ok() == b.ok();
  const auto* left = std::get_if<double>(&*a);
  const auto* right = std::get_if<double>(&*b);
  if (left != nullptr && right != nullptr && std::isnan(*left)) return std::isnan(*right);
  return *a == *b;
}

void require_round_trip(const kpt::ir::Expr& expr) {
  const auto again = kpt::ir::parse_expr(expr.to_string());
  if (!again.ok() || *again != expr) std::abort();
  kpt::ir::Bindings bindings;
  std::int64_t value = -2;
  const auto symbols = expr.symbols();
  for (const std::string& symbol : symbols) bindings.set(symbol, value += 3);
  if (!same(expr.evaluate_value(bindings), again->evaluate_value(bindings))) std::abort();
  (void)expr.evaluate(bindings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto expr = kpt::ir::parse_srepr(text)) require_round_trip(*expr);
  if (const auto expr = kpt::ir::parse_expr(text)) require_round_trip(*expr);
  return 0;
}
