#include "base/scratch_folder.h"

#include <unistd.h>

#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

#include "base/files.h"
#include "support/forked_process.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;

std::size_t count_entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ScratchFolder, BesideAFileIsInItsFolderAndGoesWithTheObject) {
  const testing::TemporaryFolder home;
  const fs::path file = home.path() / "made" / "model.kpt";
  {
    const auto scratch = ScratchFolder::make_beside(file);
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    EXPECT_EQ(scratch->path().parent_path(), file.parent_path());
    std::ofstream(scratch->path() / "0.kpt") << "part";
    ASSERT_TRUE(write_file_atomically(file, "x").ok());
    EXPECT_TRUE(fs::exists(scratch->path() / "0.kpt")) << "its writer lives";
    EXPECT_EQ(count_entries(file.parent_path()), 2U);
  }
  EXPECT_EQ(count_entries(file.parent_path()), 1U);
}

TEST(ScratchFolder, WhatAKilledProcessLeavesGoesWithTheNextWrite) {
  const testing::TemporaryFolder home;
  const pid_t writer = testing::start_process([&] {
    const auto scratch = ScratchFolder::make_beside(home.path() / "model.kpt");
    EXPECT_TRUE(scratch.ok());
    std::ofstream(scratch->path() / "0.kpt") << "part";
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(testing::wait_for_process(writer), 128 + SIGKILL);
  ASSERT_EQ(count_entries(home.path()), 1U);
  ASSERT_TRUE(write_file_atomically(home.path() / "other", "x").ok());
  EXPECT_EQ(count_entries(home.path()), 1U);
  EXPECT_TRUE(fs::exists(home.path() / "other"));
}

TEST(ScratchFolder, WhereItCannotBeMadeIsASentence) {
  const testing::TemporaryFolder home;
  std::ofstream(home.path() / "file") << "";
  const auto scratch = ScratchFolder::make_beside(home.path() / "file" / "model.kpt");
  ASSERT_FALSE(scratch.ok());
  EXPECT_NE(scratch.status().message().find("cannot create folder"), std::string::npos) << scratch.status().message();
}

}  // namespace
}  // namespace kpt
