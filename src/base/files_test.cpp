#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/forked_process.h"
#include "support/hardware_fixture.h"
#include "support/open_descriptors.h"

namespace kpt {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  // Temporary files that a finished or failed write must not leave.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }

 private:
  testing::TemporaryFolder folder_;
};

// Runs `body` in a child that permission bits bind, and gives its exit code; -1 if there is no such user.
template <typename Body>
int run_unprivileged(Body body) {
  const int code = testing::wait_for_process(testing::start_process([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(255);
    ::_exit(body());
  }));
  return code == 255 ? -1 : code;
}

TEST_F(Files, WhatIsWrittenIsRead) {
  for (const std::string& content :
       {std::string(), std::string("text\n"), std::string("a\0b\xff", 4), std::string(3'000'001, 'x')}) {
    ASSERT_TRUE(write_file_atomically(path("file"), content).ok());
    const auto read = read_text_file(path("file"), content.size());
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, content);
  }
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(Files, PiecesAppearTogetherAtCommit) {
  ASSERT_TRUE(write_file_atomically(path("below/file"), "old").ok());
  auto file = AtomicFile::create(path("below/file"));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const std::size_t descriptors = open_descriptors();
  for (const char* piece : {"one ", "", "two ", "three"}) ASSERT_TRUE(file->write(piece).ok());
  EXPECT_EQ(read_text_file(path("below/file"), 100).value(), "old");
  AtomicFile moved = std::move(file).value();
  ASSERT_TRUE(moved.commit().ok());
  EXPECT_EQ(read_text_file(path("below/file"), 100).value(), "one two three");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("below")), fs::directory_iterator()), 1);
  EXPECT_EQ(open_descriptors(), descriptors - 1);
}

