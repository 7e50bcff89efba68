// Processes that are killed, full disks, folders without rights, many processes at once: the cache gives the right
// bytes or nothing.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/log.h"
#include "compile_cache/compile_cache.h"
#include "kpt/errors.h"
#include "support/forked_process.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::kill_in_a_step;
using testing::start_process;
using testing::TemporaryFolder;
using testing::wait_for_process;

constexpr std::uint64_t kLarge = 1 << 30;

CacheKey key_of(std::size_t number) { return CacheKey("test").add("number", std::uint64_t{number}); }

// What belongs to a key: its length and content follow from the number, so any mixture of two entries shows.
std::string value_of(std::size_t number) {
  return std::string(1000 + number * 3001 % 50000, static_cast<char>('a' + number % 26)) + std::to_string(number);
}

void expect_right(CompileCache& cache, std::size_t keys) {
  for (std::size_t i = 0; i < keys; ++i) {
    const auto got = cache.get(key_of(i));
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(got->value_or(value_of(i)), value_of(i));
  }
}

class CacheFaults : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return folder_.path() / "cache"; }
  std::size_t count_files() const {
    const auto files = std::filesystem::directory_iterator(folder());
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  TemporaryFolder folder_;
};

TEST_F(CacheFaults, AKilledWriterLeavesWholeEntriesAndNoLock) {
  constexpr std::size_t kKeys = 12;
  constexpr int kRounds = 120;
  std::size_t leftovers = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto child_seed = static_cast<unsigned>(random_());
    kill_in_a_step(random_, [&, child = std::mt19937(child_seed)](std::size_t) mutable {
      CompileCache cache = CompileCache::open(folder(), 200000).value();
      const std::size_t i = child() % kKeys;
      return child() % 3 == 0 ? cache.get(key_of(i)).ok() : cache.put(key_of(i), value_of(i)).ok();
    });
    if (round % 10 != 0) continue;
    log::LineSink lines;
    const auto capture = log::capture(&lines);
    CompileCache cache = CompileCache::open(folder(), 200000).value();
    for (const auto& file : std::filesystem::directory_iterator(folder())) {
      if (file.path().extension() == ".tmp") ++leftovers;
    }
    for (const CacheEntry& entry : cache.verify().value()) EXPECT_TRUE(entry.sound);
    expect_right(cache, kKeys);
    EXPECT_EQ(lines, "");  // nothing was damaged
  }
  CompileCache cache = CompileCache::open(folder(), 200000).value();
  ASSERT_TRUE(cache.collect(200000).ok());
  for (const auto& file : std::filesystem::directory_iterator(folder())) EXPECT_NE(file.path().extension(), ".tmp");
  EXPECT_EQ(cache.statistics().value().corrupt, 0U);
  EXPECT_GT(cache.statistics().value().writes, 0U);
  RecordProperty("leftovers", static_cast<int>(leftovers));
}

