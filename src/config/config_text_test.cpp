#include "config/config_text.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "config/automatic.h"
#include "config/config_file.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

Config reload(const std::string& text) {
  const ConfigFile file = parse_config_text(text, "written");
  Config config;
  for (const ConfigProblem& problem : file.problems) ADD_FAILURE() << problem.to_string() << "\n" << text;
  EXPECT_EQ(file.settings.size(), option_table().size()) << text;
  for (const FileSetting& setting : file.settings) {
    config.assign(setting.option, setting.value, {Origin::Kind::kFile, "written", setting.line});
  }
  return config;
}

void expect_round_trip(const Config& config) {
  EXPECT_TRUE(reload(to_yaml(config)).same_values(config)) << to_yaml(config);
  EXPECT_TRUE(reload(to_json(config)).same_values(config)) << to_json(config);
}

// Text of the kinds that break careless writers: YAML punctuation, control characters, line ends, wide characters.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {" ",
                                                   "#",
                                                   ": ",
                                                   "- ",
                                                   "\"",
                                                   "'",
                                                   "\\",
                                                   "\n",
                                                   "\r",
                                                   "\t",
                                                   "{",
                                                   "[",
                                                   "}",
                                                   "]",
                                                   ",",
                                                   "&a",
                                                   "*a",
                                                   "!t",
                                                   "%",
                                                   "@",
                                                   "`",
                                                   "|",
                                                   ">",
                                                   "?",
                                                   "~",
                                                   "null",
                                                   "true",
                                                   "off",
                                                   "0x",
                                                   "1e5",
                                                   "\x01",
                                                   "\x04",
                                                   "\x7f",
                                                   "\x1b",
                                                   "é",
                                                   "€",
                                                   "😀",
                                                   "\xc2\x85",
                                                   "\xe2\x80\xa8",
                                                   "\xef\xbb\xbf",
                                                   "---",
                                                   "..."};
  std::string text;
  const std::size_t count = random() % 12;
  for (std::size_t i = 0; i < count; ++i) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(ConfigText, DefaultsRoundTrip) { expect_round_trip(Config()); }

TEST(ConfigText, AnyTextRoundTrips) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
    Config config;
    const Origin origin{Origin::Kind::kFile, fmt::format("dir\nlog: {{level: off}} {}", random_text(random)), 1};
    config.assign(OptionId::kCacheDir, random_text(random), origin);
    config.assign(
        OptionId::kPjrtPlugins,
        std::vector<std::string>{fmt::format("a=x{}", random_text(random)), fmt::format("b=y{}", random_text(random))},
        origin);
    config.assign(OptionId::kStrict, (random() % 2) == 0, origin);
    config.assign(OptionId::kLogLevel, parse_option(OptionId::kLogLevel, "off").value(), origin);
    expect_round_trip(config);
  }
}

TEST(ConfigText, YamlNestsGroupsAndTellsOrigins) {
  Config config;
  config.assign(OptionId::kLogLevel, std::string("debug"), {Origin::Kind::kEnvironment, "KPT_LOG"});
  const std::string yaml = to_yaml(config);
  EXPECT_THAT(yaml, HasSubstr("log:\n  level: debug  # environment KPT_LOG\n  format: text  # default\ncache:\n"));
  EXPECT_THAT(yaml, HasSubstr("\nstrict: false  # default\nthreads:\n"));
}

TEST(ConfigText, AutomaticValuesAreLeftToTheMachineThatLoadsIt) {
  const Environment environment = Environment::from_map({{"OMP_NUM_THREADS", "1"}});
  Config config;
  config.assign(OptionId::kStrict, true, {Origin::Kind::kFlag, "--set strict"});
  apply_automatic(config, SystemFiles(), environment);
  ASSERT_EQ(config.origin(OptionId::kThreadsCount).kind, Origin::Kind::kAutomatic);
  EXPECT_THAT(to_yaml(config), HasSubstr("\n# threads:\n#   count: 1  # automatic\n"));
  for (const std::string& text : {to_yaml(config), to_json(config)}) {
    const ConfigFile file = parse_config_text(text, "written");
    for (const ConfigProblem& problem : file.problems) ADD_FAILURE() << problem.to_string() << "\n" << text;
    EXPECT_EQ(file.settings.size(), option_table().size() - 1) << text;
    Config loaded;
    for (const FileSetting& setting : file.settings) {
      EXPECT_NE(setting.option, OptionId::kThreadsCount);
      loaded.assign(setting.option, setting.value, {Origin::Kind::kFile, "written", setting.line});
    }
    apply_automatic(loaded, SystemFiles(), environment);
    EXPECT_TRUE(loaded.same_values(config)) << text;
    EXPECT_EQ(to_json(loaded), to_json(config));
    EXPECT_EQ(loaded.origin(OptionId::kThreadsCount).to_string(), "automatic");
  }
  EXPECT_EQ(nlohmann::json::parse(values_json(config)).at("threads").at("count"), 1);
}

// In a group that has other values too only the line is a comment.
TEST(ConfigText, AnAutomaticValueAmongOthersIsAComment) {
  Config config;
  config.assign(OptionId::kLogFormat, std::string("json"), {Origin::Kind::kAutomatic, ""});
  EXPECT_THAT(to_yaml(config), HasSubstr("log:\n  level: warn  # default\n  # format: json  # automatic\n"));
}

TEST(OptionsJson, HasEveryOptionWithItsDefaultAndEveryPreset) {
  const auto json = nlohmann::ordered_json::parse(options_json());
  ASSERT_EQ(json.at("options").size(), option_table().size());
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const auto& option = json.at("options").at(i);
    EXPECT_EQ(option.at("name"), option_table()[i].name);
    EXPECT_EQ(option.at("environment"), option_table()[i].environment);
    EXPECT_FALSE(option.at("type").get<std::string>().empty());
    EXPECT_EQ(option.contains("most"), option.at("type") == "integer");
  }
  const auto& level = json.at("options").at(static_cast<std::size_t>(OptionId::kLogLevel));
  EXPECT_EQ(level.at("default"), "warn");
  EXPECT_EQ(level.at("words").size(), 5U);
  ASSERT_EQ(json.at("presets").size(), preset_table().size());
  EXPECT_EQ(json.at("presets").at(2).at("settings").at("strict"), true);
}

TEST(OptionsPage, IsWhatTheTableMakes) {
  const auto page = read_text_file(std::filesystem::path(source_dir()) / "docs/reference/options.md", 1u << 20);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(*page, options_markdown()) << "bring it up to date: kpt config docs > docs/reference/options.md";
}

TEST(OptionsPage, NamesEveryOptionVariableAndPreset) {
  const std::string page = options_markdown();
  for (const OptionRow& row : option_table()) {
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.name) + "` |"));
    EXPECT_THAT(page, HasSubstr("| `" + std::string(row.environment) + "` |"));
  }
  for (const Preset& preset : preset_table()) EXPECT_THAT(page, HasSubstr("| `" + std::string(preset.name) + "` |"));
}

}  // namespace
}  // namespace kpt
