// Runs a program to its end or to a time limit. What may crash or hang (vendor libraries, compilers) runs this way.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "kpt/status.h"

namespace kpt {

struct ChildCommand {
  std::vector<std::string> arguments;              // [0] is the program: a path, or a name looked up in PATH
  std::vector<std::string> environment_overrides;  // "NAME=value", on top of this process's environment
  std::chrono::milliseconds time_limit{10000};
  std::size_t max_output_bytes = 4u << 20;  // of stdout and stderr each; more is read and dropped
};

struct ChildOutcome {
  int exit_code = -1;      // meaningful when neither of the two below is set
  int signal = 0;          // the signal that ended it, 0 if it exited
  bool timed_out = false;  // killed at the limit, with its process group
  std::string standard_output;
  std::string standard_error;

  bool succeeded() const { return exit_code == 0 && signal == 0 && !timed_out; }
  // "exit code 3", "killed by signal 11 (Segmentation fault)", "no answer within 2.0 s".
  std::string describe(std::chrono::milliseconds time_limit) const;
};

// Standard input is empty. The child leads its own process group, which is killed at the limit and when the child ends,
// so that grandchildren neither stay behind nor delay the answer by holding the streams (one that made its own session
// escapes). Fails with kNotFound (no such program), kPermissionDenied (not executable) or kIo. Safe to call from
// several threads.
Result<ChildOutcome> run_child(const ChildCommand& command);

}  // namespace kpt
