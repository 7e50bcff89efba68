#include "engines/xla/pjrt/plugin_probe.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/xla/pjrt/pjrt_abi.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

std::string library(const std::string& name) { return build_dir() + "/fakes/pjrt/" + name; }

// The fake reads its orders each time it is asked.
PjrtPlugin probe_fake(const std::string& orders) {
  ::setenv("FAKE_PJRT", orders.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  return probe_pjrt_plugin(library("fake_pjrt_plugin.so"));
}

TEST(PluginProbe, ReadsTheVersion) {
  const PjrtPlugin plugin = probe_fake("version 0 81");
  EXPECT_EQ(plugin.finding, (Finding{Presence::kPresent, "", ""}));
  EXPECT_EQ(plugin.api_major, 0);
  EXPECT_EQ(plugin.api_minor, 81);
  EXPECT_EQ(plugin.path, library("fake_pjrt_plugin.so"));
}

TEST(PluginProbe, OldestSupportedVersionIsTaken) {
  EXPECT_EQ(probe_fake("version 0 57").finding.presence, Presence::kPresent);
  const PjrtPlugin older = probe_fake("version 0 56");
  EXPECT_EQ(older.finding.presence, Presence::kBroken);
  EXPECT_THAT(older.finding.reason, HasSubstr("0.56; 0.57 or newer"));
  EXPECT_EQ(older.api_minor, 56);
}

TEST(PluginProbe, AnotherMajorVersionIsRefused) {
  const PjrtPlugin plugin = probe_fake("version 1 0");
  EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
  EXPECT_THAT(plugin.finding.reason, HasSubstr("1.0; only major version 0"));
  EXPECT_EQ(probe_fake("version -1 -5").finding.presence, Presence::kBroken);
}

TEST(PluginProbe, TableThatIsNoneIsRefused) {
  EXPECT_THAT(probe_fake("null").finding.reason, HasSubstr("gives no table"));
  const PjrtPlugin tiny = probe_fake("struct_size 8");
  EXPECT_THAT(tiny.finding.reason, HasSubstr("has 8 bytes"));
  EXPECT_EQ(tiny.api_minor, 0) << "the version lies outside a table of eight bytes";
  EXPECT_THAT(probe_fake("struct_size 840").finding.reason, HasSubstr("has 840 bytes"));
  EXPECT_EQ(probe_fake("struct_size 848").finding.presence, Presence::kPresent);
  EXPECT_THAT(probe_fake("struct_size 18446744073709551615").finding.reason, HasSubstr("18446744073709551615 bytes"));
}

TEST(PluginProbe, PluginThatDoesNotInitialiseIsRefusedWithItsMessage) {
  for (const std::string call : {"PJRT_Plugin_Initialize", "PJRT_Plugin_Attributes"}) {
    const PjrtPlugin plugin = probe_fake("fail " + call + " 13 no licence");
    EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
    EXPECT_EQ(plugin.finding.reason, "its " + call + " failed: no licence");
    EXPECT_FALSE(plugin.finding.remedy.empty());
    EXPECT_EQ(plugin.api_minor, 81);
    EXPECT_EQ(probe_fake("lack " + call).finding.presence, Presence::kPresent) << "whoever opens it says so";
  }
  EXPECT_THAT(probe_fake("fail PJRT_Plugin_Initialize 13 no licence;lack PJRT_Error_Message;lack PJRT_Error_GetCode")
                  .finding.reason,
              HasSubstr("no message"));
}

// A lock that the probe took would keep out who starts to compute meanwhile.
TEST(PluginProbe, LibtpusLockIsNotTaken) {
  ::unsetenv("ALLOW_MULTIPLE_LIBTPU_LOAD");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(probe_fake("locked").finding.presence, Presence::kPresent);
}

TEST(PluginProbe, LibraryWithoutTheEntryIsNoPlugin) {
  const PjrtPlugin plugin = probe_pjrt_plugin(library("fake_pjrt_plugin_without_entry.so"));
  EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
  EXPECT_THAT(plugin.finding.reason, HasSubstr("no function GetPjrtApi"));
}

TEST(PluginProbe, FileThatIsNoLibraryIsALoaderError) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "text.so").string();
  ASSERT_TRUE(write_file_atomically(path, "no library").ok());
  const PjrtPlugin plugin = probe_pjrt_plugin(path);
  EXPECT_EQ(plugin.finding.presence, Presence::kBroken);
  EXPECT_THAT(plugin.finding.reason, HasSubstr("text.so"));
  EXPECT_EQ(probe_pjrt_plugin("/no/such/plugin.so").finding.presence, Presence::kBroken);
}

TEST(PluginProbe, LibtpuIsToldNotToAskAMetadataServer) {
  ::unsetenv("TPU_SKIP_MDS_QUERY");  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(probe_fake("needs_skip_mds").finding.presence, Presence::kPresent);
}

}  // namespace
}  // namespace kpt
