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

TEST(Isa, FlagsOfAnotherArchitectureMeanNothing) {
  EXPECT_EQ(summarize_isa("aarch64", {"avx2", "fma"}), IsaSummary{});
  EXPECT_EQ(summarize_isa("x86_64", {"asimd", "bf16"}), IsaSummary{});
  EXPECT_EQ(summarize_isa("riscv64", {"asimd", "avx2"}), IsaSummary{});
}

}  // namespace
}  // namespace kpt
