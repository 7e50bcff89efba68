#include "config/option_value.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/environment.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string failure_of(const Result<OptionValue>& result) { return result.ok() ? "" : result.status().message(); }

TEST(OptionTable, DefaultsAndPresetsAreValid) {
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    const auto value = parse_option(static_cast<OptionId>(i), option_table()[i].default_text);
    EXPECT_TRUE(value.ok()) << failure_of(value);
  }
  for (const Preset& preset : preset_table()) {
    for (const PresetSetting& setting : preset.settings) {
      const auto value = parse_option(setting.option, setting.text);
      EXPECT_TRUE(value.ok()) << preset.name << ": " << failure_of(value);
    }
  }
}

TEST(OptionTable, EveryVariableIsInTheEnvironmentTable) {
  std::set<std::string_view> known;
  for (const EnvironmentVariable& variable : environment_table()) known.insert(variable.name);
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(known.contains(row.environment)) << row.name << " " << row.environment;
  }
}

TEST(OptionTable, NamesAreUniqueAndGroupsAreContiguous) {
  std::set<std::string_view> names;
  std::set<std::string_view> closed_groups;
  std::string_view open_group;
  for (const OptionRow& row : option_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    const std::string_view group = row.name.substr(0, row.name.find('.'));
    if (group != open_group) {
      EXPECT_TRUE(closed_groups.insert(group).second) << "options of group " << group << " do not stand together";
    }
    open_group = group;
  }
}

TEST(OptionTable, NamesAreFoundAndOthersAreNot) {
  EXPECT_EQ(find_option("probe.timeout_ms"), OptionId::kProbeTimeoutMs);
  EXPECT_EQ(find_option("probe"), std::nullopt);
  EXPECT_EQ(find_option(""), std::nullopt);
  EXPECT_NE(find_preset("training"), nullptr);
  EXPECT_EQ(find_preset("Training"), nullptr);
}

TEST(OptionValues, IntegersKeepTheirRange) {
  EXPECT_EQ(parse_option(OptionId::kProbeTimeoutMs, "100").value(), OptionValue(std::int64_t{100}));
  EXPECT_EQ(parse_option(OptionId::kProbeTimeoutMs, "120000").value(), OptionValue(std::int64_t{120000}));
  for (const char* text : {"99", "120001", "-5", "1e3", "10 ms", "", "99999999999999999999", "0x100", "1.5"}) {
    EXPECT_THAT(failure_of(parse_option(OptionId::kProbeTimeoutMs, text)),
                HasSubstr("probe.timeout_ms is \"" + std::string(text).substr(0, 5)))
        << text;
  }
  EXPECT_THAT(failure_of(parse_option(OptionId::kProbeTimeoutMs, "99")),
              HasSubstr("expected a whole number from 100 to 120000"));
}

TEST(OptionValues, TruthHasSeveralSpellings) {
  for (const char* text : {"true", "TRUE", "yes", "on", "1"}) {
    EXPECT_EQ(parse_option(OptionId::kStrict, text).value(), OptionValue(true)) << text;
  }
  for (const char* text : {"false", "False", "no", "off", "0"}) {
    EXPECT_EQ(parse_option(OptionId::kStrict, text).value(), OptionValue(false)) << text;
  }
  EXPECT_EQ(failure_of(parse_option(OptionId::kStrict, "2")), "strict is \"2\", expected true or false");
}

TEST(OptionValues, WrongWordNamesTheNearest) {
  EXPECT_EQ(failure_of(parse_option(OptionId::kLogLevel, "debg")),
            "log.level is \"debg\", expected one of debug, info, warn, error, off; did you mean debug?");
  EXPECT_EQ(
      failure_of(parse_option(OptionId::kProbeBackends, "nvidai,amd")),
      "probe.backends is \"nvidai\", expected a list of nvidia, amd, tpu, pjrt, torch, each at most once; did you "
      "mean nvidia?");
  EXPECT_THAT(failure_of(parse_option(OptionId::kLogLevel, "DEBUG")), HasSubstr("did you mean debug?"));
}

TEST(OptionValues, ListsAreSeparatedByCommas) {
  const auto value = parse_option(OptionId::kProbeBackends, "amd, nvidia").value();
  EXPECT_THAT(std::get<std::vector<std::string>>(value), ElementsAre("amd", "nvidia"));
  EXPECT_EQ(parse_option(OptionId::kProbeBackends, "").value(), OptionValue(std::vector<std::string>{}));
  EXPECT_THAT(failure_of(parse_option(OptionId::kProbeBackends, "amd,amd")), HasSubstr("with \"amd\" twice"));
  EXPECT_FALSE(parse_option(OptionId::kProbeBackends, "amd,").ok());
}

