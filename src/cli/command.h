// What a command gets and how it ends.
//
// A command is a pair of files under commands/ with one function `void add_<verb>_command(CLI::App&, CommandContext&)`
// that declares its flags and a callback; command_table.cpp lists them. A callback parses, makes one library call,
// prints, and calls context.finish(code).
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/environment.h"
#include "cli/exit_code.h"
#include "config/config.h"
#include "kpt/status.h"

namespace kpt::cli {

// Flags that every command understands.
struct GlobalFlags {
  std::optional<std::string> config_file;
  std::optional<std::string> preset;
  std::vector<std::string> settings;  // "key=value"
  bool json = false;
};

class CommandContext {
 public:
  CommandContext(Environment environment, std::ostream& out, std::ostream& err, bool out_is_terminal,
                 bool err_is_terminal = false)
      : environment_(std::move(environment)),
        out_(out),
        err_(err),
        out_is_terminal_(out_is_terminal),
        err_is_terminal_(err_is_terminal) {}

  const Environment& environment() const { return environment_; }
  GlobalFlags& flags() { return flags_; }
  std::ostream& out() { return out_; }  // results
  std::ostream& err() { return err_; }  // errors and progress

  // The configuration from all sources, with automatic values filled in and logging set up accordingly.
  Result<Config> load_config();

  // Whether a person watches the progress; results may go elsewhere.
  bool err_is_terminal() const { return err_is_terminal_; }

  // Colour on `out`: option cli.color, NO_COLOR, and whether a terminal is there.
  bool use_color(const Config& config) const;

  // What was ignored on the way to the result, a sentence each, on `err`.
  void tell(const std::vector<std::string>& notes);

  void finish(int exit_code) { exit_code_ = exit_code; }
  // Prints the failure as one sentence (or, with --json, as an object) and ends with `exit_code`.
  void fail(const Status& status, int exit_code = kExitFailed);
  int exit_code() const { return exit_code_; }

 private:
  Environment environment_;
  std::ostream& out_;
  std::ostream& err_;
  bool out_is_terminal_;
  bool err_is_terminal_;
  GlobalFlags flags_;
  int exit_code_ = kExitOk;
};

using AddCommand = void (*)(CLI::App&, CommandContext&);

// All commands, in the order that `kpt --help` shows them.
const std::vector<AddCommand>& command_table();

// Runs one command line; what main() does, without a process around it.
int run_command_line(const std::vector<std::string>& arguments, CommandContext& context);

}  // namespace kpt::cli
