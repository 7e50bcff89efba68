// Writers that are killed, disks that are full, folders without rights: the file is the old one or the new one.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "artifact/artifact_sampling.h"
#include "base/files.h"
#include "support/forked_process.h"
#include "support/hardware_fixture.h"
#include "support/rounds.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::kill_in_a_step;
using testing::random_tensor;
using testing::same_artifact;
using testing::small_artifact;
using testing::start_process;
using testing::TemporaryFolder;
using testing::wait_for_process;

constexpr int kNotAllowed = 77;

class ArtifactFaults : public ::testing::Test {
 protected:
  // Two artifacts that differ in their weights.
  Artifact make(std::size_t number) {
    std::mt19937 random(static_cast<unsigned>(number));
    Artifact made = small_artifact(random);
    made.source = "model " + std::to_string(number);
    made.targets[0].weights["large"] = random_tensor(random, DType::kUInt8, {1 << 18});
    return made;
  }
  std::filesystem::path path() const { return folder_.path() / "model.kpt"; }
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
};

TEST_F(ArtifactFaults, AKilledWriterLeavesTheOldFileOrTheNewOne) {
  const Artifact made[] = {make(0), make(1)};
  ASSERT_TRUE(write_artifact(path(), made[0]).ok());
  int changed = 0;
  int stopped = 0;
  const auto count_leftovers = [&] {
    int leftovers = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      leftovers += file.path().extension() == ".tmp" ? 1 : 0;
    }
    return leftovers;
  };
  std::string last = made[0].source;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);  // a busy disk takes a second a write
  const auto is_enough = [&](int round) { return round >= testing::rounds(100) && changed > 0 && stopped > 0; };
  for (int round = 0; !is_enough(round) && std::chrono::steady_clock::now() < end; ++round) {
    kill_in_a_step(random_, [&](std::size_t i) { return write_artifact(path(), made[i % 2]).ok(); });
    const auto read = read_artifact(path());
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_TRUE(same_artifact(*read, made[0]) || same_artifact(*read, made[1]));
    changed += read->source != last ? 1 : 0;
    last = read->source;
    ASSERT_LE(count_leftovers(), 1);  // each writer removes what the one before it left
    stopped += count_leftovers();
  }
  EXPECT_GT(changed, 0);  // writers got through at times
  EXPECT_GT(stopped, 0);  // and were stopped in the middle at others
  ASSERT_TRUE(write_artifact(path(), made[0]).ok());
  EXPECT_EQ(count_leftovers(), 0);
}

TEST_F(ArtifactFaults, AFullDiskIsATypedErrorAndLeavesTheOldFile) {
  const Artifact small = make(0);
  Artifact large = make(1);
  large.targets[0].weights["larger"] = random_tensor(random_, DType::kUInt8, {1 << 20});
  const pid_t pid = start_process([&] {
    // A small file system of its own, seen by this process only and gone with it.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      ::_exit(kNotAllowed);
    }
    EXPECT_TRUE(write_artifact(path(), small).ok());
    const Status status = write_artifact(path(), large);
    EXPECT_EQ(status.code(), StatusCode::kIo);
    EXPECT_THAT(status.message(), HasSubstr("No space left"));
    EXPECT_TRUE(same_artifact(read_artifact(path()).value(), small));
    const auto files = std::filesystem::directory_iterator(folder_.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  });
  const int code = wait_for_process(pid);
  if (code == kNotAllowed) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(code, 0);
}

TEST_F(ArtifactFaults, AFolderThatCannotBeWrittenIsATypedError) {
  const Artifact made = make(0);
  ASSERT_TRUE(write_artifact(path(), made).ok());
  std::filesystem::permissions(path(), std::filesystem::perms(0444));
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
  const pid_t pid = start_process([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(kNotAllowed);
    EXPECT_EQ(write_artifact(path(), made).code(), StatusCode::kPermissionDenied);
    EXPECT_TRUE(read_artifact(path()).ok());
  });
  const int code = wait_for_process(pid);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  if (code == kNotAllowed) GTEST_SKIP() << "root without the right to change users";
  EXPECT_EQ(code, 0);
}

TEST_F(ArtifactFaults, AFileIsReplacedWhileOthersReadIt) {
  const Artifact made[] = {make(0), make(1)};
  ASSERT_TRUE(write_artifact(path(), made[0]).ok());
  const pid_t writer = start_process([&] {
    for (std::size_t i = 0; i < 60; ++i) EXPECT_TRUE(write_artifact(path(), made[i % 2]).ok());
  });
  for (int round = 0; round < 100; ++round) {
    const auto read = read_artifact(path());
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_TRUE(same_artifact(*read, made[0]) || same_artifact(*read, made[1]));
  }
  EXPECT_EQ(wait_for_process(writer), 0);
}

}  // namespace
}  // namespace kpt
