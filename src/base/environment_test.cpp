#include "base/environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "kpt/errors.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

// Names of ours that a script reads ($(KPT_X), ${KPT_X, $KPT_X, environ.get("KPT_X") or a table tells of (`KPT_X=…`).
void collect_names(std::string_view text, Variables& names) {
  for (auto start = text.find("KPT_"); start != std::string_view::npos; start = text.find("KPT_", start + 1)) {
    const std::string_view before = text.substr(0, start);
    const auto end = std::min(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", start), text.size());
    const bool told = before.ends_with('`') && text.substr(end).starts_with('=');
    const bool read = before.ends_with('$') || before.ends_with("$(") || before.ends_with("${") ||
                      before.ends_with("environ.get(\"") || before.ends_with("environ[\"");
    if (told || read) names.emplace(text.substr(start, end - start), "1");
  }
}

TEST(EnvironmentTable, IsSortedWithoutDuplicatesAndSaysWhoseAndWhat) {
  const auto table = environment_table();
  ASSERT_FALSE(table.empty());
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_LT(i == 0 ? "" : table[i - 1].name, table[i].name);
    EXPECT_FALSE(table[i].meaning.empty()) << table[i].name;
    EXPECT_EQ(table[i].owner == "kpt", table[i].name.starts_with("KPT_")) << table[i].name;
    const auto allowed = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; };
    EXPECT_TRUE(std::ranges::all_of(table[i].name, allowed)) << table[i].name;
  }
}

TEST(Environment, SetValueIsFoundAndUnsetOrEmptyIsNothing) {
  const auto environment = Environment::from_map({{"KPT_LOG", "debug"}, {"KPT_CONFIG", ""}});
  EXPECT_EQ(environment.find("KPT_LOG"), "debug");
  EXPECT_EQ(environment.find("KPT_CONFIG"), std::nullopt);
  EXPECT_EQ(environment.find("HOME"), std::nullopt);
}

TEST(Environment, NameMissingFromTheTableThrowsEvenIfItIsSet) {
  const auto environment = Environment::from_map({{"KPT_UNHEARD_OF", "1"}});
  EXPECT_THROW(environment.find("KPT_UNHEARD_OF"), InternalError);
  EXPECT_THROW(environment.find(""), InternalError);
  EXPECT_THROW(environment.find("KPT_LO"), InternalError);
}

TEST(Environment, NamesLikeOursThatNobodyReadsAreTold) {
  const auto environment = Environment::from_map({{"KPT_LOGG", "debug"},
                                                  {"KPT_CACHE_DIRR", "/x"},
                                                  {"KPT_EMPTY", ""},
                                                  {"KPT_LOG", "info"},
                                                  {"KPT_PYTHON", "/usr/bin/python3"},
                                                  {"KPT_FAKE_CUDA", "/x.json"},
                                                  {"OTHER", "1"}});
  EXPECT_THAT(environment.unknown_names(), ::testing::ElementsAre("KPT_CACHE_DIRR", "KPT_LOGG"));

  ASSERT_EQ(::setenv("KPT_LOGG", "debug", 1), 0);  // NOLINT(concurrency-mt-unsafe): no other thread runs
  ASSERT_EQ(::setenv("KPT_LOGGG", "", 1), 0);      // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(Environment::from_process().unknown_names(),
              ::testing::AllOf(::testing::Contains("KPT_LOGG"), ::testing::Not(::testing::Contains("KPT_LOGGG"))));
  ASSERT_EQ(::unsetenv("KPT_LOGG"), 0);   // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(::unsetenv("KPT_LOGGG"), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_THAT(Environment::from_process().unknown_names(), ::testing::Not(::testing::Contains("KPT_LOGG")));
}

TEST(Environment, NobodyIsWarnedOfWhatTheTreeItselfReads) {
  const std::filesystem::path root = source_dir();
  std::vector<std::filesystem::path> files = {root / "Makefile", root / "CONTRIBUTING.md", root / ".ci/run"};
  for (const char* folder : {"benchmarks", "tests", "tools"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension == ".sh" || extension == ".py") files.push_back(entry.path());
    }
  }
  Variables names;
  for (const auto& file : files) collect_names(read_text_file(file, 1 << 20).value(), names);
  EXPECT_TRUE(names.contains("KPT_FUZZ_CORPUS_KB")) << "the search finds nothing";
  EXPECT_THAT(Environment::from_map(names).unknown_names(), ::testing::IsEmpty()) << "they belong into kOfTheTree";
}

TEST(Environment, SnapshotDoesNotSeeLaterChanges) {
  ASSERT_EQ(::setenv("KPT_PRESET", "training", 1), 0);  // NOLINT(concurrency-mt-unsafe): no other thread runs
  const Environment before = Environment::from_process();
  ASSERT_EQ(::setenv("KPT_PRESET", "inference", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  const Environment after = Environment::from_process();
  ASSERT_EQ(::unsetenv("KPT_PRESET"), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(before.find("KPT_PRESET"), "training");
  EXPECT_EQ(after.find("KPT_PRESET"), "inference");
  EXPECT_EQ(Environment::from_process().find("KPT_PRESET"), std::nullopt);
}

}  // namespace
}  // namespace kpt
