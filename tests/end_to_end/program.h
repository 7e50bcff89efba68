// Runs `kpt` from the build tree.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/child_process.h"

namespace kpt::testing {

struct ProgramRun {
  int exit_code = -1;
  std::string out;
  std::string err;
  nlohmann::ordered_json json() const;  // `out` parsed; an empty object and a test failure when it is no JSON
};

// `environment` holds "NAME=value" entries on top of an environment in which no KPT_ variable of the caller is left and
// the user's folders are a scratch folder, so that the developer's own configuration has no influence.
ProgramRun run_kpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

// The same, not started yet: for tests that want another time limit, at which it is killed.
ChildCommand kpt_command(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

// The same for another program.
ProgramRun run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});

// A model that PyTorch 2.15 wrote.
std::string golden(const std::string& name);

// The line of a doctor report with that category and name; null when there is none.
nlohmann::ordered_json find_line(const nlohmann::ordered_json& report, const std::string& category,
                                 const std::string& name);

}  // namespace kpt::testing
