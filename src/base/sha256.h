// SHA-256 (FIPS 180-4), for cache keys and checksums. Written here because no hashing library is common to all the
// machines we build on; see docs/decisions/. Uses the instructions for it where the processor has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kpt {

class Sha256 {
 public:
  void update(std::string_view bytes);
  // 64 lower-case hexadecimal digits. Ends the computation: call nothing afterwards.
  std::string hex_digest();

 private:
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace kpt
