// For tests: this process on a machine that was written down, by its variables.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt::testing {

// Variables of this process, as they were again when it ends.
class ScopedVariables {
 public:
  ScopedVariables() = default;
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  ~ScopedVariables() {
    for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) {
      if (entry->second) {
        ::setenv(entry->first.c_str(), entry->second->c_str(), 1);
      } else {
        ::unsetenv(entry->first.c_str());
      }
    }
  }
  void set(const std::string& name, const std::string& value) {
    const char* present = std::getenv(name.c_str());
    before_.emplace_back(name, present != nullptr ? std::optional<std::string>(present) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  // NOLINTEND(concurrency-mt-unsafe)

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// This process on a recorded machine, of which only `backend` is asked.
class RecordedMachine {
 public:
  RecordedMachine(const std::string& kind, const std::string& name, const std::string& backend)
      : fixture_(HardwareFixture::load(source_dir() + "/tests/data/hardware/" + kind + "/" + name + ".json")) {
    const Environment recorded = fixture_.context().environment;
    for (const EnvironmentVariable& row : environment_table()) {
      if (const auto value = recorded.find(row.name)) variables.set(std::string(row.name), *value);
    }
    variables.set("KPT_SYSTEM_ROOT", fixture_.root().string());
    variables.set("KPT_PROBE_BACKENDS", backend);
    variables.set("LD_LIBRARY_PATH", build_dir() + "/fakes/nvidia");
    variables.set("KPT_FAKE_CUDA", fixture_.driver_file().string());
  }

  ScopedVariables variables;

 private:
  HardwareFixture fixture_;
};

}  // namespace kpt::testing
