// kpt optimize killed, on a full disk, with a cache that cannot be written, and twice at once: a whole file or none,
// the right answers or a sentence.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact.h"
#include "base/files.h"
#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

#if defined(KPT_HAS_TORCH)
namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OptimizeFaults : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::vector<std::string> optimize(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"optimize", golden("conv_norm"), "-o",    path(out),
                                          "--json",   "--no-measure",      "--set", "cache.dir=" + path("cache")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  // Readable to the last checksum, and its stored answers come out.
  void expect_sound(const std::string& file) const {
    const auto artifact = read_artifact(path(file));
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    EXPECT_FALSE(artifact->samples.empty());
    const ProgramRun run = run_kpt({"run", path(file)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
  std::size_t count_leftovers() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".tmp") ++count;
    }
    return count;
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
};

TEST_F(OptimizeFaults, KilledAtAnyMomentItLeavesAWholeFileOrNone) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  ASSERT_EQ(run_kpt(optimize("m.kpt")).exit_code, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
  std::size_t killed = 0;
  for (int round = 0; round < 8; ++round) {
    fs::remove(path("m.kpt"));
    if (round % 2 == 0) fs::remove_all(path("cache"));
    ChildCommand command = kpt_command(optimize("m.kpt", {"--seed", std::to_string(round)}));
    command.time_limit = std::chrono::milliseconds(std::uniform_int_distribution<long>(1, whole)(random_));
    SCOPED_TRACE(::testing::Message() << "killed after " << command.time_limit.count() << " ms");
    const auto outcome = run_child(command);
    ASSERT_TRUE(outcome.ok()) << outcome.status().message();
    if (outcome->timed_out) ++killed;
    if (fs::exists(path("m.kpt"))) {
      expect_sound("m.kpt");
    } else {
      EXPECT_TRUE(outcome->timed_out) << outcome->standard_error;
    }
  }
  EXPECT_GT(killed, 0U) << "nothing was killed: this test shows nothing";
  const ProgramRun after = run_kpt(optimize("m.kpt"));
  ASSERT_EQ(after.exit_code, 0) << after.err;
  expect_sound("m.kpt");
  EXPECT_EQ(run_kpt({"cache", "verify", "--set", "cache.dir=" + path("cache")}).exit_code, 0);
  EXPECT_EQ(run_kpt({"cache", "gc", "--set", "cache.dir=" + path("cache")}).exit_code, 0);
  EXPECT_EQ(count_leftovers(), 0U);
}

TEST_F(OptimizeFaults, AFullDiskIsASentenceAndTheOldFileStays) {
  ASSERT_EQ(run_kpt(optimize("old.kpt")).exit_code, 0);
  const std::string old = read_text_file(path("old.kpt"), 1 << 24).value();
  ASSERT_GT(old.size(), 4096U);
  // Blocks of 512 or 1024 bytes, as the shell has it.
  std::vector<std::string> command = {"sh", "-c", "ulimit -f 2 && exec \"$@\"", "sh", build_dir() + "/bin/kpt"};
  const std::size_t fixed = command.size();
  for (const char* out : {"new.kpt", "old.kpt"}) {
    command.resize(fixed);
    for (const std::string& argument : optimize(out, {"--seed", "5"})) command.push_back(argument);
    const ProgramRun full = run_program(command);
    EXPECT_EQ(full.exit_code, 1) << full.out;
    EXPECT_THAT(full.out + full.err, HasSubstr("cannot write"));
    EXPECT_THAT(full.out + full.err, HasSubstr(out));
  }
  EXPECT_FALSE(fs::exists(path("new.kpt")));
  EXPECT_EQ(read_text_file(path("old.kpt"), 1 << 24).value(), old);
  EXPECT_EQ(count_leftovers(), 0U);
}

TEST_F(OptimizeFaults, WithoutAPlaceForTheCacheTheFileIsWrittenAllTheSame) {
  std::ofstream(path("blocked")) << "a file";
  auto arguments = optimize("m.kpt");
  arguments.back() = "cache.dir=" + path("blocked");
  const ProgramRun run = run_kpt(arguments);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("going on without the compile cache"));
  expect_sound("m.kpt");
}

// For root no folder is closed by its permissions: there the cache is mounted read only, in a space of its own.
TEST_F(OptimizeFaults, ACacheThatCannotBeWrittenServesWhatItHasAndKeepsNothing) {
  ASSERT_EQ(run_kpt(optimize("m.kpt")).exit_code, 0);
  const std::string cache = path("cache/compile");
  std::vector<std::string> prefix;
  if (::geteuid() == 0) {
    prefix = {"unshare",
              "-m",
              "sh",
              "-c",
              "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"",
              "sh",
              cache};
    ChildCommand probe;
    probe.arguments = prefix;
    probe.arguments.emplace_back("true");
    const auto allowed = run_child(probe);
    if (!allowed.ok() || !allowed->succeeded()) GTEST_SKIP() << "root here may not mount";
  } else {
    fs::permissions(cache, fs::perms(0555));
  }
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = prefix;
    command.emplace_back(build_dir() + "/bin/kpt");
    for (const std::string& argument : optimize("again.kpt", more)) command.push_back(argument);
    fs::remove(path("again.kpt"));
    return run_program(command);
  };
  const ProgramRun served = run({});
  ASSERT_EQ(served.exit_code, 0) << served.err;
  EXPECT_TRUE(served.json().at("from_cache").get<bool>());
  expect_sound("again.kpt");
  const ProgramRun made = run({"--seed", "9"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_FALSE(made.json().at("from_cache").get<bool>());
  EXPECT_THAT(made.json().at("cache_note").get<std::string>(), HasSubstr(cache));
  expect_sound("again.kpt");
  fs::permissions(cache, fs::perms(0755));
}

TEST_F(OptimizeFaults, SeveralAtOnceOnOneFileAndOneCacheAllSucceed) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::future<ProgramRun>> runs;
    for (const char* level : {"conservative", "balanced", "balanced"}) {
      runs.push_back(std::async(std::launch::async, [this, level, round] {
        return run_kpt(optimize("m.kpt", {"--level", level, "--seed", std::to_string(round)}));
      }));
    }
    for (auto& run : runs) {
      const ProgramRun ended = run.get();
      EXPECT_EQ(ended.exit_code, 0) << ended.err << ended.out;
    }
    expect_sound("m.kpt");
    EXPECT_EQ(run_kpt({"validate", golden("conv_norm"), path("m.kpt")}).exit_code, 0);
    for (const char* level : {"conservative", "balanced"}) {
      const ProgramRun again = run_kpt(optimize("again.kpt", {"--level", level, "--seed", std::to_string(round)}));
      ASSERT_EQ(again.exit_code, 0) << again.err;
      EXPECT_EQ(again.json().at("level").get<std::string>(), level);
      EXPECT_TRUE(again.json().at("from_cache").get<bool>()) << level << ": each is kept under its own key";
      expect_sound("again.kpt");
    }
  }
  EXPECT_EQ(run_kpt({"cache", "verify", "--set", "cache.dir=" + path("cache")}).exit_code, 0);
  EXPECT_EQ(count_leftovers(), 0U);
}
#endif

}  // namespace
}  // namespace kpt::testing
