#include "config/config.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/text.h"
#include "config/config_file.h"
#include "config/text_check.h"
#include "config/user_folders.h"
#include "kpt/errors.h"

namespace kpt {
namespace {

// Collects values and problems of all sources, weak ones first.
class Loader {
 public:
  Loader(const ConfigSources& sources, const Environment& environment) : sources_(sources), environment_(environment) {}

  Result<Config> load() {
    const ConfigFile file = read_file();
    apply_preset(file);
    for (const FileSetting& setting : file.settings) {
      config_.assign(setting.option, setting.value, {Origin::Kind::kFile, file_path_.string(), setting.line});
    }
    apply_environment();
    for (const std::string& setting : sources_.settings) apply_setting(setting);
    if (!problems_.empty()) return to_status(problems_);
    return std::move(config_);
  }

 private:
  ConfigFile read_file() {
    const auto from_environment = environment_.find("KPT_CONFIG");
    if (sources_.file) {
      file_path_ = *sources_.file;
    } else if (from_environment) {
      file_path_ = *from_environment;
    } else {
      const auto own = default_config_file(environment_);
      std::error_code error;
      // Only a file that is certainly absent is passed over; one that cannot be reached is a problem to report.
      if (!own || std::filesystem::status(*own, error).type() == std::filesystem::file_type::not_found) return {};
      file_path_ = *own;
    }
    ConfigFile file = read_config_file(file_path_);
    problems_.insert(problems_.end(), file.problems.begin(), file.problems.end());
    return file;
  }

  void apply_preset(const ConfigFile& file) {
    const auto from_environment = environment_.find("KPT_PRESET");
    const Preset* chosen = nullptr;
    if (file.preset) chosen = find_preset(*file.preset);
    if (from_environment) chosen = get_preset(*from_environment, "environment variable KPT_PRESET");
    if (sources_.preset) chosen = get_preset(*sources_.preset, "--preset");
    if (chosen == nullptr) return;
    for (const PresetSetting& setting : chosen->settings) {
      // The table's own texts are valid; a test holds them to it.
      config_.assign(setting.option, parse_option(setting.option, setting.text).value(),
                     {Origin::Kind::kPreset, std::string(chosen->name)});
    }
  }

  const Preset* get_preset(std::string_view name, std::string_view place) {
    const Preset* preset = find_preset(name);
    if (preset == nullptr) problems_.push_back({std::string(place), unknown_preset_sentence(name)});
    return preset;
  }

  void apply_environment() {
    for (std::size_t i = 0; i < option_table().size(); ++i) {
      const std::string variable(option_table()[i].environment);
      const auto text = environment_.find(variable);
      if (!text) continue;
      apply_text(static_cast<OptionId>(i), *text, {Origin::Kind::kEnvironment, variable},
                 "environment variable " + variable);
    }
  }

  void apply_setting(const std::string& setting) {
    const auto equals = setting.find('=');
    const std::string name(trim(std::string_view(setting).substr(0, equals)));
    if (equals == std::string::npos) {
      problems_.push_back({"--set", quoted_excerpt(setting) + " has no value, expected name=value"});
      return;
    }
    const auto option = find_option(name);
    if (!option) {
      problems_.push_back({"--set", unknown_option_sentence(name)});
      return;
    }
    apply_text(*option, std::string_view(setting).substr(equals + 1), {Origin::Kind::kFlag, "--set " + name},
               "--set " + name);
  }

  void apply_text(OptionId option, std::string_view text, Origin origin, std::string place) {
    Result<OptionValue> value = parse_option(option, text);
    if (value.ok()) {
      config_.assign(option, std::move(value).value(), std::move(origin));
    } else {
      problems_.push_back({std::move(place), value.status().message()});
    }
  }

  const ConfigSources& sources_;
  const Environment& environment_;
  std::filesystem::path file_path_;
  Config config_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace

std::string Origin::to_string() const {
  switch (kind) {
    case Kind::kDefault: return "default";
    case Kind::kAutomatic: return "automatic";
    case Kind::kPreset: return "preset " + where;
    case Kind::kFile: return fmt::format("file {}:{}", one_line(where), line);
    case Kind::kEnvironment: return "environment " + where;
    case Kind::kFlag: return "flag " + where;
  }
  return {};
}

Config::Config() {
  entries_.reserve(option_table().size());
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    entries_.push_back({parse_option(static_cast<OptionId>(i), option_table()[i].default_text).value(), Origin{}});
  }
}

bool Config::assign(OptionId id, OptionValue value, Origin origin) {
  Entry& entry = entries_.at(static_cast<std::size_t>(id));
  if (origin.kind < entry.origin.kind) return false;
  if (value.index() != entry.value.index()) {
    throw InternalError(Status(StatusCode::kInternal,
                               fmt::format("a value of another type was assigned to option {}", get_row(id).name)));
  }
  entry = {std::move(value), std::move(origin)};
  return true;
}

bool Config::same_values(const Config& other) const {
  return std::ranges::equal(entries_, other.entries_, {}, &Entry::value, &Entry::value);
}

std::size_t Config::choice_index(OptionId id) const {
  const auto words = get_row(id).domain.words;
  const auto word = std::ranges::find(words, std::get<std::string>(value(id)));
  if (word == words.end()) {
    throw InternalError(
        Status(StatusCode::kInternal, fmt::format("option {} holds no word of its own", get_row(id).name)));
  }
  return static_cast<std::size_t>(word - words.begin());
}

Result<Config> load_config(const ConfigSources& sources, const Environment& environment) {
  return Loader(sources, environment).load();
}

std::optional<std::filesystem::path> default_config_file(const Environment& environment) {
  const auto folder = find_user_folder(environment, "XDG_CONFIG_HOME", ".config");
  if (!folder) return std::nullopt;
  return *folder / "kpt" / "config.yaml";
}

}  // namespace kpt
