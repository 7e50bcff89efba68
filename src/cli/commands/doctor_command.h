#pragma once

#include "cli/command.h"

namespace kpt::cli {

// kpt doctor: what this machine can do, what is missing and how to mend it.
void add_doctor_command(CLI::App& app, CommandContext& context);

}  // namespace kpt::cli
