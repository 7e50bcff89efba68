// kpt validate: the same model on several devices, and its optimized form, against fp64 and each other.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_validate_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
