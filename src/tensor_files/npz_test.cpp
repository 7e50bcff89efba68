#include "tensor_files/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "archive/zip.h"
#include "archive/zip_forge.h"
#include "support/hardware_fixture.h"
#include "tensor_files/npy_header.h"
#include "tensor_files/random_tensor.h"

namespace kpt {
namespace {

using testing::draw_seed;
using testing::expect_same;
using testing::ForgedEntry;
using testing::ForgedZip;
using ::testing::HasSubstr;
using testing::test_data;

class Npz : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "file.npz"; }
  Result<std::vector<NamedTensor>> read(const ForgedZip& zip, std::size_t limit = 1U << 20U) const {
    testing::write_plain_file(path(), zip.build());
    return read_npz(MappedFile::open(path()).value(), limit);
  }

 private:
  testing::TemporaryFolder folder_;
};

std::string npy(const std::string& elements) {
  return make_npy_header(DType::kUInt8, Dims{static_cast<std::int64_t>(elements.size())}, false).value() + elements;
}

ForgedZip zip_of(const std::string& name, const std::string& content) {
  ForgedEntry entry;
  entry.name = name;
  entry.content = content;
  return ForgedZip({entry});
}

TEST_F(Npz, WhatIsWrittenIsReadInPlace) {
  const std::uint64_t seed = draw_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    std::vector<NamedTensor> tensors;
    for (const DType dtype : testing::kAllDTypes) {
      if (random() % 3 != 0 || !make_npy_header(dtype, {}, false).ok()) continue;
      Tensor tensor = testing::random_tensor(random, dtype);
      if (random() % 3 == 0) tensor = testing::transposed(tensor);
      tensors.push_back({"out." + std::to_string(tensors.size()) + std::string(random() % 70, 'n'), tensor});
    }
    ASSERT_TRUE(write_npz(path(), tensors).ok());
    const auto file = MappedFile::open(path()).value();
    const auto found = read_npz(file);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    ASSERT_EQ(found->size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ((*found)[i].name, tensors[i].name);
      expect_same((*found)[i].tensor, tensors[i].tensor);
      if (tensors[i].tensor.is_contiguous()) {
        EXPECT_TRUE(testing::lies_in((*found)[i].tensor, *file));
      }
    }
  }
}

TEST_F(Npz, GoldenFilesOfNumPyAreRead) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(name);
    const auto found = read_npz(MappedFile::open(test_data(name)).value());
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    ASSERT_EQ(found->size(), 3U);
    EXPECT_EQ((*found)[0].name, "a");
    EXPECT_THAT((*found)[0].tensor.elements<float>(), ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ((*found)[1].tensor.dtype(), DType::kBool);
    EXPECT_EQ((*found)[2].name, "deep/c");
    EXPECT_EQ((*found)[2].tensor.elements<double>().size(), 3U);
    EXPECT_EQ(static_cast<const double*>((*found)[2].tensor.data())[4], 2.0);
  }
}

TEST_F(Npz, InflatedBytesAreBoundedTogether) {
  ForgedZip zip = zip_of("a.npy", npy(std::string(1000, 'x')));
  zip.entries.push_back(zip.entries[0]);
  zip.entries[1].name = "b.npy";
  zip.entries[0].deflate = zip.entries[1].deflate = true;
  EXPECT_TRUE(read(zip, 2300).ok());
  EXPECT_EQ(read(zip, 2000).status().code(), StatusCode::kUnsupported);
}

TEST_F(Npz, DamagedArraysAreFoundByTheirChecksum) {
  for (const bool deflate : {false, true}) {
    ForgedZip zip = zip_of("a.npy", npy("abc"));
    zip.entries[0].deflate = deflate;
    EXPECT_TRUE(read(zip).ok());
    zip.entries[0].crc32 = 1;
    EXPECT_EQ(read(zip).status().code(), StatusCode::kCorruptData);
  }
}

TEST_F(Npz, MalformedArchivesAreTypedErrors) {
  const std::string sound = npy("abc");
  const Status other = read(zip_of("readme.txt", "hello")).status();
  EXPECT_EQ(other.code(), StatusCode::kUnsupported);
  EXPECT_THAT(other.message(), HasSubstr("readme.txt in "));
  EXPECT_EQ(read(zip_of("folder/", "")).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(read(zip_of("a.npy", "")).status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(read(zip_of("a.npy", sound + "x")).status().code(), StatusCode::kCorruptData);
  EXPECT_EQ(read(zip_of("../a.npy", sound)).status().code(), StatusCode::kCorruptData);
  // Every cut of the array inside a sound archive, stored and deflated, and every cut of the archive.
  for (std::size_t size = 0; size < sound.size(); ++size) {
    ForgedZip zip = zip_of("a.npy", sound.substr(0, size));
    const Status stored = read(zip).status();
    EXPECT_EQ(stored.code(), StatusCode::kCorruptData) << size;
    EXPECT_THAT(stored.message(), HasSubstr("a.npy in "));
    zip.entries[0].deflate = true;
    EXPECT_EQ(read(zip).status().code(), StatusCode::kCorruptData) << size;
  }
  const std::string text = zip_of("a.npy", sound).build();
  for (std::size_t size = 0; size < text.size(); size += 3) {
    testing::write_plain_file(path(), text.substr(0, size));
    EXPECT_EQ(read_npz(MappedFile::open(path()).value()).status().code(), StatusCode::kCorruptData) << size;
  }
}

TEST_F(Npz, UnwritableTensorsAreRefused) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Tensor sound = testing::random_tensor(random, DType::kFloat32);
  const auto code_of = [&](std::vector<NamedTensor> tensors) { return write_npz(path(), tensors).code(); };
  EXPECT_EQ(code_of({{"a", sound}, {"a", sound}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({{"/a", sound}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({{"a", Tensor()}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({{"a", testing::random_tensor(random, DType::kBFloat16)}}), StatusCode::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace kpt
