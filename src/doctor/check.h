// One line of the doctor's report.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace kpt::doctor {

// kFail: something that is needed, or that is there to be used, is broken. kWarn: works, but worse than it should.
enum class State { kPass, kWarn, kFail };

std::string_view to_string(State state);  // "pass", "warn", "fail"

struct Check {
  std::string category;  // one of categories()
  std::string name;      // "driver", "gpu 0", …
  State state = State::kPass;
  std::string message = {};         // one sentence
  std::string recommendation = {};  // the one command or action that mends it; empty when nothing is to be done
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
  bool present = true;  // false: the line only says that something optional is not here
};

// Section names in the order of the report.
const std::vector<std::string>& categories();

}  // namespace kpt::doctor
