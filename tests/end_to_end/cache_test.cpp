// kpt cache ls | stats | gc | verify | clear, as a user types them.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile_cache/compile_cache.h"
#include "hardware_fixture.h"
#include "program.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;

class CacheCommand : public ::testing::Test {
 protected:
  CompileCache cache() const { return CompileCache::open(folder_.path() / "compile", 1 << 30).value(); }
  static CacheKey key(const std::string& name) { return CacheKey("optimize").add("name", name); }
  void fill() const {
    for (const char* name : {"a", "b", "c"}) {
      ASSERT_TRUE(cache().put(key(name), std::string(1000, name[0])).ok());
    }
  }
  std::filesystem::path entry(const std::string& name) const {
    return folder_.path() / "compile" / (key(name).digest() + ".entry");
  }
  ProgramRun run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) const {
    arguments.insert(arguments.begin(), "cache");
    arguments.push_back("--set");
    arguments.push_back("cache.dir=" + folder_.path().string());
    return run_kpt(arguments, environment);
  }
  TemporaryFolder folder_;
};

TEST_F(CacheCommand, AnEmptyCacheIsNoError) {
  EXPECT_THAT(run({"ls"}).out, HasSubstr("empty"));
  EXPECT_THAT(run({"stats"}).out, HasSubstr("nothing asked yet"));
  EXPECT_EQ(run({"stats", "--json"}).json().at("hit_rate"), nullptr);
  EXPECT_EQ(run({"verify"}).exit_code, 0);
  EXPECT_EQ(run({"gc"}).exit_code, 0);
  EXPECT_EQ(run({"clear"}).exit_code, 0);
}

TEST_F(CacheCommand, ListAndStatisticsTellWhatIsThere) {
  fill();
  EXPECT_TRUE(cache().get(key("a")).value().has_value());
  EXPECT_FALSE(cache().get(key("x")).value().has_value());
  const auto list = run({"ls", "--json"}).json();
  ASSERT_EQ(list.at("entries").size(), 3U);
  EXPECT_EQ(list.at("entries")[0].at("digest"), key("a").digest());  // the last used
  EXPECT_EQ(list.at("entries")[0].at("kind"), "optimize");
  EXPECT_THAT(run({"ls"}).out, HasSubstr(key("b").digest().substr(0, 16)));
  const auto counts = run({"stats", "--json"}).json();
  EXPECT_EQ(counts.at("hits"), 1);
  EXPECT_EQ(counts.at("misses"), 1);
  EXPECT_EQ(counts.at("hit_rate"), 0.5);
  EXPECT_EQ(counts.at("writes"), 3);
  EXPECT_EQ(counts.at("entries"), 3);
  EXPECT_GT(counts.at("bytes"), 3000);
  EXPECT_THAT(run({"stats"}).out, HasSubstr("50.0 %"));
}

TEST_F(CacheCommand, CollectionKeepsTheBudgetAndRemovesLeftovers) {
  fill();
  const std::filesystem::path leftover = folder_.path() / "compile" / ("." + key("d").digest() + ".entry.1.1.tmp");
  std::ofstream(leftover) << "half";
  const auto first = run({"gc", "--json"}).json();
  EXPECT_EQ(first.at("freed_bytes"), 4);
  EXPECT_FALSE(std::filesystem::exists(leftover));
  const auto second = run({"gc", "--budget-bytes", "1500", "--json"}).json();
  EXPECT_GT(second.at("freed_bytes"), 2000);
  EXPECT_EQ(cache().list().value().size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(entry("c")));
}

TEST_F(CacheCommand, VerifyNamesWhatIsDamagedAndEndsWithOne) {
  fill();
  EXPECT_EQ(run({"verify"}).exit_code, 0);
  std::fstream(entry("b"), std::ios::in | std::ios::out).seekp(500).put('!');
  const ProgramRun verify = run({"verify", "--json"});
  EXPECT_EQ(verify.exit_code, 1);
  ASSERT_EQ(verify.json().at("dropped").size(), 1U);
  EXPECT_EQ(verify.json().at("dropped")[0].at("digest"), key("b").digest());
  EXPECT_THAT(verify.err, HasSubstr("damaged"));
  EXPECT_FALSE(std::filesystem::exists(entry("b")));
  EXPECT_EQ(run({"verify"}).exit_code, 0);
  EXPECT_EQ(run({"stats", "--json"}).json().at("corrupt"), 1);
}

TEST_F(CacheCommand, ClearLeavesNothing) {
  fill();
  EXPECT_EQ(run({"clear", "--json"}).json().at("removed"), 3);
  EXPECT_EQ(run({"stats", "--json"}).json().at("entries"), 0);
  EXPECT_EQ(run({"stats", "--json"}).json().at("writes"), 0);
}

TEST_F(CacheCommand, TheBudgetIsAnOption) {
  EXPECT_EQ(run({"stats", "--json"}, {"KPT_CACHE_BUDGET_BYTES=4242"}).json().at("budget_bytes"), 4242);
  fill();
  EXPECT_EQ(run({"gc", "--json", "--set", "cache.budget_bytes=1500"}).json().at("budget_bytes"), 1500);
  EXPECT_EQ(cache().list().value().size(), 1U);
}

TEST_F(CacheCommand, WrongUseIsASentence) {
  EXPECT_EQ(run_kpt({"cache"}).exit_code, 2);
  std::ofstream(folder_.path() / "compile") << "a file";
  const ProgramRun blocked = run({"ls"});
  EXPECT_EQ(blocked.exit_code, 1);
  EXPECT_THAT(blocked.err, HasSubstr("compile"));
  EXPECT_EQ(run({"ls", "--json"}).json().at("error").at("code"), "cache");
  EXPECT_EQ(run({"gc", "--budget-bytes", "-1"}).exit_code, 2);
  const ProgramRun nowhere = run_kpt({"cache", "ls"}, {"HOME=", "XDG_CACHE_HOME="});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("cache.dir"));
}

}  // namespace
}  // namespace kpt::testing
