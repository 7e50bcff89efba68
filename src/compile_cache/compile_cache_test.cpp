#include "compile_cache/compile_cache.h"

#include <sys/stat.h>

#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/log.h"
#include "compile_cache/configured_cache.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr std::uint64_t kLargeEntry = 1 << 30;

CacheKey entry_key(const std::string& text) { return CacheKey("test").add("text", text); }

class CompileCacheTest : public ::testing::Test {
 protected:
  CompileCache open(std::uint64_t budget = kLargeEntry) {
    return CompileCache::open(folder_.path() / "c", budget).value();
  }
  std::filesystem::path entry(const CacheKey& key) const { return folder_.path() / "c" / (key.digest() + ".entry"); }
  TemporaryFolder folder_;
};

TEST(CacheKey, DiffersWithEveryPart) {
  std::set<std::string> digests;
  const auto add = [&](const CacheKey& key) { EXPECT_TRUE(digests.insert(key.digest()).second); };
  add(CacheKey("a"));
  add(CacheKey("b"));
  add(CacheKey("a").add("x", "1"));
  add(CacheKey("a").add("x", "2"));
  add(CacheKey("a").add("y", "1"));
  add(CacheKey("a").add("x", std::uint64_t{1}));
  add(CacheKey("a").add("x", std::string_view("\1\0\0\0\0\0\0\0", 8)));  // the bytes of that number
  add(CacheKey("a").add("x", "1").add("x", "1"));
  add(CacheKey("a").add("x", "1").add("y", "2"));
  add(CacheKey("a").add("y", "2").add("x", "1"));
  add(CacheKey("a").add("x1", ""));
  add(CacheKey("a").add("", "x1"));
  add(CacheKey("ax").add("", "1"));
  EXPECT_EQ(CacheKey("a").add("x", "1").digest(), CacheKey("a").add("x", "1").digest());
  EXPECT_EQ(CacheKey("a").digest().size(), 64U);
}

TEST_F(CompileCacheTest, GivesBackWhatWasPutThereAcrossObjects) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  CompileCache cache = open();
  EXPECT_FALSE(cache.get(entry_key("a")).value().has_value());
  std::vector<std::string> values = {"", "x"};
  for (int i = 0; i < 20; ++i) {
    std::string value(random() % 5000, '\0');
    for (char& letter : value) letter = static_cast<char>(random());
    values.push_back(value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(cache.put(entry_key(std::to_string(i)), values[i]).ok());
  }
  CompileCache other = open();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(other.get(entry_key(std::to_string(i))).value(), values[i]);
  ASSERT_TRUE(other.put(entry_key("0"), "changed").ok());
  EXPECT_EQ(cache.get(entry_key("0")).value(), "changed");
  EXPECT_EQ(cache.list().value().size(), values.size());
  EXPECT_EQ(cache.list().value()[0].kind, "test");
}

TEST_F(CompileCacheTest, TheLeastRecentlyUsedGoesFirst) {
  CompileCache cache = open(5000);
  const std::string kilobyte(1000, 'x');
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(cache.put(entry_key(name), kilobyte).ok());
  EXPECT_TRUE(cache.get(entry_key("a")).value().has_value());  // used: b is now the oldest
  ASSERT_TRUE(cache.put(entry_key("e"), kilobyte).ok());
  EXPECT_FALSE(cache.get(entry_key("b")).value().has_value());
  for (const char* name : {"a", "c", "d", "e"}) EXPECT_TRUE(cache.get(entry_key(name)).value().has_value()) << name;
  const CacheStatistics counts = cache.statistics().value();
  EXPECT_EQ(counts.evictions, 1U);
  EXPECT_EQ(counts.entries, 4U);
  EXPECT_LE(counts.bytes, 5000U);
  EXPECT_EQ(counts.budget_bytes, 5000U);
}

