#include "base/sha256_blocks.h"

#include <bit>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kpt {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
alignas(16) constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kBlockBytes = 64;

void process_block(Sha256State& state, const unsigned char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(block[4 * i]) << 24 | static_cast<std::uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(block[4 * i + 2]) << 8 | static_cast<std::uint32_t>(block[4 * i + 3]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const Sha256State delta = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += delta[i];
}

#if defined(__aarch64__)

constexpr unsigned long kHasSha2 = 1UL << 6U;  // HWCAP_SHA2

bool has_sha_instructions() { return (::getauxval(AT_HWCAP) & kHasSha2) != 0; }

// In assembly because compilers differ in how a single function may use an extension.
#define KPT_SHA_ASM(text) ".arch_extension sha2\n\t" text

void blocks_by_instructions(Sha256State& state, const unsigned char* blocks, std::size_t count) {
  uint32x4_t abcd = vld1q_u32(state.data());
  uint32x4_t efgh = vld1q_u32(state.data() + 4);
  for (; count > 0; --count, blocks += kBlockBytes) {
    const uint32x4_t abcd_before = abcd;
    const uint32x4_t efgh_before = efgh;
    std::array<uint32x4_t, 4> w;  // the next 16 words of the schedule
    for (std::size_t i = 0; i < 4; ++i) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * i)));
    for (std::size_t group = 0; group < 16; ++group) {
      uint32x4_t& now = w[group % 4];
      const uint32x4_t sum = vaddq_u32(now, vld1q_u32(kRound.data() + 4 * group));
      const uint32x4_t before = abcd;
      asm(KPT_SHA_ASM("sha256h %q0, %q1, %2.4s") : "+w"(abcd) : "w"(efgh), "w"(sum));
      asm(KPT_SHA_ASM("sha256h2 %q0, %q1, %2.4s") : "+w"(efgh) : "w"(before), "w"(sum));
      if (group >= 12) continue;
      asm(KPT_SHA_ASM("sha256su0 %0.4s, %1.4s") : "+w"(now) : "w"(w[(group + 1) % 4]));
      asm(KPT_SHA_ASM("sha256su1 %0.4s, %1.4s, %2.4s") : "+w"(now) : "w"(w[(group + 2) % 4]), "w"(w[(group + 3) % 4]));
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state.data(), abcd);
  vst1q_u32(state.data() + 4, efgh);
}

#undef KPT_SHA_ASM

#elif defined(__x86_64__)

bool has_sha_instructions() {
  constexpr unsigned kSha = 1U << 29U;  // leaf 7, EBX
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("sse4.1") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

// The instructions want the state as (a, b, e, f) and (c, d, g, h), highest word first.
__attribute__((target("sha,sse4.1,ssse3"))) void blocks_by_instructions(Sha256State& state, const unsigned char* blocks,
                                                                        std::size_t count) {
  const auto set = [](std::uint32_t w3, std::uint32_t w2, std::uint32_t w1,
                      std::uint32_t w0) __attribute__((target("sha,sse4.1,ssse3"))) {
    return _mm_set_epi32(static_cast<int>(w3), static_cast<int>(w2), static_cast<int>(w1), static_cast<int>(w0));
  };
  const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  __m128i abef = set(state[0], state[1], state[4], state[5]);
  __m128i cdgh = set(state[2], state[3], state[6], state[7]);
  for (; count > 0; --count, blocks += kBlockBytes) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];  // the next 16 words of the schedule
    for (std::size_t i = 0; i < 4; ++i) {
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks + 16 * i)), swap);
    }
    for (std::size_t group = 0; group < 16; ++group) {
      __m128i& now = w[group % 4];
      const __m128i sum =
          _mm_add_epi32(now, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound.data() + 4 * group)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (group >= 12) continue;
      const __m128i& next = w[(group + 3) % 4];
      const __m128i seven_back = _mm_alignr_epi8(next, w[(group + 2) % 4], 4);
      now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(group + 1) % 4]), seven_back), next);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) std::uint32_t first[4];
  alignas(16) std::uint32_t second[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(first), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(second), cdgh);
  state = {first[3], first[2], second[3], second[2], first[1], first[0], second[1], second[0]};
}

#else

bool has_sha_instructions() { return false; }
void blocks_by_instructions(Sha256State& state, const unsigned char* blocks, std::size_t count) {
  sha256_blocks_portable(state, blocks, count);
}

#endif

}  // namespace

void sha256_blocks_portable(Sha256State& state, const unsigned char* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kBlockBytes) process_block(state, blocks);
}

void sha256_blocks(Sha256State& state, const unsigned char* blocks, std::size_t count) {
  static const bool kInstructions = has_sha_instructions();
  if (kInstructions) return blocks_by_instructions(state, blocks, count);
  sha256_blocks_portable(state, blocks, count);
}

}  // namespace kpt
