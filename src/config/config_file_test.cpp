#include "config/config_file.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/text.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> sentences;
  for (const ConfigProblem& problem : parse_config_text(text, "f.yaml").problems) {
    sentences.push_back(problem.to_string());
  }
  return sentences;
}

TEST(ConfigFileParsing, NestedAndDottedNamesMeanTheSame) {
  const ConfigFile file = parse_config_text(
      "# comment\npreset: training\nlog:\n  level: debug\n  format: json\nprobe.timeout_ms: 500\nstrict: true\n"
      "probe: {backends: [amd, tpu]}\n",
      "f.yaml");
  ASSERT_THAT(file.problems, SizeIs(0));
  EXPECT_EQ(file.preset, "training");
  EXPECT_EQ(file.preset_line, 2);
  ASSERT_THAT(file.settings, SizeIs(5));
  EXPECT_EQ(file.settings[0].option, OptionId::kLogLevel);
  EXPECT_EQ(file.settings[0].value, OptionValue(std::string("debug")));
  EXPECT_EQ(file.settings[0].line, 4);
  EXPECT_EQ(file.settings[2].value, OptionValue(std::int64_t{500}));
  EXPECT_EQ(file.settings[4].value, OptionValue(std::vector<std::string>{"amd", "tpu"}));
  EXPECT_EQ(file.settings[4].line, 8);
}

TEST(ConfigFileParsing, JsonIsReadToo) {
  const ConfigFile file = parse_config_text(
      "{\n\t\"log\": {\"level\": \"off\"},\n\t\"strict\": false,\n\t\"pjrt.plugins\": [\"a=/b\\u00e9\\/c\"]\n}\n",
      "f.json");
  ASSERT_THAT(file.problems, SizeIs(0)) << file.problems[0].to_string();
  ASSERT_THAT(file.settings, SizeIs(3));
  EXPECT_EQ(file.settings[2].value, OptionValue(std::vector<std::string>{"a=/bé/c"}));
  EXPECT_EQ(file.settings[2].line, 4);
}

TEST(ConfigFileParsing, EmptyTextsSetNothing) {
  for (const char* text :
       {"", "\n", "# only a comment\n", "---\n", "{}", "null", "log:\n", "log: {}\n", "\xef\xbb\xbf"}) {
    const ConfigFile file = parse_config_text(text, "f.yaml");
    EXPECT_THAT(file.problems, SizeIs(0)) << text << file.problems[0].to_string();
    EXPECT_THAT(file.settings, SizeIs(0)) << text;
  }
}

TEST(ConfigFileProblems, UnknownNameHasFileLineKeyAndNearest) {
  EXPECT_THAT(problems_of("strict: true\nlog:\n  lvl: debug\n"),
              ElementsAre("f.yaml:3: unknown option \"log.lvl\", expected an option's name; did you mean log.level?"));
  EXPECT_THAT(
      problems_of("lgo: {level: debug}\n"),
      ElementsAre("f.yaml:1: unknown option \"lgo.level\", expected an option's name; did you mean log.level?"));
  EXPECT_THAT(problems_of("wholly_different_thing: 1\n"), ElementsAre(HasSubstr("'kpt config docs' lists them")));
  EXPECT_THAT(problems_of("log..level: debug\n"), ElementsAre(HasSubstr("did you mean log.level?")));
}

TEST(ConfigFileProblems, AllAreReported) {
  EXPECT_THAT(problems_of("preset: trainig\nlog.level: loud\nprobe.timeout_ms: 5\nstrikt: true\nthreads: 4\n"),
              ElementsAre("f.yaml:1: preset is \"trainig\", expected one of inference, training, development; did you "
                          "mean training?",
                          "f.yaml:2: log.level is \"loud\", expected one of debug, info, warn, error, off",
                          "f.yaml:3: probe.timeout_ms is \"5\", expected a whole number from 100 to 120000",
                          "f.yaml:4: unknown option \"strikt\", expected an option's name; did you mean strict?",
                          "f.yaml:5: threads is a single value, expected a map with some of threads.count"));
}

TEST(ConfigFileProblems, WrongTypesAreNamed) {
  EXPECT_THAT(problems_of("strict: \"true\"\n"),
              ElementsAre("f.yaml:1: strict is the text \"true\", expected true or false"));
  EXPECT_THAT(problems_of("strict: [true]\n"), ElementsAre("f.yaml:1: strict is a list, expected true or false"));
  EXPECT_THAT(problems_of("cache.dir: {a: b}\n"), ElementsAre("f.yaml:1: cache.dir is a map of keys, expected a path"));
  EXPECT_THAT(problems_of("cache.dir:\n"), ElementsAre("f.yaml:1: cache.dir is empty, expected a path"));
  EXPECT_THAT(problems_of("probe.backends: nvidia\n"), ElementsAre(HasSubstr("is a single value, expected a list")));
  EXPECT_THAT(problems_of("probe.backends: [[nvidia]]\n"), ElementsAre(HasSubstr("a list whose item is a list")));
  EXPECT_THAT(problems_of("preset: [training]\n"), ElementsAre(HasSubstr("preset is a list")));
  EXPECT_THAT(problems_of("- log.level\n"), ElementsAre(HasSubstr("f.yaml:1: the file is a list")));
  EXPECT_THAT(problems_of("hello\n"), ElementsAre(HasSubstr("the file is a single value")));
  EXPECT_THAT(problems_of("? [a, b]\n: c\n"), ElementsAre(HasSubstr("a key is a list")));
}

