// kpt compile: a program for hardware that is not here, and what its compiler says about it.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_compile_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
