// kpt profile: where the time of a model's runs goes, as tables and as a timeline.
#pragma once

#include "cli/command.h"

namespace kpt::cli {

void add_profile_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
