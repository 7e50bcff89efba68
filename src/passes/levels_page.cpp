#include "passes/levels_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "passes/pipeline.h"

namespace kpt {
namespace {

constexpr Level kLevels[] = {Level::kConservative, Level::kBalanced, Level::kAggressive};

Accuracy coarsest(Level level) {
  Accuracy found = Accuracy::kExact;
  for (const PipelineRow& row : pipeline()) {
    if (row.is_in(level)) found = std::max(found, row.accuracy);
  }
  return found;
}

std::string rule_of(Level level) {
  switch (level) {
    case Level::kConservative: return "the base rule holds";
    case Level::kBalanced:
      return fmt::format(
          "the base rule holds, or error ≤ {} × bf16 error (where that is fp64's root mean square or more: and cosine "
          "≥ "
          "{})",
          kBf16Factor, kWrongBf16Cosine);
    case Level::kAggressive: break;
  }
  return fmt::format("the base rule holds, or cosine ≥ {} and root mean square within {} % of fp64's", kLeastCosine,
                     100 * kLengthSlack);
}

// The figures are those of numerics/accuracy.cpp, of a layer above this one; a test there holds them together.
constexpr const char* kRules = R"(
*Error* is the root mean square difference from the model's fp64 run, *plain error* that of the model as exported, *bf16
error* that of the model in plain bfloat16, *cosine* that with fp64. The **base rule**: every element agrees with the
plain run within absolute + relative × its size, or error ≤ factor × plain error + relative / 10 × min(1, root mean
square of fp64). Tolerances are the wider of those of the output's type and of the narrowest floating type that the
model has weights of and computes in:

| type | relative | absolute | factor |
|---|---|---|---|
| float64 | 1e-07 | 1e-07 | 2 |
| float32 | 1.3e-06 | 1e-05 | 2 |
| float16 | 0.001 | 1e-05 | 3 |
| bfloat16 | 0.016 | 1e-05 | 3 |

The factor is at least 3 for outputs of fewer than 1000 elements. Integers, bools and complex numbers must be equal at
every level. NaN or infinity may stand only where the plain run or fp64 has it, and a number only where one of them has
a number; elements where fp64 alone has none are judged by themselves, against the plain run's. `--tolerance X` takes the
place of relative and absolute; at `aggressive` it is a further bound on error / root mean square of fp64. What holds for
padding, for outputs of fewer than 64 elements and for the last token alone is in
[is_my_model_still_right.md](../how_to/is_my_model_still_right.md).

Answers are judged on all draws of inputs. What is timed is timed on the first one alone: passes that are taken out since
the model is faster without them, nodes that take aten's kernel or stay out of 8 bits, and the speed in the report. With
sizes that vary, or inputs of several kinds, give the one that matters for speed first (`--inputs`, `--size`).
)";

}  // namespace

std::string levels_page() {
  std::string page =
      "# Levels\n\n"
      "Which passes run over a model, in which order, and why each stands where it does. Made from the table in\n"
      "`src/passes/pipeline.cpp` by `cmake --build <build folder> --target reference`; a test fails while it is "
      "old.\n\n"
      "A pass that the target cannot use (it lacks the operator, or multiplies no faster in fewer bits) is skipped, "
      "and\n"
      "the report says why. Every pass can be switched off by name. After each one that changed something, what "
      "nobody\n"
      "uses is taken out and the graph is verified.\n\n"
      "## What a pass does to results\n\n"
      "| class | meaning |\n|---|---|\n"
      "| exact | the same operations on the same numbers |\n"
      "| reassociated | the same mathematics in the model's own precision: another order of sums, one rounding less |\n"
      "| bfloat16 | products of bfloat16 numbers, sums in float32 |\n"
      "| int8 | products of 8-bit numbers (integers or FP8), sums in 32 bits; or weights in 8 bits, products in "
      "float32; "
      "scales per row |\n"
      "| int4 | weights in 4 bits, products in float32; scales per group |\n\n"
      "## Levels\n\n"
      "| level | coarsest class | passes | an output passes the gate when |\n|---|---|---|---|\n";
  for (const Level level : kLevels) {
    page += fmt::format("| `{}` | {} | {} | {} |\n", level_name(level), accuracy_name(coarsest(level)),
                        level_passes(level).size(), rule_of(level));
  }
  page += kRules;
  page += "\n## Passes, in order\n\n| pass | what it does | class |";
  for (const Level level : kLevels) page += fmt::format(" {} |", level_name(level));
  page += " why here |\n|---|---|---|---|---|---|---|\n";
  for (const PipelineRow& row : pipeline()) {
    page += fmt::format("| `{}` | {} | {} |", row.pass->name, row.pass->summary, accuracy_name(row.accuracy));
    for (const Level level : kLevels) page += row.is_in(level) ? " yes |" : " |";
    page += fmt::format(" {} |\n", row.reason);
  }
  page +=
      "\nA pass without a yes runs only when it is asked for by name. `quantize_int8` and `quantize_convs_int8` leave "
      "to\n"
      "`assign_bf16` what they do not take: convolutions in groups or of few channels, products so deep that their "
      "sums "
      "leave\n"
      "32 bits, and, where the target has no fast int8 products, all.\n";
  return page;
}

}  // namespace kpt
