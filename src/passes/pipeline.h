// The levels as data: which passes, in which order, and why each stands where it does (pipeline.cpp).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "passes/pass.h"

namespace kpt {

enum class Level : std::uint8_t { kConservative, kBalanced, kAggressive };

std::string_view level_name(Level level);
std::optional<Level> find_level(std::string_view name);

// All passes that exist, and those of a level, in order.
std::span<const Pass* const> all_passes();
std::span<const Pass* const> level_passes(Level level);
const Pass* find_pass(std::string_view name);

}  // namespace kpt
