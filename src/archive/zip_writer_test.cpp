#include <chrono>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/zip.h"
#include "archive/zip_forge.h"
#include "base/child_process.h"
#include "base/files.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::as_bytes;
using ::testing::HasSubstr;

struct Content {
  std::string name;
  std::string bytes;
};

std::vector<Content> random_content(std::mt19937_64& random) {
  std::vector<Content> made;
  const std::size_t count = random() % 9;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name = "e" + std::to_string(i) + std::string(random() % 70, 'n');
    if (random() % 4 == 0) name += "/\xc3\xa4.bin";
    std::string bytes(random() % 3 == 0 ? random() % 3 : random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    made.push_back({std::move(name), std::move(bytes)});
  }
  return made;
}

std::string build(const std::vector<Content>& contents, std::size_t alignment, std::uint64_t zip64_from) {
  ZipBuilder builder(alignment, zip64_from);
  for (const Content& content : contents) builder.add(content.name, as_bytes(content.bytes));
  const auto text = builder.serialize();
  EXPECT_TRUE(text.ok()) << text.status().to_string();
  return text.value_or("");
}

TEST(ZipWriter, WhatIsWrittenIsReadAndAligned) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Content> contents = random_content(random);
    const std::size_t alignments[] = {1, 2, 3, 64, 4096, 32768, 1 + random() % 32768};
    const std::size_t alignment = alignments[random() % 7];
    const std::uint64_t zip64_from = random() % 2 == 0 ? 0xffffffff : random() % 5000;
    SCOPED_TRACE(::testing::Message() << "round " << round << " alignment " << alignment << " from " << zip64_from);
    const std::string text = build(contents, alignment, zip64_from);
    const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
    ASSERT_TRUE(archive.ok()) << archive.status().to_string();
    ASSERT_EQ(archive->entries().size(), contents.size());
    for (const Content& content : contents) {
      const ZipEntry* entry = archive->find(content.name);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(archive->read(*entry, content.bytes.size()).value(), content.bytes);
      EXPECT_EQ((archive->view(*entry)->data() - as_bytes(text).data()) % static_cast<std::ptrdiff_t>(alignment), 0);
    }
  }
}

TEST(ZipWriter, EqualContentGivesEqualBytes) {
  EXPECT_EQ(build({{"a", "1"}, {"b", ""}}, 64, 0xffffffff), build({{"a", "1"}, {"b", ""}}, 64, 0xffffffff));
}

TEST(ZipWriter, ManyEntriesNeedTheZip64EndRecord) {
  for (const std::size_t count : {65534U, 65535U, 65536U}) {
    ZipBuilder builder(1);
    for (std::size_t i = 0; i < count; ++i) builder.add(std::to_string(i), {});
    const std::string text = builder.serialize().value();
    const auto archive = ZipArchive::from_bytes(as_bytes(text), "test.zip");
    ASSERT_TRUE(archive.ok()) << archive.status().to_string();
    EXPECT_EQ(archive->entries().size(), count);
  }
}

TEST(ZipWriter, BadNamesAndAlignmentsAreRefused) {
  const auto status_of = [](std::vector<Content> contents, std::size_t alignment = 64) {
    ZipBuilder builder(alignment);
    for (const Content& content : contents) builder.add(content.name, as_bytes(content.bytes));
    return builder.serialize().status();
  };
  EXPECT_TRUE(status_of({}).ok());
  for (const char* name : {"", "/a", "a/../b", "..", "a\\b"}) {
    EXPECT_EQ(status_of({{name, "1"}}).code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_THAT(status_of({{"folder/", "1"}}).message(), HasSubstr("folder"));
  EXPECT_THAT(status_of({{"a", "1"}, {"a", "2"}}).message(), HasSubstr("two zip entries are named a"));
  EXPECT_EQ(status_of({{std::string(65536, 'n'), "1"}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({}, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({}, 32769).code(), StatusCode::kInvalidArgument);
}

class ZipFiles : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
};

TEST_F(ZipFiles, FileHasTheSerializedBytes) {
  const std::string content(100000, 'c');
  ZipBuilder builder;
  builder.add("a", as_bytes(content));
  const auto path = folder_.path() / "below" / "a.zip";
  ASSERT_TRUE(builder.write_file(path).ok());
  EXPECT_EQ(read_text_file(path, 1U << 20U).value(), builder.serialize().value());
  builder.add("../b", {});
  EXPECT_EQ(builder.write_file(path).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(ZipArchive::open(*MappedFile::open(path)).ok()) << "the old file is still there";
}

// Python reads what we write, writes it anew (stored, deflated, streamed, with forced ZIP64), and we read that.
constexpr const char* kRewrite = R"(
import sys, zipfile
class Stream:
    def __init__(self, file): self.file = file
    def write(self, data): return self.file.write(data)
    def flush(self): self.file.flush()
source = zipfile.ZipFile(sys.argv[1])
assert source.testzip() is None
mode = sys.argv[3]
with open(sys.argv[2], "wb") as file:
    method = zipfile.ZIP_DEFLATED if "deflate" in mode else zipfile.ZIP_STORED
    with zipfile.ZipFile(Stream(file) if "stream" in mode else file, "w", method) as target:
        for info in source.infolist():
            with target.open(info.filename, "w", force_zip64="zip64" in mode) as entry:
                entry.write(source.read(info))
        target.comment = b"written by Python"
)";

TEST_F(ZipFiles, PythonReadsOursAndWeReadPythons) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const char* mode : {"plain", "deflate", "stream", "deflate stream", "zip64", "zip64 deflate stream"}) {
    SCOPED_TRACE(mode);
    const std::vector<Content> contents = random_content(random);
    const auto ours = folder_.path() / "ours.zip";
    const auto theirs = folder_.path() / "theirs.zip";
    const std::uint64_t zip64_from = random() % 2 == 0 ? 0xffffffff : random() % 3000;
    ASSERT_TRUE(write_file_atomically(ours, build(contents, 64, zip64_from)).ok());
    const auto run =
        run_child({{"python3", "-c", kRewrite, ours.string(), theirs.string(), mode}, {}, std::chrono::seconds(60)});
    if (!run.ok()) GTEST_SKIP() << "no python3: " << run.status().to_string();
    ASSERT_TRUE(run->succeeded()) << run->standard_error;
    const auto archive = ZipArchive::open(*MappedFile::open(theirs));
    ASSERT_TRUE(archive.ok()) << archive.status().to_string();
    ASSERT_EQ(archive->entries().size(), contents.size());
    for (const Content& content : contents) {
      const ZipEntry* entry = archive->find(content.name);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(archive->read(*entry, content.bytes.size()).value(), content.bytes);
    }
  }
}

}  // namespace
}  // namespace kpt
