#include "kernels/cpu/arithmetic_peak.h"

#include <cstddef>

namespace kpt::kernels {
namespace {

// In assembly, so that no compiler moves, merges or drops an instruction; everything is zero, which no processor here
// multiplies faster. There are more sums than an instruction takes cycles times the pipes that can start one.

#if defined(__aarch64__)

// 24 times one instruction: sums v0 to v23, operands v30 and v31.
#define KPT_FOUR(one, a, b, c, d) one(a) one(b) one(c) one(d)
#define KPT_ALL(one)        \
  KPT_FOUR(one, 0, 1, 2, 3) \
  KPT_FOUR(one, 4, 5, 6, 7) \
  KPT_FOUR(one, 8, 9, 10, 11) KPT_FOUR(one, 12, 13, 14, 15) KPT_FOUR(one, 16, 17, 18, 19) KPT_FOUR(one, 20, 21, 22, 23)
#define KPT_PEAK_LOOP(one) \
  __asm__ volatile("movi v30.4s, #0\nmovi v31.4s, #0\n" KPT_ALL(KPT_CLEAR) "1:\n" KPT_ALL(one) "subs %[rounds], "    \
                   "%[rounds], #1\nb.ne 1b\n"                                                                        \
                   : [rounds] "+r"(rounds)                                                                           \
                   :                                                                                                 \
                   : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",   \
                     "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31")
#define KPT_CLEAR(sum) "movi v" #sum ".4s, #0\n"
#define KPT_FMLA(sum) "fmla v" #sum ".4s, v30.4s, v31.4s\n"
// As words: this source is compiled for every processor of its kind, whose assembler need not know these.
#define KPT_WORD(code, sum) ".inst " #code " | (31 << 16) | (30 << 5) | " #sum "\n"
#define KPT_BFMMLA(sum) KPT_WORD(0x6e40ec00, sum)
#define KPT_SMMLA(sum) KPT_WORD(0x4e80a400, sum)
#define KPT_SDOT(sum) KPT_WORD(0x4e809400, sum)

constexpr double kSums = 24;

void run_fmla(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_FMLA); }
void run_bfmmla(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_BFMMLA); }
void run_smmla(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_SMMLA); }
void run_sdot(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_SDOT); }

void add_instructions(std::vector<PeakLoop>& loops, const CpuFeatures& features) {
  if (features.neon) loops.push_back({LinearForm::kFloat32, "FMLA", kSums * 4 * 2, &run_fmla});
  // A block of 2 x 2 sums takes 4 products each of bfloat16, 8 of int8.
  if (features.bfloat16_matrix) loops.push_back({LinearForm::kBfloat16, "BFMMLA", kSums * 16 * 2, &run_bfmmla});
  if (features.int8_matrix) {
    loops.push_back({LinearForm::kInt8, "SMMLA", kSums * 32 * 2, &run_smmla});
  } else if (features.dot_product) {
    loops.push_back({LinearForm::kInt8, "SDOT", kSums * 16 * 2, &run_sdot});
  }
}

#elif defined(__x86_64__)