TEST_F(CacheFaults, ProcessesThatWriteEvictAndClearAtOnceNeverSeeWrongBytes) {
  constexpr std::size_t kKeys = 25;
  std::vector<pid_t> children;
  for (int child = 0; child < 5; ++child) {
    const auto child_seed = static_cast<unsigned>(random_());
    children.push_back(start_process([&] {
      std::mt19937 random(child_seed);
      // Budgets differ, so that processes evict each other's entries all the time.
      CompileCache cache = CompileCache::open(folder(), 100000 + random() % 200000).value();
      for (int step = 0; step < 60; ++step) {
        const std::size_t i = random() % kKeys;
        switch (random() % 8) {
          case 0: EXPECT_TRUE(cache.collect(random() % 100000).ok()); break;
          case 1: EXPECT_TRUE(cache.verify().ok()); break;
          case 2: EXPECT_TRUE(cache.list().ok()); break;
          case 3: EXPECT_TRUE(random() % 10 != 0 || cache.clear().ok()); break;
          case 4:
          case 5: expect_right(cache, 5); break;
          default: EXPECT_TRUE(cache.put(key_of(i), value_of(i)).ok());
        }
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for_process(child), 0);
  CompileCache cache = CompileCache::open(folder(), kLarge).value();
  EXPECT_EQ(cache.statistics().value().corrupt, 0U);
  for (const CacheEntry& entry : cache.verify().value()) EXPECT_TRUE(entry.sound);
}

TEST_F(CacheFaults, CountsOfManyProcessesAddUp) {
  std::vector<pid_t> children;
  CompileCache::open(folder(), kLarge).value().put(key_of(0), "x").ok();
  for (int child = 0; child < 6; ++child) {
    children.push_back(start_process([&] {
      CompileCache cache = CompileCache::open(folder(), kLarge).value();
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(cache.get(key_of(0)).value().has_value());
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for_process(child), 0);
  EXPECT_EQ(CompileCache::open(folder(), kLarge).value().statistics().value().hits, 300U);
}

// A limit on the size of files ends writes in the middle, as a full disk does.
TEST_F(CacheFaults, AWriteThatFailsIsATypedErrorAndLeavesNothingHalf) {
  const pid_t pid = start_process([&] {
    CompileCache cache = CompileCache::open(folder(), kLarge).value();
    EXPECT_TRUE(cache.put(key_of(1), "old").ok());
    const std::size_t files = count_files();
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5000, 5000};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const Status status = cache.put(key_of(1), std::string(100000, 'x'));
    EXPECT_EQ(status.code(), StatusCode::kCache);
    EXPECT_THAT(status.message(), HasSubstr("cannot write"));
    EXPECT_THAT(status.to_string(), HasSubstr("cause=io"));
    EXPECT_EQ(cache.get(key_of(1)).value(), "old");
    EXPECT_EQ(count_files(), files);
  });
  EXPECT_EQ(wait_for_process(pid), 0);
}

// A small file system of its own, seen by one process only and gone with it.
TEST_F(CacheFaults, AFullDiskIsATypedErrorAndWhatIsThereStaysRight) {
  constexpr int kNotAllowed = 77;
  std::filesystem::create_directories(folder());
  const pid_t pid = start_process([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=256k") != 0) {
      ::_exit(kNotAllowed);
    }
    CompileCache cache = CompileCache::open(folder(), kLarge).value();
    std::size_t failed = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      const Status status = cache.put(key_of(i), value_of(i));
      if (status.ok()) continue;
      ++failed;
      EXPECT_EQ(status.code(), StatusCode::kCache) << status.message();
      EXPECT_THAT(status.message(), HasSubstr("No space left"));
    }
    EXPECT_GT(failed, 0U);
    expect_right(cache, 40);
    for (const CacheEntry& entry : cache.verify().value()) EXPECT_TRUE(entry.sound);
    EXPECT_TRUE(cache.clear().ok());
    EXPECT_TRUE(cache.put(key_of(1), value_of(1)).ok());
  });
  const int code = wait_for_process(pid);
  if (code == kNotAllowed) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(code, 0);
}

TEST_F(CacheFaults, AFolderForReadingGivesHitsAndRefusesWrites) {
  CompileCache::open(folder(), kLarge).value().put(key_of(1), value_of(1)).ok();
  CompileCache::open(folder(), kLarge).value().put(key_of(2), value_of(2)).ok();
  std::fstream(folder() / (key_of(2).digest() + ".entry"), std::ios::in | std::ios::out).seekp(200).put('!');
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(folder(), std::filesystem::perms(0555));
  for (const auto& file : std::filesystem::directory_iterator(folder())) {
    std::filesystem::permissions(file.path(), std::filesystem::perms(0444));
  }
  const pid_t pid = start_process([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return;
    log::LineSink lines;
    const auto capture = log::capture(&lines);
    Result<CompileCache> cache = CompileCache::open(folder(), kLarge);
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    EXPECT_EQ(cache->get(key_of(1)).value(), value_of(1));
    EXPECT_FALSE(cache->get(key_of(2)).value().has_value());  // damaged, and cannot be removed
    EXPECT_THAT(lines, HasSubstr("damaged"));
    EXPECT_FALSE(cache->get(key_of(3)).value().has_value());
    const std::vector<Status> refused = {cache->put(key_of(3), "x"), cache->clear(), cache->collect(0).status(),
                                         CompileCache::open(folder() / "below", kLarge).status()};
    for (const Status& status : refused) {
      EXPECT_EQ(status.code(), StatusCode::kCache) << status.to_string();
      EXPECT_THAT(status.to_string(), HasSubstr("Permission denied (cause=permission_denied)"));
      EXPECT_THROW(throw_status(status), CacheError);
    }
    EXPECT_EQ(cache->list().value().size(), 2U);
    EXPECT_EQ(cache->statistics().value().writes, 2U);
  });
  EXPECT_EQ(wait_for_process(pid), 0);
  std::filesystem::permissions(folder(), std::filesystem::perms(0755));
}

}  // namespace
}  // namespace kpt
