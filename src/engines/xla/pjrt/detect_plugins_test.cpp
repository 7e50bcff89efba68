#include "engines/xla/pjrt/detect_plugins.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string elf_header(unsigned char machine) {
  std::string header(64, '\0');
  header.replace(0, 4,
                 "\x7f"
                 "ELF");
  header[4] = 2;
  header[5] = 1;
  header[18] = static_cast<char>(machine);
  return header;
}

bool here_is_x86() { return build_info().architecture == "x86_64"; }
std::string own_header() { return elf_header(here_is_x86() ? 62 : 183); }
std::string foreign_header() { return elf_header(here_is_x86() ? 183 : 62); }

// A machine with one plugin file and a stand-in for kpt-probe, written in shell.
class PluginDetection : public ::testing::Test {
 protected:
  PluginDetection() {
    EXPECT_TRUE(write_file_atomically(plugin_path(), own_header()).ok());
    context_.pjrt_plugins = {"fake=" + plugin_path()};
    context_.environment = Environment::from_map({{"KPT_HELPER_DIR", folder_.path().string()}});
  }

  std::string plugin_path() const { return (folder_.path() / "fake.so").string(); }

  PjrtPlugin detect_with_probe(const std::string& script) {
    const auto path = folder_.path() / "kpt-probe";
    EXPECT_TRUE(write_file_atomically(path, "#!/bin/sh\n" + script + "\n").ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    const auto plugins = detect_plugins(context_);
    EXPECT_EQ(plugins.size(), 1U);
    return plugins.empty() ? PjrtPlugin{} : plugins.front();
  }

  TemporaryFolder folder_;
  DetectionContext context_;
};

TEST_F(PluginDetection, TakesTheAnswerOfTheChild) {
  const PjrtPlugin plugin = detect_with_probe(
      R"([ "$1" = pjrt ] && echo "{\"finding\": {\"presence\": \"present\"}, \"api_major\": 0, \"api_minor\": 81, )"
      R"(\"path\": \"$2\"}")");
  EXPECT_EQ(plugin.finding, (Finding{Presence::kPresent, "", ""}));
  EXPECT_EQ(plugin.name, "fake");
  EXPECT_EQ(plugin.path, plugin_path());
  EXPECT_EQ(plugin.source, "config");
  EXPECT_EQ(plugin.api_minor, 81);
}

TEST_F(PluginDetection, CrashIsAReason) {
  const PjrtPlugin plugin = detect_with_probe("kill -SEGV $$");
  EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
  EXPECT_THAT(plugin.finding.reason, HasSubstr("signal 11"));
  EXPECT_FALSE(plugin.finding.remedy.empty());
}

TEST_F(PluginDetection, HangIsCutOffAtTheLimit) {
  context_.probe_time_limit = std::chrono::milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  const PjrtPlugin plugin = detect_with_probe("sleep 60");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
  EXPECT_THAT(plugin.finding.reason, HasSubstr("no answer within"));
}

TEST_F(PluginDetection, NonsenseFromTheChildIsAReason) {
  for (const char* script : {"echo hello", "echo '[1, 2]'", "echo '{\"api_minor\": \"many\"}'", "true"}) {
    const PjrtPlugin plugin = detect_with_probe(script);
    EXPECT_EQ(plugin.finding.presence, Presence::kBroken) << script;
    EXPECT_THAT(plugin.finding.reason, HasSubstr("cannot be read")) << script;
    EXPECT_EQ(plugin.name, "fake") << script;
  }
}

TEST_F(PluginDetection, FileFaultsAreToldWithoutStartingAChild) {
  ASSERT_TRUE(write_file_atomically(folder_.path() / "foreign.so", foreign_header()).ok());
  ASSERT_TRUE(write_file_atomically(folder_.path() / "text.so", "hello").ok());
  context_.pjrt_plugins = {"missing=/no/such/plugin.so", "foreign=" + (folder_.path() / "foreign.so").string(),
                           "text=" + (folder_.path() / "text.so").string(), "nonsense"};
  const auto plugins = detect_plugins(context_, [](const std::string&) -> Result<std::string> {
    ADD_FAILURE() << "a child was started";
    return std::string();
  });
  ASSERT_EQ(plugins.size(), 4U);
  for (const PjrtPlugin& plugin : plugins) {
    EXPECT_EQ(plugin.finding.presence, Presence::kBroken) << plugin.name;
    EXPECT_EQ(plugin.finding.remedy.empty(), false) << plugin.name;
  }
  EXPECT_THAT(plugins[0].finding.reason, HasSubstr("cannot open /no/such/plugin.so"));
  EXPECT_THAT(plugins[1].finding.reason, HasSubstr("the library is for"));
  EXPECT_THAT(plugins[2].finding.reason, HasSubstr("too short"));
  EXPECT_THAT(plugins[3].finding.reason, HasSubstr("'nonsense' in pjrt.plugins"));
}

TEST_F(PluginDetection, SeveralAreAskedAtOnceAndComeBackInOrder) {
  context_.pjrt_plugins.clear();
  for (int i = 0; i < 8; ++i) {
    const auto path = (folder_.path() / (std::to_string(i) + ".so")).string();
    ASSERT_TRUE(write_file_atomically(path, own_header()).ok());
    context_.pjrt_plugins.push_back(std::to_string(i) + "=" + path);
  }
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  const auto plugins = detect_plugins(context_, [&](const std::string&) -> Result<std::string> {
    const int now = ++running;
    int seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --running;
    return std::string(R"({"finding": {"presence": "present"}, "api_minor": 60})");
  });
  ASSERT_EQ(plugins.size(), 8U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(plugins[static_cast<std::size_t>(i)].name, std::to_string(i));
  EXPECT_LE(most, 4);
  EXPECT_GE(most, 2);
}

TEST_F(PluginDetection, PassedOverDuplicateIsNamed) {
  context_.pjrt_plugins.push_back("fake=/other/fake.so");
  const PjrtPlugin plugin = detect_with_probe(R"(echo '{"finding": {"presence": "present"}, "api_minor": 60}')");
  EXPECT_EQ(plugin.path, plugin_path());
  EXPECT_THAT(plugin.finding.reason, HasSubstr("/other/fake.so (config) is passed over"));
}

TEST_F(PluginDetection, NoPluginsNoChildren) {
  context_.pjrt_plugins.clear();
  EXPECT_TRUE(detect_plugins(context_).empty());
}

}  // namespace
}  // namespace kpt
