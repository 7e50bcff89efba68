// kpt inspect: what a model file holds.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_inspect_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
