#include "base/dynamic_library.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

std::string built(const std::string& name) { return build_dir() + "/test_bin/" + name; }

TEST(DynamicLibrary, FunctionIsFoundAndCanBeCalled) {
  const auto library = DynamicLibrary::open(built("libkpt_base_test_plugin.so"));
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  const auto answer = library->find<int (*)(int)>("kpt_test_plugin_answer");
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer(41), 42);
  EXPECT_EQ(library->path(), built("libkpt_base_test_plugin.so"));
}

TEST(DynamicLibrary, UnknownFunctionIsNull) {
  const auto library = DynamicLibrary::open(built("libkpt_base_test_plugin.so"));
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(library->find<int (*)(int)>("kpt_test_plugin_question"), nullptr);
}

TEST(DynamicLibrary, SonameIsLookedUpByTheLoaderAndThePathSaysWhere) {
  const auto library = DynamicLibrary::open("libm.so.6", DynamicLibrary::Visibility::kGlobal);
  ASSERT_TRUE(library.ok()) << library.status().to_string();
  const auto cosine = library->find<double (*)(double)>("cos");
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_THAT(library->path(), HasSubstr("/"));
}

TEST(DynamicLibrary, MissingFileIsNotFoundByNameAndByPath) {
  for (const std::string& name : {std::string("libkpt_no_such_library.so.7"), built("libkpt_no_such_library.so")}) {
    const auto library = DynamicLibrary::open(name);
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.status().code(), StatusCode::kNotFound) << library.status().to_string();
    EXPECT_THAT(library.status().message(), HasSubstr(name));
  }
}

TEST(DynamicLibrary, MissingDependencyIsAFaultOfTheLibraryThatIsThere) {
  const auto library = DynamicLibrary::open(built("libkpt_base_test_dependent.so"));
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kVendorLibrary) << library.status().to_string();
  EXPECT_THAT(library.status().message(), HasSubstr("libkpt_base_test_dependency.so"));
}

TEST(DynamicLibrary, GarbageEmptyFileAndFolderCannotBeLoaded) {
  const testing::TemporaryFolder folder;
  const auto garbage = folder.path() / "garbage.so";
  std::ofstream(garbage) << "this is no library, though it is long enough to hold the header of one ................";
  const auto empty = folder.path() / "empty.so";
  std::ofstream(empty).flush();
  for (const auto& path : {garbage, empty, folder.path()}) {
    const auto library = DynamicLibrary::open(path.string());
    ASSERT_FALSE(library.ok()) << path;
    EXPECT_EQ(library.status().code(), StatusCode::kVendorLibrary) << library.status().to_string();
  }
}

TEST(DynamicLibrary, EmptyNameIsNotTheProgramItself) {
  const auto library = DynamicLibrary::open("");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt
