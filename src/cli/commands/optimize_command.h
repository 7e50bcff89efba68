// kpt optimize: a model in, a faster one out, with the proof that its answers hold.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_optimize_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
