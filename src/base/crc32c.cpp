#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "base/little_endian.h"

namespace kpt {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // 0x1edc6f41 with its bits reversed

// kTables[k][b]: the effect of byte b that is followed by k further bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t value = 0; value < 256; ++value) {
    std::uint32_t crc = value;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    tables[0][value] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t value = 0; value < 256; ++value) {
      const std::uint32_t before = tables[k - 1][value];
      tables[k][value] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t add_by_table(std::uint32_t crc, const std::byte* at, std::size_t count) {
  for (; count >= 8; at += 8, count -= 8) {
    const std::uint64_t word = load_little_endian<std::uint64_t>(at) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffU];
  }
  for (; count > 0; ++at, --count) crc = (crc >> 8U) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xffU];
  return crc;
}

#if defined(__aarch64__)

constexpr unsigned long kHasCrc = 1UL << 7U;  // HWCAP_CRC32

bool has_crc_instructions() { return (::getauxval(AT_HWCAP) & kHasCrc) != 0; }

// In assembly because compilers differ in how a single function may use an extension.
std::uint32_t add_by_instructions(std::uint32_t crc, const std::byte* at, std::size_t count) {
  for (; count >= 8; at += 8, count -= 8) {
    const auto word = load_little_endian<std::uint64_t>(at);
    asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %1" : "+r"(crc) : "r"(word));
  }
  for (; count > 0; ++at, --count) {
    const auto byte = static_cast<std::uint32_t>(*at);
    asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
  }
  return crc;
}

#elif defined(__x86_64__)

bool has_crc_instructions() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) std::uint32_t add_by_instructions(std::uint32_t crc, const std::byte* at,
                                                                    std::size_t count) {
  std::uint64_t wide = crc;
  for (; count >= 8; at += 8, count -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; count > 0; ++at, --count) crc = _mm_crc32_u8(crc, static_cast<unsigned char>(*at));
  return crc;
}

#else

bool has_crc_instructions() { return false; }
std::uint32_t add_by_instructions(std::uint32_t crc, const std::byte* at, std::size_t count) {
  return add_by_table(crc, at, count);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  static const bool kInstructions = has_crc_instructions();
  const auto add = kInstructions ? add_by_instructions : add_by_table;
  return ~add(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32c(std::string_view text, std::uint32_t crc) {
  return crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()}, crc);
}

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t crc) {
  return ~add_by_table(~crc, bytes.data(), bytes.size());
}

}  // namespace kpt
