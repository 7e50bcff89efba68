#include "cli/command.h"
#include "cli/commands/bench_command.h"
#include "cli/commands/cache_command.h"
#include "cli/commands/compile_command.h"
#include "cli/commands/config_command.h"
#include "cli/commands/doctor_command.h"
#include "cli/commands/explain_command.h"
#include "cli/commands/inspect_command.h"
#include "cli/commands/optimize_command.h"
#include "cli/commands/profile_command.h"
#include "cli/commands/run_command.h"
#include "cli/commands/validate_command.h"

namespace kpt::cli {

const std::vector<AddCommand>& command_table() {
  static const std::vector<AddCommand> kTable = {
      &add_doctor_command,   &add_inspect_command, &add_optimize_command, &add_run_command,
      &add_validate_command, &add_explain_command, &add_profile_command,  &add_bench_command,
      &add_compile_command,  &add_cache_command,   &add_config_command,
  };
  return kTable;
}

}  // namespace kpt::cli