TEST_F(CompileCacheTest, AnEntryLargerThanTheBudgetIsNotKeptAndPushesNothingOut) {
  CompileCache cache = open(2000);
  ASSERT_TRUE(cache.put(entry_key("small"), "x").ok());
  EXPECT_TRUE(cache.put(entry_key("large"), std::string(2000, 'x')).ok());
  EXPECT_FALSE(cache.get(entry_key("large")).value().has_value());
  EXPECT_TRUE(cache.get(entry_key("small")).value().has_value());
  CompileCache nothing = open(0);
  EXPECT_TRUE(nothing.put(entry_key("none"), "").ok());
  EXPECT_FALSE(nothing.get(entry_key("none")).value().has_value());
}

TEST_F(CompileCacheTest, CountsAreThoseOfAllProcesses) {
  CompileCache cache = open();
  CompileCache other = open();
  ASSERT_TRUE(cache.put(entry_key("a"), "1").ok());
  EXPECT_TRUE(other.get(entry_key("a")).value().has_value());
  EXPECT_TRUE(cache.get(entry_key("a")).value().has_value());
  EXPECT_FALSE(other.get(entry_key("b")).value().has_value());
  const CacheStatistics counts = open().statistics().value();
  EXPECT_EQ(counts.hits, 2U);
  EXPECT_EQ(counts.misses, 1U);
  EXPECT_EQ(counts.writes, 1U);
  ASSERT_TRUE(cache.clear().ok());
  const CacheStatistics cleared = cache.statistics().value();
  EXPECT_EQ(cleared.hits + cleared.misses + cleared.writes + cleared.evictions + cleared.entries, 0U);
}

TEST_F(CompileCacheTest, ADamagedStatisticsFileStartsAnew) {
  CompileCache cache = open();
  ASSERT_TRUE(cache.put(entry_key("a"), "1").ok());
  for (const std::string& content : {std::string("kptstat1"), std::string(52, 'x'), std::string(5000, 'x')}) {
    std::ofstream(cache.folder() / "statistics", std::ios::binary) << content;
    EXPECT_EQ(cache.statistics().value().hits, 0U);
    EXPECT_TRUE(cache.get(entry_key("a")).value().has_value());
    EXPECT_EQ(cache.statistics().value().hits, 1U);
  }
}

TEST_F(CompileCacheTest, ADamagedEntryIsAMissIsDroppedAndLogged) {
  const CacheKey key = entry_key("a");
  CompileCache cache = open();
  ASSERT_TRUE(cache.put(key, "content").ok());
  const std::string whole = read_text_file(entry(key), 1 << 20).value();
  for (std::size_t bit = 0; bit < whole.size() * 8; bit += 5) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(entry(key), std::ios::binary) << flipped;
    log::LineSink lines;
    const auto capture = log::capture(&lines);
    const auto got = cache.get(key);
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(got->has_value()) << bit;
    EXPECT_THAT(lines, HasSubstr("damaged"));
    EXPECT_FALSE(std::filesystem::exists(entry(key)));
  }
  EXPECT_GT(cache.statistics().value().corrupt, 10U);
  ASSERT_TRUE(cache.put(key, "content").ok());
  EXPECT_EQ(cache.get(key).value(), "content");
}

TEST_F(CompileCacheTest, AnEntryUnderAnotherNameIsNotBelieved) {
  CompileCache cache = open();
  ASSERT_TRUE(cache.put(entry_key("a"), "of a").ok());
  std::filesystem::copy_file(entry(entry_key("a")), entry(entry_key("b")));
  log::LineSink lines;
  const auto capture = log::capture(&lines);
  EXPECT_FALSE(cache.get(entry_key("b")).value().has_value());
  EXPECT_EQ(cache.get(entry_key("a")).value(), "of a");
}

