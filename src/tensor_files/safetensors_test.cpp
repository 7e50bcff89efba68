#include "tensor_files/safetensors.h"

#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/little_endian.h"
#include "support/hardware_fixture.h"
#include "tensor_files/random_tensor.h"
#include "tensor_files/tensor_bytes.h"

namespace kpt {
namespace {

using testing::draw_seed;
using testing::expect_same;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "file.safetensors"; }

  Result<std::vector<NamedTensor>> read(SafetensorsMetadata* metadata = nullptr) const {
    KPT_ASSIGN_OR_RETURN(auto file, MappedFile::open(path()));
    return read_safetensors(file, metadata);
  }
  Result<std::vector<NamedTensor>> read_text(const std::string& content) const {
    testing::write_plain_file(path(), content);
    return read();
  }
  Result<std::vector<NamedTensor>> read_parts(const std::string& header, const std::string& data) const {
    return read_text(with_length(header) + data);
  }
  static std::string with_length(const std::string& header) {
    std::string text;
    append_little_endian(text, std::uint64_t{header.size()});
    return text + header;
  }

 private:
  testing::TemporaryFolder folder_;
};

bool known_tensor(DType dtype) { return dtype != DType::kComplex32 && dtype != DType::kComplex128; }

TEST_F(Safetensors, WhatIsWrittenIsReadInPlaceInItsOrder) {
  const std::uint64_t seed = draw_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::vector<NamedTensor> tensors;
    const std::size_t count = random() % 12;
    for (std::size_t i = 0; i < count; ++i) {
      const DType dtype = testing::kAllDTypes[random() % std::size(testing::kAllDTypes)];
      if (!known_tensor(dtype)) continue;
      Tensor tensor = testing::random_tensor(random, dtype);
      if (random() % 3 == 0) tensor = testing::transposed(tensor);
      tensors.push_back({"layer." + std::to_string(i) + (random() % 4 == 0 ? "\"\\\n\xc3\xa4" : ""), tensor});
    }
    SafetensorsMetadata metadata;
    if (random() % 2 == 0) metadata = {{"format", "pt"}, {"quote\"", "\xe2\x82\xac\n"}};
    ASSERT_TRUE(write_safetensors(path(), tensors, metadata).ok());
    SafetensorsMetadata metadata_read{{"old", "content"}};
    const auto file = MappedFile::open(path()).value();
    const auto found = read_safetensors(file, &metadata_read);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(metadata_read, metadata);
    ASSERT_EQ(found->size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ((*found)[i].name, tensors[i].name);
      expect_same((*found)[i].tensor, tensors[i].tensor);
      EXPECT_TRUE(testing::lies_in((*found)[i].tensor, *file)) << "copied";
      EXPECT_FALSE((*found)[i].tensor.buffer()->writable());
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>((*found)[i].tensor.data()) % element_alignment((*found)[i].tensor.dtype()),
          0U);
    }
  }
}

TEST_F(Safetensors, TensorsOutliveTheCallersShareOfTheFile) {
  const float value = 2.5F;
  const Tensor tensor = Tensor::from_bytes(DType::kFloat32, {{1}}, std::as_bytes(std::span(&value, 1))).value();
  ASSERT_TRUE(write_safetensors(path(), std::vector<NamedTensor>{{"w", tensor}}).ok());
  const auto found = read();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)[0].tensor.elements<float>()[0], 2.5F);
}

TEST_F(Safetensors, MisalignedTensorsAreCopied) {
  const auto found = read_parts(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      std::string("\x07\0\0\x80\x3f", 5));
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ((*found)[1].tensor.elements<float>()[0], 1.0F);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*found)[1].tensor.data()) % 4, 0U);
}

TEST_F(Safetensors, UnusualButSoundHeadersAreRead) {
  EXPECT_EQ(read_parts("{}", "")->size(), 0U);
  EXPECT_EQ(read_parts("{}      ", "")->size(), 0U);
  EXPECT_EQ(read_parts(R"({"__metadata__":{}})", "")->size(), 0U);
  // Bytes in another order than names, tensors without elements between them, keys that are not known.
  const auto found = read_parts(R"({"a":{"shape":[2],"dtype":"I8","data_offsets":[1,3],"more":[{"x":1}]},)"
                                R"("z":{"dtype":"F64","shape":[0,9999999999],"data_offsets":[1,1]},)"
                                R"("b":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})",
                                "\1\2\3");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ((*found)[0].tensor.elements<std::int8_t>()[1], 3);
  EXPECT_EQ((*found)[1].tensor.element_count(), 0);
  EXPECT_EQ((*found)[2].tensor.dims().size(), 0U);
}

