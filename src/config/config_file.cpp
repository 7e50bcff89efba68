#include "config/config_file.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "config/text_check.h"
#include "config/yaml_document.h"

namespace kpt {
namespace {

constexpr std::string_view kPresetKey = "preset";
constexpr std::size_t kMaxKeyBytes = 200;
constexpr std::size_t kMaxProblems = 100;

// "log" is the group of log.level and log.format.
bool is_group(std::string_view path) {
  return std::ranges::any_of(option_table(), [path](const OptionRow& row) {
    return row.name.size() > path.size() && row.name.starts_with(path) && row.name[path.size()] == '.';
  });
}

std::string group_members(std::string_view group) {
  std::vector<std::string> members;
  for (const OptionRow& row : option_table()) {
    if (row.name.starts_with(group) && row.name.substr(group.size()).starts_with('.')) members.emplace_back(row.name);
  }
  return join(members, ", ");
}

std::string_view describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "empty";
    case YamlNode::Kind::kScalar: return "a single value";
    case YamlNode::Kind::kSequence: return "a list";
    case YamlNode::Kind::kMap: return "a map of keys";
  }
  return {};
}

class FileReader {
 public:
  explicit FileReader(std::string_view file_name) : file_name_(one_line(file_name)) {}

  void add_problem(int line, std::string sentence) {
    if (file_.problems.size() > kMaxProblems) return;
    if (file_.problems.size() == kMaxProblems) sentence = "more problems follow; mend these first";
    file_.problems.push_back({line > 0 ? fmt::format("{}:{}", file_name_, line) : file_name_, std::move(sentence)});
  }

  void read(std::string_view text) {
    if (text.size() > kMaxConfigBytes) {
      add_problem(0, fmt::format("longer than {} bytes, which no configuration needs", kMaxConfigBytes));
      return;
    }
    YamlDocument document = parse_yaml(text);
    if (document.error) {
      add_problem(document.error->line, std::move(document.error->sentence));
      return;
    }
    if (!document.root || document.root->kind == YamlNode::Kind::kNull) return;
    if (document.root->kind != YamlNode::Kind::kMap) {
      add_problem(document.root->line, fmt::format("the file is {}, expected option names with values, as in "
                                                   "\"log.level: info\"",
                                                   describe(*document.root)));
      return;
    }
    read_map(*document.root, "");
  }

  ConfigFile take() { return std::move(file_); }

 private:
  void read_map(const YamlNode& map, const std::string& prefix) {
    for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
      const YamlNode& key = map.children[i];
      if (key.kind != YamlNode::Kind::kScalar) {
        add_problem(key.line, fmt::format("a key is {}, expected an option's name", describe(key)));
      } else if (key.text.size() > kMaxKeyBytes) {
        add_problem(key.line, fmt::format("key {} is longer than {} bytes, expected an option's name",
                                          quoted_excerpt(key.text), kMaxKeyBytes));
      } else {
        read_entry(prefix + key.text, key.line, map.children[i + 1]);
      }
    }
  }

  void read_entry(const std::string& path, int line, const YamlNode& node) {
    const auto [earlier, first_time] = lines_.emplace(path, line);
    if (!first_time) {
      add_problem(line, fmt::format("{} is given twice, first on line {}", quoted_excerpt(path), earlier->second));
      return;
    }
    if (path == kPresetKey) {
      read_preset(line, node);
    } else if (const auto option = find_option(path)) {
      read_option(*option, line, node);
    } else if (node.kind == YamlNode::Kind::kMap && !node.children.empty()) {
      // An unknown group is reported through its members: "lgo.level" is nearer to a name than "lgo".
      read_map(node, path + ".");
    } else if (is_group(path)) {
      // "log:" with nothing below it, as when all its lines are commented out, sets nothing.
      if (node.kind == YamlNode::Kind::kNull || node.kind == YamlNode::Kind::kMap) return;
      add_problem(line,
                  fmt::format("{} is {}, expected a map with some of {}", path, describe(node), group_members(path)));
    } else {
      add_problem(line, unknown_option_sentence(path));
    }
  }

  void read_preset(int line, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar) {
      add_problem(line, fmt::format("preset is {}, expected the name of a preset", describe(node)));
    } else if (find_preset(node.text) == nullptr) {
      add_problem(line, unknown_preset_sentence(node.text));
    } else {
      file_.preset = node.text;
      file_.preset_line = line;
    }
  }

  void read_option(OptionId option, int line, const YamlNode& node) {
    Result<OptionValue> value = read_value(option, node);
    if (value.ok()) {
      file_.settings.push_back({option, std::move(value).value(), line});
    } else {
      add_problem(line, value.status().message());
    }
  }

  static Result<OptionValue> read_value(OptionId option, const YamlNode& node) {
    const OptionRow& row = get_row(option);
    const auto wrong = [&row](std::string_view found) {
      return Status(StatusCode::kConfiguration,
                    fmt::format("{} is {}, expected {}", row.name, found, describe_expected(row.domain)));
    };
    if (is_list(row.domain.kind)) {
      if (node.kind != YamlNode::Kind::kSequence) return wrong(describe(node));
      std::vector<std::string> items;
      for (const YamlNode& item : node.children) {
        if (item.kind != YamlNode::Kind::kScalar) return wrong(fmt::format("a list whose item is {}", describe(item)));
        items.push_back(item.text);
      }
      return parse_option_list(option, std::move(items));
    }
    if (node.kind != YamlNode::Kind::kScalar) return wrong(describe(node));
    const OptionKind kind = row.domain.kind;
    const bool is_text = kind == OptionKind::kChoice || kind == OptionKind::kName || kind == OptionKind::kPath;
    if (node.quoted && !is_text) return wrong(fmt::format("the text {}", quoted_excerpt(node.text)));
    return parse_option_scalar(option, node.text);
  }

  std::string file_name_;
  ConfigFile file_;
  std::map<std::string, int> lines_;  // where each key was first seen
};

}  // namespace

Status to_status(const std::vector<ConfigProblem>& problems) {
  Status status(StatusCode::kConfiguration, problems.front().to_string());
  for (std::size_t i = 1; i < problems.size(); ++i) {
    status.with(fmt::format("problem {}", i + 1), problems[i].to_string());
  }
  return status;
}

std::string unknown_option_sentence(std::string_view name) {
  if (const auto nearest = find_nearest(name, option_names())) {
    return fmt::format("unknown option {}, expected an option's name; did you mean {}?", quoted_excerpt(name),
                       *nearest);
  }
  return fmt::format("unknown option {}, expected an option's name; 'kpt config docs' lists them",
                     quoted_excerpt(name));
}

std::string unknown_preset_sentence(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : preset_table()) names.emplace_back(preset.name);
  std::string sentence = fmt::format("preset is {}, expected one of {}", quoted_excerpt(name), join(names, ", "));
  if (const auto nearest = find_nearest(name, names)) sentence += fmt::format("; did you mean {}?", *nearest);
  return sentence;
}

ConfigFile parse_config_text(std::string_view text, std::string_view file_name) {
  FileReader reader(file_name);
  reader.read(text);
  return reader.take();
}

ConfigFile read_config_file(const std::filesystem::path& path) {
  const Result<std::string> text = read_text_file(path, kMaxConfigBytes);
  FileReader reader(path.string());
  if (text.ok()) {
    reader.read(*text);
  } else {
    reader.add_problem(0, one_line(text.status().message()));
  }
  return reader.take();
}

}  // namespace kpt