TEST_F(Files, PiecesWithoutCommitLeaveNothing) {
  const std::size_t descriptors = open_descriptors();
  {
    auto file = AtomicFile::create(path("file"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("content").ok());
    EXPECT_EQ(names().size(), 1U) << "a temporary file";
  }
  EXPECT_TRUE(names().empty());
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(Files, ReadingStopsAtTheLimit) {
  ASSERT_TRUE(write_file_atomically(path("file"), std::string(20000, 'x')).ok());
  EXPECT_TRUE(read_text_file(path("file"), 20000).ok());
  const auto read = read_text_file(path("file"), 19999);
  EXPECT_EQ(read.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(read.status().message(), HasSubstr("19.5 KiB"));
  EXPECT_EQ(read_text_file("/dev/zero", 1 << 20).status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(read_text_file("/dev/null", 0).ok());
}

TEST_F(Files, FileOfSizeZeroInProcIsReadWhole) {
  const auto read = read_text_file("/proc/self/status", 1 << 20);
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(*read, HasSubstr("Threads:"));
}

TEST_F(Files, ReadingTellsWhyItFailed) {
  EXPECT_EQ(read_text_file(path("none"), 10).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(read_text_file(path("none"), 10).status().message(), HasSubstr(path("none").string()));
  EXPECT_EQ(read_text_file(path(""), 10).status().code(), StatusCode::kIo);  // a folder
  EXPECT_EQ(read_text_file("", 10).status().code(), StatusCode::kNotFound);
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(read_text_file(path("file") / "below", 10).status().code(), StatusCode::kNotFound);
}

TEST_F(Files, ForbiddenFileIsPermissionDenied) {
  std::ofstream(path("file")) << "x";
  fs::permissions(path("file"), fs::perms::none);
  fs::permissions(path(""), fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read);
  const int code = run_unprivileged([&] { return static_cast<int>(read_text_file(path("file"), 10).status().code()); });
  if (code < 0) GTEST_SKIP() << "root without the right to change users";
  EXPECT_EQ(static_cast<StatusCode>(code), StatusCode::kPermissionDenied);
}

TEST_F(Files, WritingCreatesMissingFolders) {
  ASSERT_TRUE(write_file_atomically(path("a/b/c/file"), "x").ok());
  EXPECT_EQ(*read_text_file(path("a/b/c/file"), 10), "x");
}

TEST_F(Files, WritingARelativePathWorksInTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(path(""));
  const Status status = write_file_atomically("plain", "x");
  fs::current_path(before);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(names(), ElementsAre("plain"));
}

TEST_F(Files, FailedWriteLeavesTheOldContentAndNothingElse) {
  ASSERT_TRUE(fs::create_directory(path("target")));
  EXPECT_EQ(write_file_atomically(path("target"), "x").code(), StatusCode::kIo);  // a folder is in the way
  std::ofstream(path("file")) << "old";
  EXPECT_EQ(write_file_atomically(path("file/below"), "x").code(), StatusCode::kNotFound);
  EXPECT_EQ(write_file_atomically(path("file/a/b"), "x").code(), StatusCode::kNotFound);
  EXPECT_FALSE(write_file_atomically("", "x").ok());
  EXPECT_FALSE(write_file_atomically(path(std::string(300, 'n')), "x").ok());
  EXPECT_EQ(*read_text_file(path("file"), 10), "old");
  EXPECT_THAT(names(), ElementsAre("file", "target"));
}

// As root a rename over /dev/null would succeed.
TEST_F(Files, WhatIsNoFileIsNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink(path("pipe"), path("link to pipe"));
  fs::create_symlink(path("file"), path("link to file"));
  for (const char* name : {"pipe", "link to pipe"}) {
    const Status status = write_file_atomically(path(name), "x");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(path(name).string()));
    EXPECT_EQ(check_writable(path(name)).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(fs::symlink_status(path("pipe")).type(), fs::file_type::fifo);
  EXPECT_TRUE(fs::is_symlink(path("link to pipe")));
  EXPECT_EQ(check_writable("/dev/null").code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(write_file_atomically(path("link to file"), "x").ok());
  EXPECT_THAT(names(), ElementsAre("link to file", "link to pipe", "pipe"));
}

TEST_F(Files, AWholeFileIsMovedOverAnotherButNotOverWhatIsNone) {
  std::ofstream(path("old")) << "old";
  std::ofstream(path("new")) << "new";
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(move_into_place(path("new"), path("pipe")).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(move_into_place(path("new"), path("old")).ok());
  EXPECT_EQ(*read_text_file(path("old"), 10), "new");
  EXPECT_EQ(move_into_place(path("new"), path("old")).code(), StatusCode::kNotFound) << "it is gone";
  EXPECT_THAT(names(), ElementsAre("old", "pipe"));
}

TEST_F(Files, WhetherAFileCanBeWrittenIsToldWithoutWritingIt) {
  fs::create_directories(path("folder"));
  std::ofstream(path("file")) << "old";
  for (const char* fine : {"new", "file", "folder/new", "a/b/c/new"}) {
    EXPECT_TRUE(check_writable(path(fine)).ok()) << fine;
  }
  for (const char* name : {"folder", "folder/", "file/below", "file/a/b"}) {
    const Status told = check_writable(path(name));
    EXPECT_FALSE(told.ok()) << name;
    EXPECT_THAT(told.message(), HasSubstr(path(name).parent_path().string()));
    EXPECT_EQ(told.code(), write_file_atomically(path(name), "x").code()) << name;
  }
  EXPECT_FALSE(check_writable("").ok());
  const fs::path before = fs::current_path();
  fs::current_path(path(""));
  EXPECT_TRUE(check_writable("plain").ok());
  EXPECT_TRUE(check_writable("a/plain").ok());
  fs::current_path(before);
  EXPECT_THAT(names(), ElementsAre("file", "folder"));
  EXPECT_EQ(*read_text_file(path("file"), 10), "old");
  fs::permissions(path("folder"), fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read);
  fs::permissions(path(""), fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read);
  for (const char* name : {"folder/new", "folder/a/b"}) {
    const int code = run_unprivileged([&] { return static_cast<int>(check_writable(path(name)).code()); });
    if (code < 0) GTEST_SKIP() << "root without the right to change users";
    EXPECT_EQ(static_cast<StatusCode>(code), StatusCode::kPermissionDenied);
  }
}

TEST_F(Files, ReadOnlyFolderIsPermissionDenied) {
  fs::create_directory(path("sealed"));
  fs::permissions(path("sealed"),
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  fs::permissions(path(""), fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read);
  const int code =
      run_unprivileged([&] { return static_cast<int>(write_file_atomically(path("sealed/file"), "x").code()); });
  if (code < 0) GTEST_SKIP() << "root without the right to change users";
  EXPECT_EQ(static_cast<StatusCode>(code), StatusCode::kPermissionDenied);
  EXPECT_TRUE(fs::is_empty(path("sealed")));
}

TEST_F(Files, KilledWriterLeavesTheOldContentOrTheNew) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string contents[] = {std::string(300'000, 'a'), std::string(200'000, 'b')};
  ASSERT_TRUE(write_file_atomically(path("file"), contents[0]).ok());
  for (int round = 0; round < 15; ++round) {
    testing::kill_in_a_step(random,
                            [&](std::size_t i) { return write_file_atomically(path("file"), contents[i % 2]).ok(); });
    const auto read = read_text_file(path("file"), 1 << 20);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    ASSERT_TRUE(*read == contents[0] || *read == contents[1]) << read->size();
  }
}

TEST_F(Files, TheNextWriteIntoAFolderRemovesWhatAKilledWriterLeft) {
  const auto write_half = [&](const std::string& name, bool die) {
    return testing::start_process([&, die] {
      auto file = AtomicFile::create(path(name));
      EXPECT_TRUE(file.ok() && file->write("half").ok());
      if (die) ::kill(::getpid(), SIGKILL);
    });
  };
  EXPECT_EQ(testing::wait_for_process(write_half("model.kpt", true)), 128 + SIGKILL);
  const std::vector<std::string> left = names();
  ASSERT_EQ(left.size(), 1U) << "a killed writer leaves its temporary file";
  EXPECT_TRUE(left[0].starts_with(".model.kpt.") && left[0].ends_with(".kpt.tmp")) << left[0];
  ASSERT_TRUE(write_file_atomically(path("other"), "x").ok());
  EXPECT_THAT(names(), ElementsAre("other"));
}

TEST_F(Files, OnlyWhatHasTheFormOfALeftoverIsRemoved) {
  const std::vector<std::string> foreign = {".file.12.tmp",
                                            ".file.12.0123456789abcdef.tmp",
                                            ".file.12.0123456789abcde.kpt.tmp",
                                            ".file.12.0123456789ABCDEF.kpt.tmp",
                                            ".file.x2.0123456789abcdef.kpt.tmp",
                                            ".file..0123456789abcdef.kpt.tmp",
                                            "file.12.0123456789abcdef.kpt.tmp",
                                            ".12.0123456789abcdef.kpt.tmp",
                                            ".kpt.tmp",
                                            "0123456789abcdef.kpt.tmp"};
  for (const std::string& name : foreign) std::ofstream(path(name)) << "mine";
  fs::create_directories(path(".folder.12.0123456789abcdef.kpt.tmp/deeper"));
  fs::create_symlink("nowhere", path(".link.12.0123456789abcdef.kpt.tmp"));
  ASSERT_EQ(::mkfifo(path(".pipe.12.0123456789abcdef.kpt.tmp").c_str(), 0644), 0);
  std::ofstream(path(".file.name.12.0123456789abcdef.kpt.tmp")) << "leftover";
  ASSERT_TRUE(write_file_atomically(path("file"), "x").ok());
  EXPECT_FALSE(fs::exists(path(".file.name.12.0123456789abcdef.kpt.tmp")));
  EXPECT_EQ(names().size(), foreign.size() + 4);  // with the folder, the link, the pipe and the new file
}

TEST_F(Files, AWriterThatLivesKeepsItsTemporaryFile) {
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(go.data()), 0);
  const pid_t writer = testing::start_process([&] {
    auto file = AtomicFile::create(path("slow"));
    ASSERT_TRUE(file.ok() && file->write("first ").ok());
    char byte = 0;
    EXPECT_EQ(::write(ready[1], "+", 1), 1);
    EXPECT_EQ(::read(go[0], &byte, 1), 1);
    EXPECT_TRUE(file->write("second").ok());
    const Status status = file->commit();
    EXPECT_TRUE(status.ok()) << status.to_string();
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(write_file_atomically(path("quick"), "x").ok());
  ASSERT_EQ(::write(go[1], "+", 1), 1);
  EXPECT_EQ(testing::wait_for_process(writer), 0);
  EXPECT_EQ(*read_text_file(path("slow"), 100), "first second");
  EXPECT_THAT(names(), ElementsAre("quick", "slow"));
  for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
}

// Every create() sweeps while the others are between creating, locking, writing and renaming; some are killed there.
TEST_F(Files, WritersThatSweepAtOnceNeverTakeEachOthersFiles) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<pid_t> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.push_back(testing::start_process([&] {
      for (int i = 0; i < 150; ++i) {
        const Status status = write_file_atomically(path("file"), std::string(1000, 'x'));
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
    }));
  }
  for (int round = 0; round < 10; ++round) {
    testing::kill_in_a_step(random, [&](std::size_t) { return write_file_atomically(path("killed"), "y").ok(); });
  }
  for (const pid_t writer : writers) EXPECT_EQ(testing::wait_for_process(writer), 0);
  ASSERT_TRUE(write_file_atomically(path("last"), "z").ok());
  EXPECT_THAT(names(), ElementsAre("file", "killed", "last"));
}

TEST_F(Files, NamesUpToTheSystemsLimitCanBeWritten) {
  const std::string name(255, 'n');
  ASSERT_TRUE(write_file_atomically(path(name), "x").ok());
  EXPECT_THAT(names(), ElementsAre(name));
}

TEST_F(Files, ConcurrentWritersAndReadersSeeWholeContents) {
  constexpr int kWriters = 4;
  const auto content_of = [](int writer) {
    return std::string(20'000 + 1000 * static_cast<std::size_t>(writer), static_cast<char>('a' + writer));
  };
  ASSERT_TRUE(write_file_atomically(path("file"), content_of(0)).ok());
  std::atomic<int> running{kWriters};
  std::atomic<int> faults{0};
  std::vector<std::thread> threads;
  threads.reserve(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < 25; ++i) {
        if (!write_file_atomically(path("file"), content_of(writer)).ok()) ++faults;
      }
      --running;
    });
  }
  while (running.load() > 0) {
    const auto read = read_text_file(path("file"), 1 << 20);
    if (!read.ok() || read->empty() || *read != content_of(read->front() - 'a')) ++faults;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults.load(), 0);
  EXPECT_THAT(names(), ElementsAre("file"));
}

TEST_F(Files, NoDescriptorStaysOpen) {
  fs::create_directory(path("folder"));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(write_file_atomically(path("file"), "x").ok());
    EXPECT_FALSE(write_file_atomically(path("folder"), "x").ok());
    EXPECT_TRUE(read_text_file(path("file"), 10).ok());
    EXPECT_FALSE(read_text_file(path("file"), 0).ok());
    EXPECT_FALSE(read_text_file(path("folder"), 10).ok());
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Files, NewFileIsReadableForOthersAsTheMaskAllows) {
  const mode_t before = ::umask(0022);
  ASSERT_TRUE(write_file_atomically(path("file"), "x").ok());
  ::umask(before);
  EXPECT_EQ(fs::status(path("file")).permissions(), static_cast<fs::perms>(0644));
}

using SystemFilesTest = Files;

TEST_F(SystemFilesTest, ReadsTrimmedTextBelowItsRoot) {
  ASSERT_TRUE(write_file_atomically(path("proc/version"), "  Linux 6.1 \n\n").ok());
  const SystemFiles files(path(""));
  EXPECT_EQ(*files.read("/proc/version"), "Linux 6.1");
  EXPECT_EQ(files.read("/proc/none").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(files.exists("/proc"));
  EXPECT_FALSE(files.exists("/proc/self"));
  EXPECT_FALSE(files.is_real());
  EXPECT_TRUE(SystemFiles().is_real());
  EXPECT_TRUE(SystemFiles().exists("/proc/self/status"));
}

TEST_F(SystemFilesTest, TakesLongFilesUpToTheLimit) {
  ASSERT_TRUE(write_file_atomically(path("cpuinfo"), std::string(3 << 20, 'x')).ok());
  ASSERT_TRUE(write_file_atomically(path("too_long"), std::string((16 << 20) + 1, 'x')).ok());
  const SystemFiles files(path(""));
  EXPECT_TRUE(files.read("/cpuinfo").ok());
  EXPECT_EQ(files.read("/too_long").status().code(), StatusCode::kUnsupported);
}

TEST_F(SystemFilesTest, PathsDoNotLeadOutOfTheRoot) {
  const fs::path root = path("root");
  const SystemFiles files(root);
  EXPECT_EQ(files.resolve("/sys/class"), root / "sys/class");
  EXPECT_EQ(files.resolve("sys"), root / "sys");
  EXPECT_EQ(files.resolve("/../../etc/passwd"), root / "etc/passwd");
  EXPECT_EQ(files.resolve("/sys/../../../etc"), root / "sys/../etc");
  EXPECT_EQ(SystemFiles().resolve("/sys/../etc"), "/sys/../etc");
}

TEST_F(SystemFilesTest, DotDotAfterALinkFollowsTheLink) {
  ASSERT_TRUE(write_file_atomically(path("sys/devices/bus/numa_node"), "3").ok());
  fs::create_directories(path("sys/devices/bus/gpu"));
  fs::create_directories(path("sys/class/drm/card0"));
  fs::create_directory_symlink("../../../devices/bus/gpu", path("sys/class/drm/card0/device"));
  EXPECT_EQ(*SystemFiles(path("")).read("/sys/class/drm/card0/device/../numa_node"), "3");
}

TEST_F(SystemFilesTest, NamesAreSortedWithNumbersByValue) {
  for (const char* name : {"node10", "node9", "node1", "has_cpu", "node", "10", "9", "card1-DP-1", "card1", "card0"}) {
    ASSERT_TRUE(write_file_atomically(path("dir") / name, "").ok());
  }
  const auto names = SystemFiles(path("")).list("/dir");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names,
              ElementsAre("9", "10", "card0", "card1", "card1-DP-1", "has_cpu", "node", "node1", "node9", "node10"));
}

TEST_F(SystemFilesTest, PciAddressesStayInHexadecimalOrder) {
  for (const char* name : {"0000:0a:00.0", "0000:09:00.0", "0000:10:00.0", "0000:1b:00.0", "0001:00:00.0"}) {
    ASSERT_TRUE(write_file_atomically(path("dir") / name, "").ok());
  }
  EXPECT_THAT(*SystemFiles(path("")).list("/dir"),
              ElementsAre("0000:09:00.0", "0000:0a:00.0", "0000:10:00.0", "0000:1b:00.0", "0001:00:00.0"));
}

// A rule that compares numbers by value and other names by letters makes a circle of node9 < node10 < node1a < node9.
// The order of an order relation does not depend on which other names are there: check triples against the whole.
TEST_F(SystemFilesTest, OrderOfNamesHoldsWithLongDigitRunsAndMixedNames) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::set<std::string> made = {
      "node9",   "node10", "node1a", "node18446744073709551616", "node18446744073709551615", "node2",
      "node002", "node0",  "node00"};
  while (made.size() < 40) {
    std::string name = "n";
    const auto length = std::uniform_int_distribution<std::size_t>(0, 24)(random);
    for (std::size_t i = 0; i < length; ++i) name += "019a"[random() % (random() % 4 == 0 ? 4 : 3)];
    made.insert(name);
  }
  for (const std::string& name : made) std::ofstream(path(name)).flush();
  const SystemFiles files(path(""));
  const std::vector<std::string> all = *files.list("/");
  ASSERT_EQ(all.size(), made.size());
  const auto place = [&](const std::string& name) { return std::ranges::find(all, name) - all.begin(); };
  EXPECT_LT(place("node9"), place("node10"));
  EXPECT_LT(place("node18446744073709551615"), place("node18446744073709551616"));
  for (int round = 0; round < 150; ++round) {
    const std::string folder = "subset" + std::to_string(round);
    fs::create_directory(path(folder));
    for (int i = 0; i < 3; ++i) {
      std::ofstream(path(folder) / all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)]).flush();
    }
    const std::vector<std::string> few = *files.list("/" + folder);
    for (std::size_t i = 1; i < few.size(); ++i) ASSERT_LT(place(few[i - 1]), place(few[i])) << few[i - 1] << few[i];
  }
}

TEST_F(SystemFilesTest, ListingTellsWhyItFailed) {
  std::ofstream(path("file")) << "x";
  const SystemFiles files(path(""));
  EXPECT_EQ(files.list("/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files.list("/file").status().code(), StatusCode::kNotFound);
  fs::create_directory(path("empty"));
  EXPECT_TRUE(files.list("/empty").value().empty());
}

TEST_F(SystemFilesTest, CanOpenAsksForReadingAndWriting) {
  const SystemFiles files(path(""));
  std::ofstream(path("node")) << "x";
  EXPECT_TRUE(files.can_open("/node"));
  EXPECT_FALSE(files.can_open("/none"));
  for (const fs::perms bits : {fs::perms::none, fs::perms::owner_read, fs::perms::owner_write}) {
    fs::permissions(path("node"), bits);
    EXPECT_FALSE(files.can_open("/node"));
  }
  EXPECT_TRUE(SystemFiles().can_open("/dev/null"));
  EXPECT_FALSE(SystemFiles().can_open("/dev/kpt_no_such_node"));
}

}  // namespace
}  // namespace kpt
