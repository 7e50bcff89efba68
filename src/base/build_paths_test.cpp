#include "base/build_paths.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

TEST(BuildPaths, HelperFolderOfTheEnvironmentWins) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "kpt-anything") << "x";
  const auto found = find_helper(Environment::from_map({{"KPT_HELPER_DIR", folder.path().string()}}), "kpt-anything");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(*found, folder.path() / "kpt-anything");
}

TEST(BuildPaths, MissingHelperNamesThePlaceAndTheRemedy) {
  const testing::TemporaryFolder folder;
  const auto found = find_helper(Environment::from_map({{"KPT_HELPER_DIR", folder.path().string()}}), "kpt-anything");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(found.status().message(), HasSubstr((folder.path() / "kpt-anything").string()));
  EXPECT_THAT(found.status().message(), HasSubstr("KPT_HELPER_DIR"));
}

TEST(BuildPaths, WithoutTheVariableHelpersLieBesideTheProgramsFolder) {
  const auto found = find_helper(Environment::from_map({}), "kpt-no-such-helper");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(), HasSubstr(build_dir() + "/libexec/kpt/kpt-no-such-helper"));
}

TEST(BuildPaths, ModulesLieInTheLibraryFolderUnlessTheEnvironmentSaysOtherwise) {
  EXPECT_EQ(module_folder(Environment::from_map({})), std::filesystem::path(build_dir()) / "lib" / "kpt");
  EXPECT_EQ(module_folder(Environment::from_map({{"KPT_MODULE_DIR", "/somewhere/else"}})), "/somewhere/else");
}

TEST(BuildInfo, EveryFactThatABuildHasIsFilledIn) {
  const BuildInfo& info = build_info();
  EXPECT_THAT(std::string(info.version), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(info.commit), ::testing::MatchesRegex("unknown|[0-9a-f]{7,}(-dirty)?"));
  EXPECT_THAT(std::string(info.compiler), HasSubstr(" "));
  for (const std::string_view fact : {info.build_type, info.architecture, info.sanitizer}) EXPECT_FALSE(fact.empty());
}

}  // namespace
}  // namespace kpt
