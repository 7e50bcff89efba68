#include "config/config_text.h"

#include <functional>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

struct NameParts {
  std::string_view group;  // "log" of log.level, "" of strict
  std::string_view leaf;
};

NameParts split_name(std::string_view name) {
  const auto dot = name.find('.');
  if (dot == std::string_view::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// A cell of a Markdown table: a bar would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string describe_values(const OptionDomain& domain) {
  std::string out;
  switch (domain.kind) {
    case OptionKind::kBool: return "`true`, `false`";
    case OptionKind::kInt: return fmt::format("whole number, {} to {}", domain.least, domain.most);
    case OptionKind::kName: return "name";
    case OptionKind::kPath: return "path";
    case OptionKind::kNamedPaths: return "list of `name=path`";
    case OptionKind::kPrices: out = "list of `word=dollars` of "; break;
    case OptionKind::kWordList: out = "list of "; break;
    case OptionKind::kChoice: break;
  }
  for (const std::string_view word : domain.words) out += fmt::format("`{}`, ", word);
  out.resize(out.size() - 2);
  return out;
}

bool is_automatic(const Config& config, OptionId id) { return config.origin(id).kind == Origin::Kind::kAutomatic; }

bool is_all_automatic(const Config& config, std::string_view group) {
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const bool member = split_name(option_table()[i].name).group == group;
    if (member && !is_automatic(config, static_cast<OptionId>(i))) return false;
  }
  return true;
}

nlohmann::ordered_json json_value(const OptionValue& value) {
  return std::visit([](const auto& held) { return nlohmann::ordered_json(held); }, value);
}

// The values of the options that `wanted` takes, groups as objects.
std::string nest_values(const Config& config, const std::function<bool(OptionId)>& wanted) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const auto id = static_cast<OptionId>(i);
    if (!wanted(id)) continue;
    const auto [group, leaf] = split_name(option_table()[i].name);
    nlohmann::ordered_json& parent = group.empty() ? root : root[std::string(group)];
    parent[std::string(leaf)] = json_value(config.value(id));
  }
  return root.dump(2) + "\n";
}

std::string_view type_name(OptionKind kind) {
  switch (kind) {
    case OptionKind::kBool: return "bool";
    case OptionKind::kInt: return "integer";
    case OptionKind::kChoice: return "word";
    case OptionKind::kName: return "name";
    case OptionKind::kPath: return "path";
    case OptionKind::kWordList: return "words";
    case OptionKind::kNamedPaths: return "named_paths";
    case OptionKind::kPrices: return "prices";
  }
  return "";
}

constexpr std::string_view kIntroduction = R"(# Options

This page is made by `kpt config docs` from the option table in `src/config/options.h`; a test keeps them equal.
`kpt config docs --json` prints the same for machines.

## Where a value comes from

The strongest source wins, and `kpt config show` tells for each value which one it was:

1. flag: `--set log.level=debug` (repeatable; the last one of a name wins)
2. environment: the variable named in the table below; an empty one counts as unset
3. file: `--config FILE`, else `$KPT_CONFIG`, else `$XDG_CONFIG_HOME/kpt/config.yaml`, else `~/.config/kpt/config.yaml`
4. preset: `--preset NAME`, else `$KPT_PRESET`, else the key `preset` of the file
5. automatic: what suits the machine, for options that have such a value
6. default

Automatic values replace defaults only, never what a preset, a file, a variable or a flag says.

## Options

| option | values | default | environment | meaning |
|---|---|---|---|---|
)";

constexpr std::string_view kFilePart = R"(
## The file

YAML, or JSON, which is read as YAML. Options are nested or dotted, whichever is shorter:

```yaml
preset: development
log:
  level: info
probe.timeout_ms: 20000
probe.backends: [nvidia, torch]
pjrt.plugins:
  - cpu=/opt/plugins/xla_cpu_pjrt.so
```

