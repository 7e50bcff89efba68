#include "backends/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Isa, TheSameExtensionForNeonAndSveIsNamedOnce) {
  const IsaSummary summary = summarize_isa("aarch64", {"sve", "i8mm", "svei8mm", "bf16", "svebf16", "asimd"});
  EXPECT_THAT(summary.names, ElementsAre("NEON", "SVE", "BF16", "I8MM"));
  EXPECT_THAT(summary.matrix_precisions, ElementsAre(Precision::kBf16, Precision::kInt8));
}

TEST(Isa, VectorHalfPrecisionIsNoMatrixPrecision) {
  EXPECT_THAT(summarize_isa("x86_64", {"avx512f", "avx512_fp16"}).matrix_precisions, IsEmpty());
  EXPECT_THAT(summarize_isa("aarch64", {"asimd", "asimdhp", "fphp"}).matrix_precisions, IsEmpty());
  EXPECT_THAT(summarize_isa("x86_64", {"amx_fp16"}).matrix_precisions, ElementsAre(Precision::kFp16));
}

TEST(Isa, HiddenSetsCountAsAbsentAndAreNamed) {
  const std::vector<std::string> arm = {"asimd", "asimddp", "sve", "i8mm", "svei8mm", "bf16", "svebf16"};
  const std::vector<std::string> lesser = {"no-bf16", "no-i8mm"};
  const IsaSummary summary = summarize_isa("aarch64", arm, lesser);
  EXPECT_THAT(summary.names, ElementsAre("NEON", "DOTPROD", "SVE"));
  EXPECT_THAT(summary.hidden, ElementsAre("BF16", "I8MM"));
  EXPECT_THAT(summary.matrix_precisions, ElementsAre(Precision::kInt8)) << "of the dot product";
  const std::vector<std::string> least = {"no-bf16", "no-dotprod"};
  EXPECT_THAT(summarize_isa("aarch64", arm, least).matrix_precisions, IsEmpty());

  const std::vector<std::string> x86 = {"avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "avx_vnni"};
  const std::vector<std::string> avx2 = {"no-avx512", "no-amx", "no-vnni"};
  EXPECT_THAT(summarize_isa("x86_64", x86, avx2).names, ElementsAre("AVX2", "FMA"));
  EXPECT_THAT(summarize_isa("x86_64", x86, avx2).matrix_precisions, IsEmpty());
  const std::vector<std::string> tiles = {"avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8"};
  const std::vector<std::string> no_tiles = {"no-amx"};
  EXPECT_THAT(summarize_isa("x86_64", tiles, no_tiles).names, ElementsAre("AVX512F", "AVX512-VNNI", "AVX512-BF16"));
  const std::vector<std::string> no_vnni = {"no-vnni"};
  EXPECT_THAT(summarize_isa("x86_64", tiles, no_vnni).matrix_precisions, ElementsAre(Precision::kBf16));
  const std::vector<std::string> no_avx512 = {"no-avx512"};
  EXPECT_THAT(summarize_isa("x86_64", tiles, no_avx512).names, IsEmpty()) << "no processor has AMX without AVX-512";
  const std::vector<std::string> none = {"no-avx2"};
  EXPECT_THAT(summarize_isa("x86_64", x86, none).names, IsEmpty());
  EXPECT_EQ(summarize_isa("x86_64", {"sse4_2"}, none).hidden.size(), 0U) << "what is not there is not hidden";
}

TEST(Isa, FlagsOfAnotherArchitectureMeanNothing) {
  EXPECT_EQ(summarize_isa("aarch64", {"avx2", "fma"}), IsaSummary{});
  EXPECT_EQ(summarize_isa("x86_64", {"asimd", "bf16"}), IsaSummary{});
  EXPECT_EQ(summarize_isa("riscv64", {"asimd", "avx2"}), IsaSummary{});
}

}  // namespace
}  // namespace kpt
