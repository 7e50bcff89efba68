// kpt explain: what was done to a model, and how each of its nodes is executed.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_explain_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
