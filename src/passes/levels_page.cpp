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
      "| int8 | products of 8-bit numbers (integers or FP8), sums in 32 bits; scales per row |\n"
      "| int4 | weights in 4 bits, products in float32; scales per group |\n\n"
      "## Levels\n\n"
      "| level | coarsest class | passes |\n|---|---|---|\n";
  for (const Level level : kLevels) {
    page += fmt::format("| `{}` | {} | {} |\n", level_name(level), accuracy_name(coarsest(level)),
                        level_passes(level).size());
  }
  page += "\n## Passes, in order\n\n| pass | what it does | class |";
  for (const Level level : kLevels) page += fmt::format(" {} |", level_name(level));
  page += " why here |\n|---|---|---|---|---|---|---|\n";
  for (const PipelineRow& row : pipeline()) {
    page += fmt::format("| `{}` | {} | {} |", row.pass->name, row.pass->summary, accuracy_name(row.accuracy));
    for (const Level level : kLevels) page += row.is_in(level) ? " yes |" : " |";
    page += fmt::format(" {} |\n", row.reason);
  }
  page +=
      "\nA pass without a yes runs only when it is asked for by name. `quantize_int8` leaves to `assign_bf16` what it "
      "does\n"
      "not take: convolutions, and, where the target has no fast int8 products, all of them.\n";
  return page;
}

}  // namespace kpt