TEST(ConfigFileProblems, RepeatedKeysNameTheFirstLine) {
  EXPECT_THAT(problems_of("strict: true\nstrict: false\n"),
              ElementsAre("f.yaml:2: \"strict\" is given twice, first on line 1"));
  EXPECT_THAT(problems_of("log:\n  level: info\nlog.level: warn\n"),
              ElementsAre("f.yaml:3: \"log.level\" is given twice, first on line 2"));
  EXPECT_THAT(problems_of("log: {level: info}\nlog: {format: json}\n"),
              ElementsAre(HasSubstr("\"log\" is given twice")));
}

TEST(ConfigFileProblems, YamlFeaturesBeyondPlainDataAreRefused) {
  EXPECT_THAT(problems_of("a: &x 1\nb: *x\n"), ElementsAre(StartsWith("f.yaml:1: anchors and aliases")));
  EXPECT_THAT(problems_of("log: &l {level: info}\n"), ElementsAre(HasSubstr("anchors and aliases")));
  EXPECT_THAT(problems_of("strict: !!bool true\n"), ElementsAre("f.yaml:1: tags (!) are not supported"));
  EXPECT_THAT(problems_of("strict: true\n---\nstrict: false\n"),
              ElementsAre(HasSubstr("a second document starts here")));
  EXPECT_THAT(problems_of("log:\n  <<: {level: info}\n"), ElementsAre(HasSubstr("unknown option \"log.<<.level\"")));
}

TEST(ConfigFileProblems, SyntaxErrorsHaveALine) {
  EXPECT_THAT(problems_of("strict: true\nlog: [\n"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(problems_of("log:\n\tlevel: info\n"), ElementsAre(StartsWith("f.yaml:2: not valid YAML")));
  EXPECT_THAT(problems_of("cache.dir: \"\\ud83d\\ude00\"\n"), ElementsAre(StartsWith("f.yaml:1: not valid YAML")));
}

TEST(ConfigFileProblems, BytesThatAreNoTextAreRefused) {
  EXPECT_THAT(problems_of("strict: true\ncache.dir: \xff\n"), ElementsAre(StartsWith("f.yaml:2: not UTF-8")));
  EXPECT_THAT(problems_of(std::string_view("strict: true\n\0", 14)), ElementsAre(StartsWith("f.yaml:2: control")));
  // yaml-cpp takes this byte for the end of the text: what follows would be ignored silently.
  EXPECT_THAT(problems_of("strict: true\n\x04nonsense: 1\n"), ElementsAre(StartsWith("f.yaml:2: control character")));
  EXPECT_THAT(problems_of("cache.dir: \"a\\0b\"\n"), ElementsAre(HasSubstr("NUL")));
  EXPECT_THAT(problems_of("\xff\xfes\0t\0"), ElementsAre(HasSubstr("not UTF-8")));
}

TEST(ConfigFileProblems, SizeDepthAndCountAreBounded) {
  EXPECT_THAT(problems_of(std::string(kMaxConfigBytes + 1, ' ')), ElementsAre(HasSubstr("longer than 1048576 bytes")));
  for (const char* opening : {"[", "{", "{a: ", "- ", "? ", "[{"}) {
    std::string deep;
    while (deep.size() < 200000) deep += opening;
    EXPECT_THAT(problems_of(deep), SizeIs(1)) << opening;
  }
  EXPECT_THAT(problems_of("a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}\n"),
              ElementsAre("f.yaml:1: nested more than 8 levels deep"));
  std::string items = "probe.backends: [";
  for (int i = 0; i < 20000; ++i) items += "amd, ";
  EXPECT_THAT(problems_of(items + "]\n"), ElementsAre(HasSubstr("more than 10000 entries")));
  EXPECT_THAT(problems_of("? " + std::string(5000, 'k') + "\n: 1\n"), ElementsAre(HasSubstr("longer than 200 bytes")));
}

TEST(ConfigFileProblems, TheListOfProblemsIsBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "unknown_" + std::to_string(i) + ": 1\n";
  const auto problems = problems_of(text);
  ASSERT_THAT(problems, SizeIs(101));
  EXPECT_EQ(problems.back(), "f.yaml:101: more problems follow; mend these first");
}

TEST(ConfigFileProblems, BecomeOneStatus) {
  const Status status = to_status(parse_config_text("strikt: true\nlog.level: loud\n", "f.yaml").problems);
  EXPECT_EQ(status.code(), StatusCode::kConfiguration);
  EXPECT_THAT(status.message(), StartsWith("f.yaml:1: unknown option \"strikt\""));
  ASSERT_THAT(status.details(), SizeIs(1));
  EXPECT_EQ(status.details()[0].key, "problem 2");
  EXPECT_THAT(status.details()[0].value, StartsWith("f.yaml:2: log.level is \"loud\""));
}

TEST(ConfigFileReading, MissingAndLongFilesAreProblems) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kpt_config_file_test_" + std::to_string(::getpid()));
  const ConfigFile missing = read_config_file(folder / "none.yaml");
  ASSERT_THAT(missing.problems, SizeIs(1));
  EXPECT_THAT(missing.problems[0].to_string(), HasSubstr("none.yaml"));

  ASSERT_TRUE(write_file_atomically(folder / "long.yaml", std::string(kMaxConfigBytes + 10, ' ')).ok());
  EXPECT_THAT(read_config_file(folder / "long.yaml").problems, SizeIs(1));
  ASSERT_TRUE(write_file_atomically(folder / "good.yaml", "strict: true\n").ok());
  EXPECT_THAT(read_config_file(folder / "good.yaml").settings, SizeIs(1));
  EXPECT_THAT(read_config_file(folder).problems, SizeIs(1));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kpt
