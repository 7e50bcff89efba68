#include "archive/mapped_file.h"

#include <sys/stat.h>

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

class MappedFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    const std::filesystem::path path = folder_.path() / name;
    EXPECT_TRUE(write_file_atomically(path, content).ok());
    return path;
  }
  testing::TemporaryFolder folder_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(MappedFiles, BytesAreThoseOfTheFile) {
  for (const std::string& content :
       {std::string(), std::string("x"), std::string("a\0b", 3), std::string(70001, 'y')}) {
    const auto file = MappedFile::open(write("file", content));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ(text_of((*file)->bytes()), content);
    EXPECT_EQ((*file)->path(), folder_.path() / "file");
  }
}

TEST_F(MappedFiles, ReplacingTheFileLeavesTheMapping) {
  const auto file = MappedFile::open(write("file", "old content"));
  ASSERT_TRUE(file.ok());
  write("file", "new");
  EXPECT_EQ(text_of((*file)->bytes()), "old content");
}

TEST_F(MappedFiles, WhatIsNoRegularFileIsRefused) {
  EXPECT_EQ(MappedFile::open(folder_.path() / "missing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::open(write("file", "x") / "below").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::open(folder_.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open("/dev/null").status().code(), StatusCode::kInvalidArgument);
  const auto pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto status = MappedFile::open(pipe).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("pipe is not a regular file"));
}

TEST_F(MappedFiles, BufferKeepsTheMappingAlive) {
  auto file = *MappedFile::open(write("file", "0123456789"));
  const std::weak_ptr<const MappedFile> watch = file;
  const auto part = file->bytes().subspan(3, 4);
  std::shared_ptr<Buffer> buffer = make_buffer(std::move(file), part);
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(buffer->bytes(), 4U);
  EXPECT_EQ(buffer->device(), "cpu");
  EXPECT_FALSE(buffer->writable());
  EXPECT_EQ(std::memcmp(buffer->data(), "3456", 4), 0);
  buffer.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace kpt
