#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/stray_threads.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  // A file that may grow no further (ulimit -f) is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  kpt::cli::CommandContext context(kpt::Environment::from_process(), std::cout, std::cerr, ::isatty(STDOUT_FILENO) == 1,
                                   ::isatty(STDERR_FILENO) == 1);
  int code = kpt::cli::run_command_line(arguments, context);
  std::cout.flush();
  if (!std::cout.good()) {
    std::cerr << "kpt: the output could not be written\n";
    code = kpt::cli::kExitFailed;
  }
  // A thread that a plugin keeps may use what exit() destroys.
  if (kpt::count_stray_threads() > 0) std::_Exit(code);
  return code;
}