Lists in flags and variables are separated by commas: `KPT_PROBE_BACKENDS=nvidia,torch`. An item that holds a comma can
only be written in a file. Truth values may also be written `yes`/`no`, `on`/`off` or `1`/`0`. A path that starts with
`~/` lies below the home folder; other relative paths start at the current folder.

`kpt config check FILE` prints every problem of a file on its own line, with file, line, key, what was expected and the
nearest valid name. Refused are unknown and repeated keys, anchors, aliases, tags, several documents, text that is not
UTF-8, control characters, JSON escapes of surrogate pairs (write the character itself), more than 8 levels, more than
10000 entries and files over 1 MiB.

`kpt config show --format yaml` (or `json`) prints a file that gives the same values when it is loaded. Automatic values
stand in it as comments (in JSON not at all), so that each machine that loads it finds its own.
)";

}  // namespace

std::string to_yaml(const Config& config) {
  std::string out;
  std::string_view open_group;
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const auto id = static_cast<OptionId>(i);
    const auto [group, leaf] = split_name(option_table()[i].name);
    // A group without a value would be a key that holds nothing.
    const bool silent = !group.empty() && is_all_automatic(config, group);
    if (group != open_group && !group.empty()) out += fmt::format("{}{}:\n", silent ? "# " : "", group);
    open_group = group;
    const std::string indent = group.empty() ? "" : "  ";
    const std::string mark = is_automatic(config, id) ? "# " : "";
    out += fmt::format("{}{}: {}  # {}\n", silent ? mark + indent : indent + mark, leaf, to_yaml(config.value(id)),
                       config.origin(id).to_string());
  }
  return out;
}

std::string to_json(const Config& config) {
  return nest_values(config, [&config](OptionId id) { return !is_automatic(config, id); });
}

std::string values_json(const Config& config) {
  return nest_values(config, [](OptionId) { return true; });
}

std::string options_json() {
  const Config defaults;
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const OptionRow& row = option_table()[i];
    nlohmann::ordered_json option = {{"name", row.name}, {"type", type_name(row.domain.kind)}};
    if (row.domain.kind == OptionKind::kInt) {
      option["least"] = row.domain.least;
      option["most"] = row.domain.most;
    }
    if (!row.domain.words.empty()) option["words"] = row.domain.words;
    option["default"] = json_value(defaults.value(static_cast<OptionId>(i)));
    option["environment"] = row.environment;
    option["meaning"] = row.meaning;
    options.push_back(std::move(option));
  }
  nlohmann::ordered_json presets = nlohmann::ordered_json::array();
  for (const Preset& preset : preset_table()) {
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    for (const PresetSetting& setting : preset.settings) {
      settings[std::string(get_row(setting.option).name)] =
          json_value(parse_option(setting.option, setting.text).value());
    }
    presets.push_back({{"name", preset.name}, {"settings", settings}, {"meaning", preset.meaning}});
  }
  const nlohmann::ordered_json root = {{"options", options}, {"presets", presets}};
  return root.dump(2) + "\n";
}

std::string options_markdown() {
  std::string out(kIntroduction);
  const Config defaults;
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const OptionRow& row = option_table()[i];
    out += fmt::format("| `{}` | {} | `{}` | `{}` | {} |\n", row.name, cell(describe_values(row.domain)),
                       to_yaml(defaults.value(static_cast<OptionId>(i))), row.environment, cell(row.meaning));
  }
  out += "\n## Presets\n\n| preset | sets | for |\n|---|---|---|\n";
  for (const Preset& preset : preset_table()) {
    std::string settings;
    for (const PresetSetting& setting : preset.settings) {
      settings += fmt::format("{}`{}: {}`", settings.empty() ? "" : ", ", get_row(setting.option).name, setting.text);
    }
    out += fmt::format("| `{}` | {} | {} |\n", preset.name, settings, cell(preset.meaning));
  }
  out += kFilePart;
  return out;
}

}  // namespace kpt