TEST_F(Safetensors, GoldenFileIsRead) {
  SafetensorsMetadata metadata;
  const auto found = read_safetensors(MappedFile::open(testing::test_data("golden.safetensors")).value(), &metadata);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(metadata, (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[0].name, "linear.weight");
  EXPECT_EQ((*found)[0].tensor.dims(), (Dims{2, 3}));
  EXPECT_EQ((*found)[0].tensor.elements<float>()[5], 5.5F);
  EXPECT_EQ((*found)[1].tensor.elements<std::int64_t>()[0], -7);
  EXPECT_EQ((*found)[2].tensor.dtype(), DType::kBFloat16);
  EXPECT_EQ((*found)[2].tensor.elements<std::uint16_t>()[0], 0x3f80);
}

struct MalformedSafetensors {
  std::string header;
  std::string data;
  StatusCode code = StatusCode::kCorruptData;
};

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::vector<MalformedSafetensors> malformed_headers() {
  const std::string eight(8, 'x');
  constexpr StatusCode kUnsupported = StatusCode::kUnsupported;
  return {
      {"", ""},
      {" ", ""},
      {"{", ""},
      {"}", ""},
      {"[]", ""},
      {"null", ""},
      {"{} x", ""},
      {"{}{}", ""},
      {"{,}", ""},
      {R"({"w"})", ""},
      {R"({"w":})", ""},
      {R"({"w":1})", ""},
      {R"({"w":null})", ""},
      {R"({"w":[]})", ""},
      {R"({"w":{}})", ""},
      {R"({"w":{},})", ""},
      {R"({w:{}})", ""},
      {R"({"w":{"dtype":"F32","shape":[2]}})", eight},
      {R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", eight},
      {R"({"w":{"shape":[2],"data_offsets":[0,8]}})", eight},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", eight},
      {R"({"w":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", eight},
      {one(R"("F32")", "[2]", "[0,8]") + "x", eight},
      {one(R"("F32")", "[2]", "[0,8]").substr(0, 40), eight},
      {one("7", "[2]", "[0,8]"), eight},
      {one("null", "[2]", "[0,8]"), eight},
      {one(R"("F33")", "[2]", "[0,8]"), eight, kUnsupported},
      {one(R"("f32")", "[2]", "[0,8]"), eight, kUnsupported},
      {one(R"("")", "[2]", "[0,8]"), eight, kUnsupported},
      {one(R"("F4")", "[16]", "[0,8]"), eight, kUnsupported},
      {one(R"("F6_E2M3")", "[8]", "[0,8]"), eight, kUnsupported},
      {one(R"("F32")", "2", "[0,8]"), eight},
      {one(R"("F32")", "{}", "[0,8]"), eight},
      {one(R"("F32")", "null", "[0,8]"), eight},
      {one(R"("F32")", R"(["2"])", "[0,8]"), eight},
      {one(R"("F32")", "[2.0]", "[0,8]"), eight},
      {one(R"("F32")", "[2e0]", "[0,8]"), eight},
      {one(R"("F32")", "[-2]", "[0,8]"), eight},
      {one(R"("F32")", "[true]", "[0,8]"), eight},
      {one(R"("F32")", "[[2]]", "[0,8]"), eight},
      {one(R"("F32")", "[2,]", "[0,8]"), eight},
      {one(R"("F32")", "[3]", "[0,8]"), eight},
      {one(R"("F32")", "[1]", "[0,8]"), eight},
      {one(R"("F32")", "[2,0]", "[0,8]"), eight},
      {one(R"("F32")", "[4294967296,4294967296]", "[0,8]"), eight},
      {one(R"("F32")", "[9223372036854775807]", "[0,8]"), eight},
      {one(R"("F32")", "[4611686018427387906]", "[0,8]"), eight},
      {one(R"("F32")", "[18446744073709551618]", "[0,8]"), eight},
      {one(R"("U8")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,8]", "[0,8]"), eight, kUnsupported},
  };
}

std::vector<MalformedSafetensors> malformed_places() {
  const std::string eight(8, 'x');
  const auto pair = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  return {
      {one(R"("F32")", "[2]", "[]"), eight},
      {one(R"("F32")", "[2]", "[8]"), eight},
      {one(R"("F32")", "[2]", "[0,8,8]"), eight},
      {one(R"("F32")", "[2]", "8"), eight},
      {one(R"("F32")", "[2]", "{}"), eight},
      {one(R"("F32")", "[2]", R"(["0","8"])"), eight},
      {one(R"("F32")", "[2]", "[0,8.0]"), eight},
      {one(R"("F32")", "[2]", "[8,0]"), eight},
      {one(R"("F32")", "[2]", "[-8,0]"), eight},
      {one(R"("F32")", "[2]", "[1,9]"), eight + "x"},
      {one(R"("F32")", "[2]", "[0,8]"), eight + "x"},
      {one(R"("F32")", "[2]", "[0,8]"), "1234567"},
      {one(R"("F32")", "[2]", "[0,8]"), ""},
      {one(R"("F32")", "[2]", "[9223372036854775800,9223372036854775808]"), eight},
      {one(R"("F32")", "[2]", "[9223372036854775799,9223372036854775807]"), eight},
      {pair("[0,4]", "[0,4]"), eight},
      {pair("[0,4]", "[3,7]"), eight},
      {pair("[0,4]", "[5,9]"), eight + "x"},
      {pair("[4,8]", "[8,12]"), eight + "1234"},
      {R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       eight},
      {R"({"__metadata__":1})", ""},
      {R"({"__metadata__":[]})", ""},
      {R"({"__metadata__":{"a":1}})", ""},
      {R"({"__metadata__":{"a":{}}})", ""},
      {R"({"__metadata__":{"a":"1","a":"2"}})", ""},
      {R"({"__metadata__":{},"__metadata__":{}})", ""},
      {R"({"w)", ""},
      {"{\"w\n\":{}}", ""},
      {R"({"\u12":{}})", ""},
      {R"({"w":)" + std::string(100000, '[') + std::string(100000, ']') + "}", ""},
      {R"({"w":)" + std::string(100000, '{'), ""},
      {one(R"("F32")", "[2]", "[0,8]").insert(5, "\"extra\":" + std::string(5000, '[')), eight},
  };
}

TEST_F(Safetensors, EveryMalformedHeaderIsATypedError) {
  std::vector<MalformedSafetensors> cases = malformed_headers();
  std::ranges::move(malformed_places(), std::back_inserter(cases));
  ASSERT_GE(cases.size(), 60U);
  for (const MalformedSafetensors& bad : cases) {
    const Status status = read_parts(bad.header, bad.data).status();
    EXPECT_EQ(status.code(), bad.code) << bad.header.substr(0, 200) << "\n" << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("file.safetensors"));
    EXPECT_LT(status.message().size(), 1000U);
  }
}

TEST_F(Safetensors, EveryTruncationAndEveryLyingLengthIsRefused) {
  const std::string text = with_length(one(R"("F32")", "[2]", "[0,8]")) + "12345678";
  ASSERT_TRUE(read_text(text).ok());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(read_text(text.substr(0, size)).status().code(), StatusCode::kCorruptData) << size;
  }
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{100'000'001}, ~std::uint64_t{0},
                                     ~std::uint64_t{0} - 7, std::uint64_t{text.size() - 7}}) {
    std::string lying;
    append_little_endian(lying, length);
    EXPECT_EQ(read_text(lying + text.substr(8)).status().code(), StatusCode::kCorruptData) << length;
  }
}

TEST_F(Safetensors, UnwritableTensorsAreRefusedAndTheOldFileStays) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const Tensor sound = testing::random_tensor(random, DType::kFloat32);
  ASSERT_TRUE(write_safetensors(path(), std::vector<NamedTensor>{{"w", sound}}).ok());
  const auto status_of = [&](std::vector<NamedTensor> tensors, const SafetensorsMetadata& metadata = {}) {
    return write_safetensors(path(), tensors, metadata).code();
  };
  EXPECT_EQ(status_of({{"w", sound}, {"w", sound}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"__metadata__", sound}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"w\xff", sound}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"w", sound}}, {{"k", "\xff"}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"w", Tensor()}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"w", testing::random_tensor(random, DType::kComplex128)}}), StatusCode::kUnsupported);
  EXPECT_EQ(status_of({{"w", testing::random_tensor(random, DType::kComplex32)}}), StatusCode::kUnsupported);
  EXPECT_TRUE(read().ok());
}

}  // namespace
}  // namespace kpt
