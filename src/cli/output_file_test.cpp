#include "cli/output_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"

namespace kpt::cli {
namespace {

using ::testing::HasSubstr;

TEST(OutputFile, MayNotBeOneThatIsReadUnderAnyName) {
  const ScratchFolder folder = ScratchFolder::make("kpt-output-").value();
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::ofstream(path("model.pt2")) << "x";
  std::ofstream(path("other.kpt")) << "x";
  std::ofstream(path("other.kpt.npz")) << "x";
  std::filesystem::create_symlink(path("model.pt2"), path("link.kpt"));
  std::filesystem::create_hard_link(path("model.pt2"), path("second.kpt"));
  for (const char* name : {"model.pt2", "./model.pt2", "link.kpt", "second.kpt"}) {
    const Status status = check_output(path(name), {"", path("other.kpt.npz"), path("model.pt2")});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("is read and would be overwritten"));
  }
  for (const char* name : {"other.kpt", "new.kpt", "folder/new.kpt"}) {
    EXPECT_TRUE(check_output(path(name), {path("model.pt2"), path("other.kpt.npz")}).ok()) << name;
  }
  EXPECT_FALSE(check_output(path("model.pt2/below"), {path("model.pt2")}).ok());
  EXPECT_TRUE(check_output("", {path("model.pt2")}).ok()) << "nothing is written";
  EXPECT_TRUE(check_output(path("model.pt2/below"), {path("missing")}).ok()) << "whoever reads it tells of that";
}

}  // namespace
}  // namespace kpt::cli
