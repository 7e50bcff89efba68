// Expressions inside a longer text.
#pragma once

#include <string>
#include <string_view>

#include "ir/scanner.h"
#include "ir/symbolic.h"

namespace kpt::ir {

// Reads one expression and stops behind it.
Result<Expr> scan_expr(Scanner& scanner);

// A symbol's name as it stands in an expression: s0, or $"two words".
std::string format_symbol(std::string_view name);
// Reads one. Empty when none comes next.
std::string scan_symbol(Scanner& scanner);

}  // namespace kpt::ir
