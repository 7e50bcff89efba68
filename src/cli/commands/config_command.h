// kpt config show | check | docs
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kpt::cli {

void add_config_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
