#include "support/hardware_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using Json = nlohmann::ordered_json;

// Without the flushes to the disk that write_file_atomically() makes: a fixture has dozens of files.
void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  return Json::parse(file);
}

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& line : content) text += line.get<std::string>() + "\n";
  return text;
}

void write_entry(const std::filesystem::path& path, const Json& entry) {
  std::filesystem::create_directories(path.parent_path());
  if (!entry.is_object()) {
    write_file(path, text_of(entry));
    return;
  }
  if (entry.contains("link")) {
    std::filesystem::create_symlink(entry["link"].get<std::string>(), path);
    return;
  }
  if (entry.value("folder", false)) {
    std::filesystem::create_directories(path);
  } else {
    std::string text = entry.contains("content") ? text_of(entry["content"]) : std::string();
    for (int i = 0; i < entry.value("repeat", 0); ++i) text += entry.at("pattern").get<std::string>();
    write_file(path, text);
  }
  if (entry.contains("mode")) {
    const auto bits = parse_uint(entry["mode"].get<std::string>(), 8);
    if (!bits) throw std::runtime_error("mode is not octal: " + entry["mode"].dump());
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(*bits));
  }
}

std::string with_root(std::string value, const std::string& root) {
  constexpr std::string_view kMark = "$ROOT";
  for (auto at = value.find(kMark); at != std::string::npos; at = value.find(kMark, at + root.size())) {
    value.replace(at, kMark.size(), root);
  }
  return value;
}

std::optional<std::string> compare(const Json& expected, const Json& actual, const std::string& path);

bool has_match(const Json& wanted, const Json& actual) {
  if (actual.is_string()) return actual.get<std::string>().find(wanted.get<std::string>()) != std::string::npos;
  return std::any_of(actual.begin(), actual.end(), [&](const Json& element) {
    return (wanted.is_string() && element.is_string()) ? has_match(wanted, element) : !compare(wanted, element, "");
  });
}

std::string describe(const std::string& path, const std::string& wanted, const Json& actual) {
  return fmt::format("{}: expected {}, got {}", path.empty() ? "/" : path, wanted, actual.dump());
}

std::optional<std::string> compare_rule(const Json& rule, const Json& actual, const std::string& path) {
  for (const auto& [key, value] : rule.items()) {
    if (key != "$size" && key != "$contains" && key != "$absent") {
      throw std::runtime_error(fmt::format("{}: a fixture knows no rule {}", path, key));
    }
  }
  if (rule.contains("$size")) {
    const std::size_t size = actual.is_string() ? actual.get<std::string>().size() : actual.size();
    if (size != rule["$size"].get<std::size_t>()) return describe(path, "size " + rule["$size"].dump(), actual);
  }
  if (rule.contains("$contains") && !has_match(rule["$contains"], actual)) {
    return describe(path, "something with " + rule["$contains"].dump(), actual);
  }
  if (rule.contains("$absent") && has_match(rule["$absent"], actual)) {
    return describe(path, "nothing with " + rule["$absent"].dump(), actual);
  }
  return std::nullopt;
}

std::optional<std::string> compare(const Json& expected, const Json& actual, const std::string& path) {
  if (expected.is_object() && !expected.empty() && expected.begin().key().starts_with("$")) {
    return compare_rule(expected, actual, path);
  }
  if (expected.is_object() && actual.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      if (!actual.contains(key)) return fmt::format("{}/{}: expected {}, but it is missing", path, key, value.dump());
      if (auto difference = compare(value, actual[key], fmt::format("{}/{}", path, key))) return difference;
    }
    return std::nullopt;
  }
  if (expected.is_array() && actual.is_array() && expected.size() == actual.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (auto difference = compare(expected[i], actual[i], fmt::format("{}/{}", path, i))) return difference;
    }
    return std::nullopt;
  }
  return expected == actual ? std::nullopt : std::optional(describe(path, expected.dump(), actual));
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kpt_fixture_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create a temporary folder: " + pattern);
  path_ = pattern;
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  // A folder without permission bits could not be emptied by a normal user.
  for (auto entry = std::filesystem::recursive_directory_iterator(path_, ignored);
       entry != std::filesystem::recursive_directory_iterator(); entry.increment(ignored)) {
    if (ignored) break;
    if (!entry->is_symlink(ignored) && entry->is_directory(ignored)) {
      std::filesystem::permissions(entry->path(), std::filesystem::perms::owner_all, ignored);
    }
  }
  std::filesystem::remove_all(path_, ignored);
}

HardwareFixture HardwareFixture::parse(std::string_view text, const std::string& name) {
  try {
    const Json json = Json::parse(text);
    HardwareFixture fixture;
    fixture.name_ = name;
    fixture.description_ = json.at("description").get<std::string>();
    std::filesystem::create_directories(fixture.root());
    if (json.contains("files")) {
      for (const auto& [path, entry] : json["files"].items()) {
        write_entry(fixture.root() / std::filesystem::path(path).relative_path(), entry);
      }
    }
    std::map<std::string, std::string, std::less<>> variables;
    if (json.contains("environment")) {
      for (const auto& [key, value] : json["environment"].items()) {
        variables[key] = with_root(value.get<std::string>(), fixture.root().string());
      }
    }
    fixture.environment_ = Environment::from_map(std::move(variables));
    if (json.contains("driver")) fixture.driver_ = json["driver"];
    fixture.expect_ = json.at("expect");
    write_file(fixture.driver_file(), fixture.driver_.dump());
    return fixture;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("fixture {}: {}", name, error.what()));
  }
}

HardwareFixture HardwareFixture::load(const std::filesystem::path& path) {
  return parse(read_json(path).dump(), path.stem().string());
}

DetectionContext HardwareFixture::context() const {
  DetectionContext context;
  context.files = SystemFiles(root());
  context.environment = environment_;
  return context;
}

bool HardwareFixture::has_library(std::string_view file_name) const {
  if (!driver_.is_object() || !driver_.contains("libraries")) return true;
  const Json& libraries = driver_["libraries"];
  return std::find(libraries.begin(), libraries.end(), file_name) != libraries.end();
}

std::vector<std::filesystem::path> list_fixtures(std::string_view kind) {
  const auto folder = std::filesystem::path(source_dir()) / "tests" / "data" / "hardware" / kind;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (paths.empty()) throw std::runtime_error("no fixtures in " + folder.string());
  std::ranges::sort(paths);
  return paths;
}

std::vector<std::filesystem::path> list_fixtures_that_return(std::string_view kind) {
  std::vector<std::filesystem::path> paths = list_fixtures(kind);
  std::erase_if(paths, [](const std::filesystem::path& path) {
    const Json json = read_json(path);
    return json.contains("driver") && json["driver"].value("ends_process", false);
  });
  return paths;
}

std::optional<std::string> find_difference(const Json& expected, const Json& actual) {
  return compare(expected, actual, "");
}

}  // namespace kpt::testing
