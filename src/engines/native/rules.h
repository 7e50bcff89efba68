// The rules, by family of operators; rules.cpp joins the tables.
#pragma once

#include <cstdint>
#include <span>

#include "engines/native/plan_builder.h"

namespace kpt::native {

std::span<const RuleRow> number_rules();
std::span<const RuleRow> view_rules();
std::span<const RuleRow> element_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> attention_rules();
std::span<const RuleRow> row_rules();
std::span<const RuleRow> convolution_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> window_rules();

// Sizes within the symbols' ranges: `first` for the first of them, `step` more for each further one, so that none is
// like another where that is possible.
ir::Bindings trial_sizes(const ir::Graph& graph, std::int64_t first, std::int64_t step);
// Those that nodes are tried with.
inline constexpr std::int64_t kTrialFirst = 3;
inline constexpr std::int64_t kTrialStep = 2;

}  // namespace kpt::native
