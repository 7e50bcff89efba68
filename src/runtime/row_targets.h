// What the checks of rows (batch_rows.h) and of positions (sequence_rows.h) both ask about nodes.
#pragma once

#include <string_view>

#include "ir/symbolic.h"

namespace kpt {

// Each element of the result comes from those of the arguments at its own place, tensors being broadcast together.
// relu_, which writes what relu gives, counts as well.
bool is_pointwise(std::string_view target);

// Writes an argument: relu_, but not __and__.
bool is_written(std::string_view target);

bool mentions(const ir::Expr& expr, std::string_view symbol);

// The symbol, or a product of it and what does not depend on it.
bool is_multiple(const ir::Expr& expr, std::string_view symbol);
// Whether a comparison is true for every value of the symbol from 0 on: both sides are sums, least or greatest of its
// multiples, which grow with it alike, so that 1 tells for all. False also where that is not known.
bool holds_for_all(const ir::Expr& condition, std::string_view symbol);

}  // namespace kpt
