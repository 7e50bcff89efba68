// The configuration: one value per option, and where each came from.
//
// Precedence: flag > environment > file > preset > automatic > default. Automatic tuning stands below everything that a
// user can write, so it never replaces what a user set.
//
// Thread safety: a value; share it const.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/environment.h"
#include "config/option_value.h"
#include "config/options.h"
#include "kpt/status.h"

namespace kpt {

struct Origin {
  // From weak to strong.
  enum class Kind : std::uint8_t { kDefault, kAutomatic, kPreset, kFile, kEnvironment, kFlag };

  Kind kind = Kind::kDefault;
  std::string where;  // preset or variable name, file, flag; empty for kDefault and kAutomatic
  int line = 0;       // of a file, from 1

  // "default", "automatic", "preset training", "file kpt.yaml:3", "environment KPT_LOG", "flag --set log.level".
  std::string to_string() const;
  bool operator==(const Origin&) const = default;
};

class Config {
 public:
  // Every option at its default.
  Config();

  template <typename T>
  T get(Option<T> option) const {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(choice_index(option.id));
    } else {
      return std::get<T>(value(option.id));
    }
  }
  template <typename T>
  const Origin& origin(Option<T> option) const {
    return origin(option.id);
  }

  // The same by position, for code that walks the table.
  const OptionValue& value(OptionId id) const { return entries_.at(static_cast<std::size_t>(id)).value; }
  const Origin& origin(OptionId id) const { return entries_.at(static_cast<std::size_t>(id)).origin; }

  // Takes `value` unless the present one has a stronger origin; says whether it did. The value must be one that
  // option_value.h made for this option.
  bool assign(OptionId id, OptionValue value, Origin origin);

  // True if every option has the same value in both, wherever it came from.
  bool same_values(const Config& other) const;

 private:
  struct Entry {
    OptionValue value;
    Origin origin;
  };
  std::size_t choice_index(OptionId id) const;

  std::vector<Entry> entries_;  // in the order of the table
};

struct ConfigSources {
  std::optional<std::filesystem::path> file;  // --config
  std::optional<std::string> preset;          // --preset
  std::vector<std::string> settings;          // --set, each "name=value"; the last of one name wins
};

// Reads all sources. The file is `sources.file`, else $KPT_CONFIG, else the user's own (default_config_file()) if it is
// there; the preset is `sources.preset`, else $KPT_PRESET, else the file's. Fails with kConfiguration, all problems of
// all sources in it (see to_status() in config_file.h).
Result<Config> load_config(const ConfigSources& sources, const Environment& environment);

// $XDG_CONFIG_HOME/kpt/config.yaml, else ~/.config/kpt/config.yaml; nothing without a home. It need not exist.
std::optional<std::filesystem::path> default_config_file(const Environment& environment);

}  // namespace kpt
