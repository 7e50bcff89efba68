#include "compile_cache/entry_format.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace kpt::compile_cache {
namespace {

const std::string kDigest(64, 'a');

// What a reader of the file does.
Status check_file(const std::string& file) {
  const auto header = read_header(std::string_view(file).substr(0, kMaxHeaderBytes), file.size());
  if (!header.ok()) return header.status();
  return check_payload(*header, std::string_view(file).substr(header->header_bytes));
}

TEST(EntryFormat, WhatIsWrittenIsReadBack) {
  for (const std::string& payload : {std::string(), std::string("x"), std::string(100000, '\0')}) {
    const std::string text = print_header(kDigest, "optimize", payload) + payload;
    const auto header = read_header(text, text.size());
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->digest, kDigest);
    EXPECT_EQ(header->kind, "optimize");
    EXPECT_EQ(header->payload_bytes, payload.size());
    EXPECT_EQ(text.substr(header->header_bytes), payload);
    EXPECT_TRUE(check_file(text).ok());
  }
}

TEST(EntryFormat, EveryCutAndEveryFlippedBitIsSeen) {
  const std::string text = print_header(kDigest, "tuning", "payload") + "payload";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(check_file(text.substr(0, length)).code(), StatusCode::kCorruptData) << length;
  }
  EXPECT_EQ(check_file(text + "x").code(), StatusCode::kCorruptData);
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(check_file(flipped).code(), StatusCode::kCorruptData) << bit;
  }
}

TEST(EntryFormat, RandomBytesAreNoEntry) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text = round % 2 == 0 ? "kptcache" : "";
    for (std::size_t count = random() % 200; count > 0; --count) text += static_cast<char>(random());
    EXPECT_EQ(check_file(text).code(), StatusCode::kCorruptData);
  }
}

TEST(EntryFormat, KindsAndDigestsAreWordsOfTheirKind) {
  EXPECT_TRUE(is_kind("optimize-1.x_y"));
  for (const std::string& bad : {std::string(), std::string("A"), std::string("a b"), std::string("a/b"),
                                 std::string(65, 'a'), std::string("a\0", 2)}) {
    EXPECT_FALSE(is_kind(bad));
  }
  EXPECT_TRUE(is_digest(kDigest));
  EXPECT_FALSE(is_digest(std::string(63, 'a')));
  EXPECT_FALSE(is_digest(std::string(64, 'A')));
  EXPECT_FALSE(is_digest(std::string(64, 'g')));
}

}  // namespace
}  // namespace kpt::compile_cache