TEST(OptionValues, NamedPathsNeedBothParts) {
  const auto value = parse_option(OptionId::kPjrtPlugins, "cpu=/a=b.so,tpu=/c").value();
  EXPECT_THAT(std::get<std::vector<std::string>>(value), ElementsAre("cpu=/a=b.so", "tpu=/c"));
  for (const char* text : {"cpu", "=/a", "cpu=", ",", "cpu=/a,cpu=/b"}) {
    EXPECT_THAT(failure_of(parse_option(OptionId::kPjrtPlugins, text)), HasSubstr("expected a list of name=path"))
        << text;
  }
}

TEST(OptionValues, NamesAreShortAndPlain) {
  for (const char* text : {"auto", "gfx942", "gfx10-3-generic"}) {
    EXPECT_EQ(parse_option(OptionId::kAmdArchitecture, text).value(), OptionValue(std::string(text)));
  }
  EXPECT_EQ(parse_option(OptionId::kTpuTopology, "v5e:2x2").value(), OptionValue(std::string("v5e:2x2")));
  for (const std::string& text :
       {std::string(), std::string("gfx942 gfx950"), std::string("../a"), std::string(65, 'a')}) {
    EXPECT_THAT(failure_of(parse_option(OptionId::kAmdArchitecture, text)), HasSubstr("expected a name of at most 64"));
  }
}

// Nothing that runs a program, reads or writes a file, or takes NaN away.
TEST(OptionValues, CompileOptionsAreThoseThatCannotDoHarm) {
  EXPECT_TRUE(parse_option(OptionId::kAmdCompileOptions, "-O2,-ffp-contract=off").ok());
  for (const char* text : {"-ffast-math", "-fplugin=/tmp/x.so", "-o/tmp/x", "-include/etc/passwd", "-O3 -o x",
                           "-Xclang", "-mllvm", "@/tmp/options", "-O2,-O2"}) {
    EXPECT_THAT(failure_of(parse_option(OptionId::kAmdCompileOptions, text)),
                HasSubstr("expected a list of -O1, -O2, -O3"))
        << text;
  }
}

TEST(OptionValues, PricesAreNumbersOfKnownGenerations) {
  EXPECT_TRUE(parse_option(OptionId::kTpuPrices, "v5e=1.20,v6e=0").ok());
  EXPECT_TRUE(parse_option(OptionId::kTpuPrices, "").ok());
  for (const char* text : {"v5e", "v5e=", "=1", "v5e=cheap", "v5e=-1", "v5e=inf", "v5e=nan", "v9=1", "v5e=1,v5e=2"}) {
    EXPECT_THAT(failure_of(parse_option(OptionId::kTpuPrices, text)), HasSubstr("a list such as v2=1.20")) << text;
  }
}

TEST(OptionValues, PathsThatCannotBeWrittenBackAreRefused) {
  EXPECT_THAT(failure_of(parse_option(OptionId::kCacheDir, std::string_view("a\0b", 3))), HasSubstr("NUL"));
  EXPECT_THAT(failure_of(parse_option(OptionId::kCacheDir, "a\xff")), HasSubstr("not UTF-8"));
  EXPECT_THAT(failure_of(parse_option(OptionId::kCacheDir, std::string(40000, 'a'))), HasSubstr("40000 bytes"));
  EXPECT_TRUE(parse_option(OptionId::kCacheDir, "/größe\n😀").ok());
}

TEST(OptionValues, YamlFormQuotesWhatNeedsIt) {
  EXPECT_EQ(to_yaml(OptionValue(true)), "true");
  EXPECT_EQ(to_yaml(OptionValue(std::int64_t{-7})), "-7");
  EXPECT_EQ(to_yaml(OptionValue(std::string("/var/cache"))), "/var/cache");
  EXPECT_EQ(to_yaml(OptionValue(std::string("off"))), "\"off\"");
  EXPECT_EQ(to_yaml(OptionValue(std::string())), "\"\"");
  EXPECT_EQ(to_yaml(OptionValue(std::string("a: b # c"))), "\"a: b # c\"");
  EXPECT_EQ(to_yaml(OptionValue(std::vector<std::string>{"amd", "x=/a b"})), "[amd, \"x=/a b\"]");
}

}  // namespace
}  // namespace kpt
