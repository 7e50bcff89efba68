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
  EXPECT_EQ(to_text(made->plan[0]).rfind("norm_narrow4_f16 1 64 0010000000000000", 0), 0U) << to_text(made->plan[0]);
}

TEST(CallText, MembersOfMembers) {
  const auto launched = [](std::string_view text) {
    const auto made = plan_from_text(text, kDevice);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() && made->plan.size() == 1 ? std::string(made->plan[0].kernel) : "nothing";
  };
  EXPECT_EQ(launched("elementwise op=1 dims=2,3 a.data=0x1000 a.strides=3,1 b.number=0.5 output=0x2000 "
                     "output_strides=3,1"),
            "elementwise_f32");
  EXPECT_EQ(launched("scatter dtype=float16 source=0x1000 output=0x2000 dims=2,3 source_strides=0,1 "
                     "axes.0.indices=0x3000 axes.0.strides=1,0 axes.0.extent=4 axes.0.source_stride=3"),
            "scatter_b16");
  EXPECT_EQ(launched("reduce op=7 dtype=int64 input=0x1000 output=0x2000 output_dtype=int64 kept.extent=4 "
                     "kept.stride=5 reduced.extent=5 reduced.stride=1"),
            "extreme_i64");
  EXPECT_EQ(launched("product left.data=0x1000 left.dtype=bfloat16 left.line_stride=4 right.data=0x2000 "
                     "right.line_stride=4 output=0x3000 output_row_stride=5 batches=1,2,3 rows=2 columns=5 depth=4"),
            "product_bf16");
  EXPECT_EQ(launched("weight_only input=0x1000 input_dtype=float16 input_stride=64 weight=0x2000 weight_dtype=uint8 "
                     "scale=0x3000 group=32 output=0x4000 rows=3 columns=5 depth=64"),
            "weight_i4_4_f16");
  EXPECT_EQ(launched("blind_rows dtype=float16 mask=0x1000 result=0x2000 heads=2 queries=3 keys=8 width=8 "
                     "mask_query_stride=8 result_head_stride=24 result_query_stride=8"),
            "blind_rows_b16");
  EXPECT_EQ(launched("unpack_int4 input=0x1000 output=0x2000 to=float32 scale=0x3000 count=6 group=2"),
            "unpack_i4_f32");
  const auto message = [](std::string_view text) { return plan_from_text(text, kDevice).status().message(); };
  EXPECT_THAT(message("reduce kept.extent=4,5 kept.stride=1"), HasSubstr("'kept' has not as many extents as strides"));
  EXPECT_THAT(message("elementwise dims=2,x"), HasSubstr("'dims' is no list of whole numbers"));
  EXPECT_THAT(message("gather axes.1.indices=0x1000"), HasSubstr("'axes.1.indices' is no key of the call"));
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
