#include "support/hardware_fixture.h"

#include <gtest/gtest.h>

namespace kpt::testing {
namespace {

using Json = nlohmann::ordered_json;

TEST(HardwareFixture, WritesFilesLinksAndPermissions) {
  const HardwareFixture fixture = HardwareFixture::parse(R"({
    "description": "all forms of a file",
    "files": {
      "/proc/one": "text\n",
      "/proc/lines": ["a", "b"],
      "/dev/locked": {"mode": "000"},
      "/dev/open": "",
      "/sys/link": {"link": "../proc/one"},
      "/sys/empty": {"folder": true},
      "/proc/long": {"pattern": "ab", "repeat": 3}
    },
    "environment": {"ROCM_PATH": "$ROOT/opt/rocm"},
    "driver": {"devices": 2},
    "expect": {}
  })",
                                                         "forms");
  const DetectionContext context = fixture.context();
  EXPECT_EQ(*context.files.read("/proc/one"), "text");
  EXPECT_EQ(*context.files.read("/proc/lines"), "a\nb");
  EXPECT_EQ(*context.files.read("/sys/link"), "text");
  EXPECT_EQ(*context.files.read("/proc/long"), "ababab");
  EXPECT_TRUE(context.files.list("/sys/empty")->empty());
  EXPECT_TRUE(context.files.exists("/dev/locked"));
  EXPECT_FALSE(context.files.can_open("/dev/locked"));
  EXPECT_TRUE(context.files.can_open("/dev/open"));
  EXPECT_EQ(*context.environment.find("ROCM_PATH"), (fixture.root() / "opt/rocm").string());
  EXPECT_EQ(read_text_file(fixture.driver_file(), 100).value(), R"({"devices":2})");
}

TEST(HardwareFixture, RemovesItsFolder) {
  std::filesystem::path root;
  {
    const HardwareFixture fixture =
        HardwareFixture::parse(R"({"description": "", "files": {"/a/b": "c"}, "expect": {}})", "gone");
    root = fixture.root();
    ASSERT_TRUE(std::filesystem::exists(root / "a/b"));
  }
  EXPECT_FALSE(std::filesystem::exists(root.parent_path()));
}

TEST(HardwareFixture, FaultNamesTheFixture) {
  try {
    HardwareFixture::parse("{", "half");
    FAIL() << "a half object was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("fixture half"), std::string::npos);
  }
}

TEST(FindDifference, SubsetMatches) {
  EXPECT_EQ(find_difference(Json::parse(R"({"a": {"b": [1, {"c": 2}]}})"),
                            Json::parse(R"({"x": 0, "a": {"y": 0, "b": [1, {"c": 2, "z": 0}]}})")),
            std::nullopt);
}

TEST(FindDifference, NamesThePathAndBothValues) {
  EXPECT_EQ(find_difference(Json::parse(R"({"a": {"b": [1, 2]}})"), Json::parse(R"({"a": {"b": [1, 3]}})")),
            "/a/b/1: expected 2, got 3");
  EXPECT_EQ(find_difference(Json::parse(R"({"a": [1]})"), Json::parse(R"({"a": [1, 2]})")),
            "/a: expected [1], got [1,2]");
  EXPECT_EQ(find_difference(Json::parse(R"({"a": null})"), Json::parse("{}")), "/a: expected null, but it is missing");
}

TEST(FindDifference, Rules) {
  const Json actual = Json::parse(R"({"text": "no driver here", "list": ["one thing", {"k": 1}]})");
  EXPECT_FALSE(find_difference(Json::parse(R"({"text": {"$contains": "driver"}})"), actual));
  EXPECT_TRUE(find_difference(Json::parse(R"({"text": {"$contains": "device"}})"), actual));
  EXPECT_FALSE(find_difference(Json::parse(R"({"list": {"$contains": {"k": 1}}})"), actual));
  EXPECT_FALSE(find_difference(Json::parse(R"({"list": {"$contains": "thing", "$size": 2}})"), actual));
  EXPECT_TRUE(find_difference(Json::parse(R"({"list": {"$size": 3}})"), actual));
  EXPECT_TRUE(find_difference(Json::parse(R"({"list": {"$absent": "one"}})"), actual));
}

}  // namespace
}  // namespace kpt::testing
