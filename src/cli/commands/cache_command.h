// kpt cache ls | stats | gc | verify | clear
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kpt::cli {

void add_cache_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
