#include "config/options.h"

#include <algorithm>

namespace kpt {
namespace {

constexpr std::array kRows = {
#define KPT_DECLARE_ROW(handle, type, name, fallback, domain, environment, meaning) \
  OptionRow{name, fallback, domain, environment, meaning},
    KPT_OPTIONS(KPT_DECLARE_ROW)
#undef KPT_DECLARE_ROW
};

constexpr std::array kInferenceSettings = {PresetSetting{OptionId::kLogFormat, "json"}};
constexpr std::array kTrainingSettings = {PresetSetting{OptionId::kLogLevel, "info"}};
constexpr std::array kDevelopmentSettings = {PresetSetting{OptionId::kLogLevel, "debug"},
                                             PresetSetting{OptionId::kStrict, "true"}};

constexpr std::array kPresets = {
    Preset{"inference", "serving in production: logs for machines", kInferenceSettings},
    Preset{"training", "long runs: what is loaded, compiled and cached is logged", kTrainingSettings},
    Preset{"development", "working on models or on this library: everything is logged, warnings are failures",
           kDevelopmentSettings},
};

}  // namespace

std::span<const OptionRow> option_table() { return kRows; }

const OptionRow& get_row(OptionId id) { return kRows.at(static_cast<std::size_t>(id)); }

std::optional<OptionId> find_option(std::string_view name) {
  const auto* row = std::ranges::find(kRows, name, &OptionRow::name);
  if (row == kRows.end()) return std::nullopt;
  return static_cast<OptionId>(row - kRows.begin());
}

std::span<const std::string> option_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> all;
    all.reserve(kRows.size());
    for (const OptionRow& row : kRows) all.emplace_back(row.name);
    return all;
  }();
  return kNames;
}

std::span<const Preset> preset_table() { return kPresets; }

const Preset* find_preset(std::string_view name) {
  const auto* preset = std::ranges::find(kPresets, name, &Preset::name);
  return preset == kPresets.end() ? nullptr : preset;
}

}  // namespace kpt
