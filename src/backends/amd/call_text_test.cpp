#include "backends/amd/call_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/gpu/norm.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

constexpr gpu::DeviceShape kDevice{64, 4};

TEST(CallText, ACallBecomesThePlanOfItsStructure) {
  const auto made = plan_from_text(
      "norm dtype=float16 kind=1 input=0x1000 normed=0x2000 rows=3 width=72 input_stride=80 epsilon=1e-5", kDevice);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  gpu::NormCall call;
  call.dtype = DType::kFloat16;
  call.kind = gpu::NormKind::kRms;
  call.input = reinterpret_cast<const void*>(0x1000);
  call.normed = reinterpret_cast<void*>(0x2000);
  call.rows = 3, call.width = 72, call.input_stride = 80, call.epsilon = 1e-5F;
  const auto wanted = gpu::plan_norm(call, kDevice);
  ASSERT_TRUE(wanted.ok());
  ASSERT_EQ(made->plan.size(), 1U);
  EXPECT_EQ(made->plan[0].args, (*wanted)[0].args);
  EXPECT_EQ(to_text(made->plan[0]).rfind("norm_wave_f16 2 128 0010000000000000", 0), 0U) << to_text(made->plan[0]);
}

TEST(CallText, AWorkspaceIsKnownBeforeItsAddress) {
  const std::string call = "norm_backward dtype=float32 rows=5 width=8 weight_gradient=0x10 ";
  const auto size = plan_from_text(call + "workspace_only=1", kDevice);
  ASSERT_TRUE(size.ok()) << size.status().to_string();
  EXPECT_EQ(size->workspace_bytes, 5U * 8U * 4U);
  EXPECT_TRUE(size->plan.empty());
}

TEST(CallText, SlipsAreRefused) {
  const auto message = [](std::string_view text) { return plan_from_text(text, kDevice).status().message(); };
  EXPECT_THAT(message(""), HasSubstr("no call"));
  EXPECT_THAT(message("nothing rows=1"), HasSubstr("'nothing' is no call"));
  EXPECT_THAT(message("norm row=1"), HasSubstr("'row' is no key"));
  EXPECT_THAT(message("norm rows"), HasSubstr("'rows' is not key=value"));
  EXPECT_THAT(message("norm rows=x"), HasSubstr("'rows' is no whole number"));
  EXPECT_THAT(message("norm dtype=float17"), HasSubstr("'dtype' is no type"));
  EXPECT_THAT(message("norm input=0xg"), HasSubstr("'input' is no address"));
  EXPECT_THAT(message("norm epsilon=nan"), HasSubstr("'epsilon' is no number"));
  EXPECT_THAT(message("rotary sizes=1,2"), HasSubstr("'sizes' is not three numbers"));
  EXPECT_THAT(message("norm rows=-1"), HasSubstr("a size is -1"));
}

}  // namespace
}  // namespace kpt
