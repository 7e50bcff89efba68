#include "kernels/cpu/cpu_features.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/matrix_kernel.h"

namespace kpt::kernels {
namespace {

TEST(CpuFeatures, TextNamesWhatIsThere) {
  CpuFeatures features;
  EXPECT_EQ(features.to_string(), "none");
  features.neon = true;
  features.int8_matrix = true;
  EXPECT_EQ(features.to_string(), "neon, i8mm");
}

TEST(CpuFeatures, LargerSetsImplySmallerOnes) {
  const CpuFeatures features = cpu_features();
#if defined(__aarch64__)
  EXPECT_TRUE(features.neon);
  EXPECT_FALSE(features.avx2);
#elif defined(__x86_64__)
  EXPECT_FALSE(features.neon);
#endif
  EXPECT_TRUE(features.avx2 || !features.avx512);
  EXPECT_TRUE(features.avx512 || !features.avx512_vnni);
  EXPECT_TRUE(features.avx512_bfloat16 || !features.amx_bfloat16);
  EXPECT_TRUE(features.avx512_vnni || !features.amx_int8);
}

TEST(CpuFeatures, WhatIsHiddenIsAbsentWithWhatNeedsItAndSaysSo) {
  CpuFeatures arm;
  arm.neon = arm.dot_product = arm.bfloat16_matrix = arm.int8_matrix = true;
  const std::vector<std::string> lesser = {"no-bf16", "no-i8mm", "no-avx2"};
  EXPECT_EQ(arm.without(lesser).to_string(), "neon, dotprod");
  EXPECT_TRUE(arm.without(lesser).is_hidden(&CpuFeatures::int8_matrix));
  EXPECT_FALSE(arm.without(lesser).is_hidden(&CpuFeatures::avx2)) << "it is not there";
  EXPECT_FALSE(arm.without(lesser).is_hidden(&CpuFeatures::dot_product));
  const std::vector<std::string> least = {"no-dotprod"};
  EXPECT_EQ(arm.without(least).to_string(), "neon, bf16");

  CpuFeatures x86;
  x86.avx2 = x86.avx512 = x86.avx512_vnni = x86.avx512_bfloat16 = x86.amx_bfloat16 = x86.amx_int8 = true;
  const std::vector<std::string> no_amx = {"no-amx"};
  EXPECT_EQ(x86.without(no_amx).to_string(), "avx2, avx512, avx512_vnni, avx512_bf16");
  EXPECT_TRUE(x86.without(no_amx).is_hidden(&CpuFeatures::amx_int8));
  const std::vector<std::string> no_bf16 = {"no-bf16"};
  EXPECT_EQ(x86.without(no_bf16).to_string(), "avx2, avx512, avx512_vnni, amx_int8");
  const std::vector<std::string> no_vnni = {"no-vnni"};
  EXPECT_EQ(x86.without(no_vnni).to_string(), "avx2, avx512, avx512_bf16, amx_bf16");
  const std::vector<std::string> avx2 = {"no-avx512"};
  EXPECT_EQ(x86.without(avx2).to_string(), "avx2");
  const std::vector<std::string> none = {"no-avx2"};
  EXPECT_EQ(x86.without(none).to_string(), "none");
}

TEST(CpuFeatures, AProcessCanHideWhatItsKernelsMayUseAndShowItAgain) {
  const CpuFeatures all = cpu_features();
  const std::vector<std::string> words = {"no-bf16", "no-i8mm", "no-avx512"};
  hide_cpu_features(words);
  const CpuFeatures fewer = cpu_features();
  EXPECT_EQ(fewer.to_string(), all.without(words).to_string());
  for (const LinearForm form : {LinearForm::kFloat32, LinearForm::kBfloat16, LinearForm::kInt8}) {
    const std::vector<KernelCandidate> before = list_kernels(form, all);
    const std::vector<KernelCandidate> after = list_kernels(form, fewer);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t at = 0; at < after.size(); ++at) {
      const KernelCandidate& candidate = after[at];
      if (!candidate.why_not.empty()) {
        const bool hidden = candidate.why_not.find("hidden by cpu.isa") != std::string::npos;
        EXPECT_EQ(hidden, before[at].why_not.empty()) << candidate.why_not << "; before: " << before[at].why_not;
        continue;
      }
      for (const char* word : {"BFMMLA", "SMMLA", "AVX-512", "AMX"}) {
        EXPECT_EQ(candidate.kernel.name.find(word), std::string_view::npos) << candidate.kernel.name;
      }
    }
  }
  hide_cpu_features({});
  EXPECT_EQ(cpu_features().to_string(), all.to_string());
}

TEST(KernelCandidates, TheLastOfEachFormRunsEverywhereAndTheOthersSayWhyNot) {
  for (const LinearForm form :
       {LinearForm::kFloat32, LinearForm::kBfloat16, LinearForm::kInt8, LinearForm::kWeightInt8, LinearForm::kInt4}) {
    const auto candidates = list_kernels(form, CpuFeatures{});
    ASSERT_FALSE(candidates.empty());
    EXPECT_TRUE(candidates.back().why_not.empty());
    for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
      EXPECT_NE(candidates[i].why_not.find("this processor has no "), std::string::npos) << candidates[i].kernel.name;
    }
  }
}

}  // namespace
}  // namespace kpt::kernels
