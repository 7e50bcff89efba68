// The levels as data: which passes, in which order, and why each stands where it does (pipeline.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "passes/pass.h"

namespace kpt {

enum class Level : std::uint8_t { kConservative, kBalanced, kAggressive };

std::string_view level_name(Level level);
std::optional<Level> find_level(std::string_view name);

// What a pass may do to results. The gate's tolerance for a level is that of its coarsest pass.
enum class Accuracy : std::uint8_t {
  kExact,         // the same operations on the same numbers
  kReassociated,  // the same mathematics in the model's own precision: another order of sums, one rounding less
  kBfloat16,      // products of bfloat16 numbers
  kInt8,          // products of 8-bit numbers, integers or FP8
  kInt4,          // weights in 4 bits
};
std::string_view accuracy_name(Accuracy accuracy);

// What the accuracy gate asks of outputs beside the rule of numerics/accuracy.h, which holds at every level
// (validation/gate.h).
inline constexpr double kBf16Factor = 3;         // balanced: or at most so many times the error of a plain bf16 run
inline constexpr double kWrongBf16Cosine = 0.9;  // but at least so near in direction where zeros would be within that
inline constexpr double kLeastCosine = 0.99;     // aggressive: or so near in direction to fp64,
inline constexpr double kLengthSlack = 0.1;      // its root mean square off by at most this share

// One line of the pipeline. A pass may stand in several: levels take the lines in order.
struct PipelineRow {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order in which the table is read
  const Pass* pass;
  std::uint8_t levels;      // a bit for each Level; 0: only by name
  std::string_view reason;  // why it stands where it does
  Accuracy accuracy;        // what it does to results

  constexpr bool is_in(Level level) const { return ((levels >> static_cast<unsigned>(level)) & 1U) != 0; }
};
std::span<const PipelineRow> pipeline();

// All passes that exist (each once), and those of a level (as often as they run), in order.
std::span<const Pass* const> all_passes();
std::span<const Pass* const> level_passes(Level level);
const Pass* find_pass(std::string_view name);

}  // namespace kpt
