#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
  // A file that may grow no further (ulimit -f) is an error of the write, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  kpt::cli::CommandContext context(kpt::Environment::from_process(), std::cout, std::cerr,
                                   ::isatty(STDOUT_FILENO) == 1);
  const int code = kpt::cli::run_command_line(arguments, context);
  std::cout.flush();
  if (std::cout.good()) return code;
  std::cerr << "kpt: the output could not be written\n";
  return kpt::cli::kExitFailed;
}
