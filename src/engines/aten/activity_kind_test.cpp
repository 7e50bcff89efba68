#include "engines/aten/activity_kind.h"

#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

using Kind = Activity::Kind;

TEST(ActivityKind, CallsIntoARuntimeAreToldFromOperatorsByTheirNames) {
  for (const char* name : {"cudaLaunchKernel", "cudaMemcpyAsync", "cuLaunchKernelEx", "hipLaunchKernel",
                           "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipMemcpyWithStream"}) {
    EXPECT_EQ(activity_kind(name, true), Kind::kCall) << name;
  }
  for (const char* name : {"aten::linear", "cumsum", "cudnn_convolution", "hipblaslt", "hip", "cuda", "", "Memcpy"}) {
    EXPECT_EQ(activity_kind(name, true), Kind::kOperator) << name;
  }
}

// As the profilers of CUDA and of ROCm name them.
TEST(ActivityKind, CopiesAreToldFromKernels) {
  for (const char* name : {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)", "Memset (Device)",
                           "Memcpy HtoD (Host -> Device)", "Memset (<unknown>)"}) {
    EXPECT_EQ(activity_kind(name, false), Kind::kCopy) << name;
  }
  for (const char* name : {"Cijk_Ailk_Bljk_SB_MT64x64x16", "__amd_rocclr_fillBufferAligned", "softmax_f32",
                           "cudaLooksLikeACall", "hipLooksLikeACall"}) {
    EXPECT_EQ(activity_kind(name, false), Kind::kKernel) << name;
  }
}

}  // namespace
}  // namespace kpt::aten