// 12 times one instruction: sums 0 to 11, operands 12 and 13. Registers 14 and 15 are free for a second step.
#define KPT_ALL(one) one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11)
#define KPT_PEAK_LOOP(one)                                                                                          \
  __asm__ volatile("vpxor %%xmm12, %%xmm12, %%xmm12\nvpxor %%xmm13, %%xmm13, %%xmm13\n" KPT_ALL(                    \
                       KPT_CLEAR) "1:\n" KPT_ALL(one) "dec %[rounds]\njne 1b\nvzeroupper\n"                         \
                   : [rounds] "+r"(rounds)                                                                          \
                   :                                                                                                \
                   : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                     "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
#define KPT_CLEAR(sum) "vpxor %%xmm" #sum ", %%xmm" #sum ", %%xmm" #sum "\n"
#define KPT_FMA_256(sum) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #sum "\n"
#define KPT_FMA_512(sum) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #sum "\n"
#define KPT_BF16_512(sum) "vdpbf16ps %%zmm12, %%zmm13, %%zmm" #sum "\n"
#define KPT_VNNI_512(sum) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #sum "\n"
// Pairs of int16, as the kernel of AVX2 multiplies int8.
#define KPT_MADD_256(sum) "vpmaddwd %%ymm12, %%ymm13, %%ymm14\nvpaddd %%ymm14, %%ymm" #sum ", %%ymm" #sum "\n"

// Tiles of 16 rows of 64 bytes: sums 0 to 5, operands 6 and 7.
#define KPT_TILES(one) one(0) one(1) one(2) one(3) one(4) one(5)
#define KPT_TILE_CLEAR(sum) "tilezero %%tmm" #sum "\n"
#define KPT_TILE_PEAK_LOOP(one)                                                                       \
  const TileConfiguration tiles;                                                                      \
  __asm__ volatile("ldtilecfg %[tiles]\n" KPT_TILES(KPT_TILE_CLEAR) KPT_TILE_CLEAR(6)                 \
                       KPT_TILE_CLEAR(7) "1:\n" KPT_TILES(one) "dec %[rounds]\njne 1b\ntilerelease\n" \
                   : [rounds] "+r"(rounds)                                                            \
                   : [tiles] "m"(tiles)                                                               \
                   : "cc")
#define KPT_TILE_BF16(sum) "tdpbf16ps %%tmm6, %%tmm7, %%tmm" #sum "\n"
#define KPT_TILE_INT8(sum) "tdpbssd %%tmm6, %%tmm7, %%tmm" #sum "\n"

// What LDTILECFG reads: palette 1, all eight tiles whole.
struct alignas(64) TileConfiguration {
  std::uint8_t palette[16] = {1};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr double kSums = 12;
constexpr double kTileSums = 6 * 16 * 16;

void run_fma_256(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_FMA_256); }
void run_fma_512(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_FMA_512); }
void run_bf16_512(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_BF16_512); }
void run_vnni_512(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_VNNI_512); }
void run_madd_256(std::int64_t rounds) { KPT_PEAK_LOOP(KPT_MADD_256); }
void run_tile_bf16(std::int64_t rounds) { KPT_TILE_PEAK_LOOP(KPT_TILE_BF16); }
void run_tile_int8(std::int64_t rounds) { KPT_TILE_PEAK_LOOP(KPT_TILE_INT8); }

void add_instructions(std::vector<PeakLoop>& loops, const CpuFeatures& features) {
  if (features.avx512) {
    loops.push_back({LinearForm::kFloat32, "VFMADD231PS zmm", kSums * 16 * 2, &run_fma_512});
  } else if (features.avx2) {
    loops.push_back({LinearForm::kFloat32, "VFMADD231PS ymm", kSums * 8 * 2, &run_fma_256});
  }
  if (features.amx_bfloat16) {
    loops.push_back({LinearForm::kBfloat16, "TDPBF16PS", kTileSums * 32 * 2, &run_tile_bf16});
  } else if (features.avx512_bfloat16) {
    loops.push_back({LinearForm::kBfloat16, "VDPBF16PS zmm", kSums * 32 * 2, &run_bf16_512});
  }
  if (features.amx_int8) {
    loops.push_back({LinearForm::kInt8, "TDPBSSD", kTileSums * 64 * 2, &run_tile_int8});
  } else if (features.avx512_vnni) {
    loops.push_back({LinearForm::kInt8, "VPDPBUSD zmm", kSums * 64 * 2, &run_vnni_512});
  } else if (features.avx2) {
    loops.push_back({LinearForm::kInt8, "VPMADDWD ymm", kSums * 16 * 2, &run_madd_256});
  }
}

#else

void add_instructions(std::vector<PeakLoop>& /*loops*/, const CpuFeatures& /*features*/) {}

#endif

constexpr std::size_t kPlainSums = 32;

// What the compiler makes of independent sums. The barrier keeps it from dropping rounds.
void run_plain(std::int64_t rounds) {
  float sums[kPlainSums] = {};
  float factor = 0;
  for (; rounds > 0; --rounds) {
    __asm__ volatile("" : "+m"(factor));
    for (float& sum : sums) sum = sum * factor + factor;
  }
  for (float& sum : sums) __asm__ volatile("" : "+m"(sum));
}

}  // namespace

std::vector<PeakLoop> list_peak_loops(const CpuFeatures& features) {
  std::vector<PeakLoop> loops;
  loops.reserve(4);
  add_instructions(loops, features);
  if (loops.empty() || loops.front().form != LinearForm::kFloat32) {
    loops.insert(loops.begin(), {LinearForm::kFloat32, "plain C++", kPlainSums * 2.0, &run_plain});
  }
  return loops;
}

}  // namespace kpt::kernels
