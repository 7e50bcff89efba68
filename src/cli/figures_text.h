// How tables and --json show figures that may be absent.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kpt::cli {

inline nlohmann::ordered_json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

inline std::string number_or_dash(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f}", *value) : "-";
}

inline std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

inline std::string percent_or_dash(double part, double all) { return all > 0 ? percent(part / all) : "-"; }

}  // namespace kpt::cli
