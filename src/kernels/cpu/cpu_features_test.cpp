#include "kernels/cpu/cpu_features.h"

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
  const CpuFeatures& features = cpu_features();
#if defined(__aarch64__)
  EXPECT_TRUE(features.neon);
  EXPECT_FALSE(features.avx2);
#elif defined(__x86_64__)
  EXPECT_FALSE(features.neon);
#endif
  EXPECT_TRUE(features.avx2 || !features.avx512);
  EXPECT_TRUE(features.avx512 || !features.avx512_vnni);
}

TEST(KernelCandidates, TheLastOfEachFormRunsEverywhereAndTheOthersSayWhyNot) {
  for (const LinearForm form : {LinearForm::kFloat32, LinearForm::kBfloat16, LinearForm::kInt8, LinearForm::kInt4}) {
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
