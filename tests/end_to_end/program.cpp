#include "program.h"

#include <gtest/gtest.h>

#include "base/environment.h"
#include "hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::testing {

nlohmann::ordered_json ProgramRun::json() const {
  auto parsed = nlohmann::ordered_json::parse(out, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    ADD_FAILURE() << "no JSON: " << out << err;
    return nlohmann::ordered_json::object();
  }
  return parsed;
}

namespace {

std::vector<std::string> with_kpt(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {build_dir() + "/bin/kpt"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

ChildCommand make_command(const std::vector<std::string>& program, const std::vector<std::string>& environment) {
  static const TemporaryFolder kHome;
  ChildCommand command;
  command.arguments = program;
  command.time_limit = std::chrono::seconds(120);
  for (const EnvironmentVariable& row : environment_table()) {
    if (row.owner == "kpt") command.environment_overrides.push_back(std::string(row.name) + "=");
  }
  for (const char* name : {"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"}) {
    command.environment_overrides.push_back(std::string(name) + "=" + kHome.path().string());
  }
  for (const std::string& entry : environment) {
    std::erase_if(command.environment_overrides, [&](const std::string& other) {
      return other.substr(0, other.find('=')) == entry.substr(0, entry.find('='));
    });
    command.environment_overrides.push_back(entry);
  }
  return command;
}

}  // namespace

ChildCommand kpt_command(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  return make_command(with_kpt(arguments), environment);
}

ProgramRun run_kpt(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  return run_program(with_kpt(arguments), environment);
}

ProgramRun run_program(const std::vector<std::string>& program, const std::vector<std::string>& environment) {
  const ChildCommand command = make_command(program, environment);
  const Result<ChildOutcome> outcome = run_child(command);
  if (!outcome.ok()) {
    ADD_FAILURE() << outcome.status().to_string();
    return {};
  }
  EXPECT_FALSE(outcome->timed_out) << outcome->standard_error;
  EXPECT_EQ(outcome->signal, 0) << outcome->standard_error;
  return {outcome->exit_code, outcome->standard_output, outcome->standard_error};
}

std::string golden(const std::string& name) { return source_dir() + "/tests/golden/pt2/2.15.0/" + name + ".pt2"; }

nlohmann::ordered_json find_line(const nlohmann::ordered_json& report, const std::string& category,
                                 const std::string& name) {
  for (const auto& line : report.at("diagnostics")) {
    if (line.at("category") == category && line.at("name") == name) return line;
  }
  return nullptr;
}

}  // namespace kpt::testing
