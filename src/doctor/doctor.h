// What is here, what works, what is missing and why, and the one command that mends it.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "base/files.h"
#include "config/config.h"
#include "doctor/check.h"

namespace kpt::doctor {

struct Request {
  const Config& config;
  const Environment& environment;
  SystemFiles files;
  std::vector<std::string> only_categories;  // empty: all
};

struct Report {
  std::string timestamp;  // UTC, ISO 8601
  std::vector<Check> checks;
  double seconds = 0;

  int count(State state) const;
  int absent() const;  // of those that pass, the lines that only say that something optional is not here
};

// Runs the checks of each section, sections side by side. Never fails as a whole: what cannot be found out is a line.
// Vendor libraries are only opened in child processes with option probe.timeout_ms as their limit.
Report run(const Request& request);

// True when nothing that is needed is broken; with `strict`, warnings count too.
bool is_healthy(const Report& report, bool strict);

// The schema is docs/reference/doctor.schema.json.
nlohmann::ordered_json to_json(const Report& report, bool strict);

}  // namespace kpt::doctor