TEST_F(CompileCacheTest, VerifyReadsAllAndDropsWhatIsDamaged) {
  CompileCache cache = open();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(cache.put(entry_key(name), name).ok());
  std::filesystem::resize_file(entry(entry_key("b")), 0);
  log::LineSink lines;
  const auto capture = log::capture(&lines);
  const auto entries = cache.verify().value();
  ASSERT_EQ(entries.size(), 3U);
  for (const CacheEntry& each : entries) EXPECT_EQ(each.sound, each.digest != entry_key("b").digest());
  EXPECT_EQ(cache.list().value().size(), 2U);
}

TEST_F(CompileCacheTest, ForeignFilesAreLeftAlone) {
  CompileCache cache = open();
  ASSERT_TRUE(cache.put(entry_key("a"), "1").ok());
  const std::filesystem::path leftover = cache.folder() / ("." + entry_key("b").digest() + ".entry.77.0.tmp");
  std::ofstream(leftover) << "half";
  const std::vector<std::string> foreign = {
      "notes.txt", ".hidden.tmp", std::string(64, 'A') + ".entry", "x.entry", std::string(64, 'a') + ".entry.tmp",
      "folder"};
  for (const std::string& name : foreign) {
    if (name == "folder") {
      std::filesystem::create_directory(cache.folder() / name);
    } else {
      std::ofstream(cache.folder() / name) << "mine";
    }
  }
  std::filesystem::create_directory(cache.folder() / (std::string(64, 'b') + ".entry"));
  EXPECT_EQ(cache.list().value().size(), 1U);
  EXPECT_EQ(cache.collect(kLargeEntry).value(), 4U);  // the leftover
  EXPECT_FALSE(std::filesystem::exists(leftover));
  ASSERT_TRUE(cache.clear().ok());
  for (const std::string& name : foreign) EXPECT_TRUE(std::filesystem::exists(cache.folder() / name)) << name;
  EXPECT_TRUE(cache.list().value().empty());
}

TEST_F(CompileCacheTest, BadKindsAndFoldersAreRefused) {
  CompileCache cache = open();
  for (const std::string& kind : {std::string(), std::string("a b"), std::string(65, 'x')}) {
    EXPECT_EQ(cache.put(CacheKey(kind), "x").code(), StatusCode::kInvalidArgument);
  }
  std::ofstream(folder_.path() / "file") << "x";
  EXPECT_EQ(CompileCache::open(folder_.path() / "file", 1).status().code(), StatusCode::kCache);
  EXPECT_EQ(CompileCache::open(folder_.path() / "file" / "below", 1).status().code(), StatusCode::kCache);
}

TEST_F(CompileCacheTest, ThreadsShareOneCache) {
  CompileCache cache = open(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 40; ++i) {
        const std::string name = std::to_string((i + t) % 30);
        const std::string value = name + std::string(1000, 'v');
        const auto got = cache.get(entry_key(name));
        ASSERT_TRUE(got.ok());
        EXPECT_EQ(got->value_or(value), value);
        ASSERT_TRUE(cache.put(entry_key(name), value).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const CacheStatistics counts = cache.statistics().value();
  EXPECT_EQ(counts.hits + counts.misses, 160U);
  EXPECT_EQ(counts.writes, 160U);
  EXPECT_EQ(counts.corrupt, 0U);
  EXPECT_LE(counts.bytes, 20000U);
}

TEST(ConfiguredCache, TheOptionsNameFolderAndBudget) {
  const TemporaryFolder folder;
  const Environment environment =
      Environment::from_map({{"KPT_CACHE_DIR", folder.path().string()}, {"KPT_CACHE_BUDGET_BYTES", "12345"}});
  const Config config = load_config({}, environment).value();
  const CompileCache cache = open_compile_cache(config, environment).value();
  EXPECT_EQ(cache.folder(), folder.path() / "compile");
  EXPECT_EQ(cache.statistics().value().budget_bytes, 12345U);
  const Environment nothing;
  EXPECT_EQ(open_compile_cache(load_config({}, nothing).value(), nothing).status().code(), StatusCode::kConfiguration);
}

}  // namespace
}  // namespace kpt
