// Every environment variable that this project reads stands in one table; nothing else calls getenv.
//
// The table also makes docs/reference/environment.md. Code takes an `Environment` value, so a test passes its own.
// Thread safety: a snapshot is immutable.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kpt {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view owner;  // "kpt", or whose convention we follow: "nvidia", "amd", "tpu", "system", …
  std::string_view meaning;
};

// All variables, sorted by name.
std::span<const EnvironmentVariable> environment_table();

class Environment {
 public:
  // A snapshot of the table's variables as they are now.
  static Environment from_process();
  // For tests: these values and nothing else.
  static Environment from_map(std::map<std::string, std::string, std::less<>> values);

  // The value, or nothing when unset or empty. A name missing from the table breaks an invariant and throws
  // InternalError: it would be a variable that no page documents.
  std::optional<std::string> find(std::string_view name) const;

  // Variables with a value whose names begin with KPT_ and that nobody reads, sorted: slips of the finger.
  const std::vector<std::string>& unknown_names() const { return unknown_names_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> unknown_names_;
};

}  // namespace kpt
