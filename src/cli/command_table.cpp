#include "cli/command.h"
#include "cli/commands/config_command.h"
#include "cli/commands/doctor_command.h"
#include "cli/commands/inspect_command.h"
#include "cli/commands/run_command.h"

namespace kpt::cli {

const std::vector<AddCommand>& command_table() {
  static const std::vector<AddCommand> kTable = {
      &add_doctor_command,
      &add_inspect_command,
      &add_run_command,
      &add_config_command,
  };
  return kTable;
}

}  // namespace kpt::cli
