#include "base/crc32c.h"

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// RFC 3720, B.4, and the usual check value.
TEST(Crc32c, GivesTheKnownValues) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  const std::string falling(rising.rbegin(), rising.rend());
  const std::vector<std::pair<std::string, std::uint32_t>> known = {
      {"", 0},
      {"123456789", 0xe3069283},
      {std::string(32, '\0'), 0x8a9136aa},
      {std::string(32, '\xff'), 0x62a8ab43},
      {rising, 0x46dd794e},
      {falling, 0x113fdb5c},
  };
  for (const auto& [text, value] : known) {
    EXPECT_EQ(crc32c(text), value);
    EXPECT_EQ(crc32c_by_table(bytes_of(text)), value);
  }
}

TEST(Crc32c, PiecesGiveTheSameAsTheWholeWithAndWithoutInstructions) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 300, '\0');
    for (char& letter : text) letter = static_cast<char>(random());
    const std::uint32_t whole = crc32c(text);
    EXPECT_EQ(crc32c_by_table(bytes_of(text)), whole);
    const std::size_t cut = random() % (text.size() + 1);
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), whole);
    EXPECT_EQ(crc32c_by_table(bytes_of(text).subspan(cut), crc32c_by_table(bytes_of(text).first(cut))), whole);
    if (text.empty()) continue;
    char& changed = text[random() % text.size()];
    changed = static_cast<char>(static_cast<unsigned char>(changed) ^ (1U << (random() % 8)));
    EXPECT_NE(crc32c(text), whole);
  }
}

}  // namespace
}  // namespace kpt
