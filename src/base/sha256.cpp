#include "base/sha256.h"

#include <algorithm>
#include <cstring>

#include "base/sha256_blocks.h"

namespace kpt {
void Sha256::update(std::string_view bytes) {
  total_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pending_bytes_ == 0 && bytes.size() >= pending_.size()) {
      const std::size_t blocks = bytes.size() / pending_.size();
      sha256_blocks(state_, reinterpret_cast<const unsigned char*>(bytes.data()), blocks);
      bytes.remove_prefix(blocks * pending_.size());
      continue;
    }
    const std::size_t count = std::min(bytes.size(), pending_.size() - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, bytes.data(), count);
    pending_bytes_ += count;
    bytes.remove_prefix(count);
    if (pending_bytes_ == pending_.size()) {
      sha256_blocks(state_, pending_.data(), 1);
      pending_bytes_ = 0;
    }
  }
}

std::string Sha256::hex_digest() {
  const std::uint64_t total_bits = total_bytes_ * 8;
  update(std::string_view("\x80", 1));
  while (pending_bytes_ != 56) update(std::string_view("\0", 1));
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(total_bits >> (56 - 8 * i) & 0xff);
  update({length.data(), length.size()});

  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digest;
  digest.reserve(64);
  for (const std::uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) digest += kDigits[word >> shift & 0xf];
  }
  return digest;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

}  // namespace kpt
