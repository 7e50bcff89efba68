// The rules, by family of operators; rules.cpp joins the tables.
#pragma once

#include <span>

#include "engines/native/plan_builder.h"

namespace kpt::native {

std::span<const RuleRow> view_rules();
std::span<const RuleRow> element_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> row_rules();

}  // namespace kpt::native
