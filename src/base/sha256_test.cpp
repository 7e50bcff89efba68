#include "base/sha256.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/sha256_blocks.h"

namespace kpt {
namespace {

// FIPS 180-4 examples and NIST CAVP short messages.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsm"
                 "nopqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex("\xd3"), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(sha256_hex(std::string(1, '\xbd')), "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, LengthsAroundTheBlockBorders) {
  // NIST "additional" vectors: zero bytes, and lengths where the padding just fits or just does not.
  EXPECT_EQ(sha256_hex(std::string(55, '\0')), "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  EXPECT_EQ(sha256_hex(std::string(56, '\0')), "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  EXPECT_EQ(sha256_hex(std::string(57, '\0')), "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
  EXPECT_EQ(sha256_hex(std::string(64, '\0')), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
  EXPECT_EQ(sha256_hex(std::string(1000, '\0')), "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
}

TEST(Sha256, AnySplitGivesTheHashOfTheWhole) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string text(std::uniform_int_distribution<std::size_t>(0, 400)(random), '\0');
    for (char& c : text) c = static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    Sha256 hash;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t count = std::min(text.size() - at, std::uniform_int_distribution<std::size_t>(0, 150)(random));
      hash.update(std::string_view(text).substr(at, count));
      at += count;
    }
    ASSERT_EQ(hash.hex_digest(), sha256_hex(text)) << "length " << text.size();
  }
}

TEST(Sha256, WithAndWithoutInstructionsItIsTheSame) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::string blocks(64 * (random() % 9), '\0');
    for (char& c : blocks) c = static_cast<char>(random());
    Sha256State state{};
    for (auto& word : state) word = static_cast<std::uint32_t>(random());
    Sha256State other = state;
    const auto* bytes = reinterpret_cast<const unsigned char*>(blocks.data());
    sha256_blocks(state, bytes, blocks.size() / 64);
    sha256_blocks_portable(other, bytes, blocks.size() / 64);
    EXPECT_EQ(state, other);
  }
}

}  // namespace
}  // namespace kpt
