// kpt bench: how fast a model is, at which sizes, with how much memory, and whether that changed.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_bench_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
