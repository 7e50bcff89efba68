// kpt run: one model, inputs from files or made from a seed, outputs to a file.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_run_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
