#include "engines/aten/attention_choice.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::aten {
namespace {

AttentionCase on_hopper(DType dtype, std::int64_t width) {
  AttentionCase given;
  given.dtype = dtype;
  given.width = width;
  given.square = true;
  given.one_key = false;
  given.capability_major = 9;
  return given;
}

AttentionKernel taken(const AttentionCase& given) { return find_taken(choose_attention(given)).kernel; }

std::string_view reason(const AttentionCase& given, AttentionKernel kernel) {
  for (const AttentionCandidate& candidate : choose_attention(given)) {
    if (candidate.kernel == kernel) return candidate.why_not;
  }
  return "not a candidate";
}

TEST(AttentionChoice, SixteenBitsWithoutAMaskTakeFlash) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    AttentionCase given = on_hopper(dtype, 64);
    EXPECT_EQ(taken(given), AttentionKernel::kFlash);
    given.causal = true;
    given.shared_heads = true;
    EXPECT_EQ(taken(given), AttentionKernel::kFlash);
    EXPECT_EQ(reason(given, AttentionKernel::kCudnn), "it is taken for masks alone");
  }
}

TEST(AttentionChoice, AMaskInSixteenBitsTakesCudnn) {
  AttentionCase given = on_hopper(DType::kBFloat16, 128);
  given.masked = true;
  EXPECT_EQ(taken(given), AttentionKernel::kCudnn);
  EXPECT_EQ(reason(given, AttentionKernel::kFlash), "it takes no mask");
  given.width = 136;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  EXPECT_EQ(reason(given, AttentionKernel::kCudnn), "the heads are wider than 128");
  given.width = 60;
  EXPECT_EQ(taken(given), AttentionKernel::kMath);
  EXPECT_EQ(reason(given, AttentionKernel::kCudnn), "the heads' width is no multiple of 8");
  EXPECT_EQ(reason(given, AttentionKernel::kMemoryEfficient), "the heads' width is no multiple of 8");
}

TEST(AttentionChoice, WhatCudnnRefusedOnceGoesToTheNext) {
  AttentionCase given = on_hopper(DType::kFloat16, 64);
  given.masked = true;
  given.cudnn_refused = true;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  EXPECT_EQ(reason(given, AttentionKernel::kCudnn), "it had no kernel for the sizes of a run before");
}

TEST(AttentionChoice, ASingleKeyIsNotForCudnn) {
  AttentionCase given = on_hopper(DType::kBFloat16, 64);
  given.masked = true;
  given.one_key = true;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
}

TEST(AttentionChoice, Float32TakesTheMemoryEfficientKernelWhereItsWidthAllows) {
  AttentionCase given = on_hopper(DType::kFloat32, 20);
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  given.masked = true;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  EXPECT_EQ(reason(given, AttentionKernel::kCudnn), "it has no float32");
  given.width = 7;
  EXPECT_EQ(taken(given), AttentionKernel::kMath);
  given.capability_major = 7;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
}

TEST(AttentionChoice, CausalWithMoreKeysThanQueriesIsNotForFlash) {
  AttentionCase given = on_hopper(DType::kBFloat16, 64);
  given.square = false;
  EXPECT_EQ(taken(given), AttentionKernel::kFlash);
  given.causal = true;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  EXPECT_EQ(reason(given, AttentionKernel::kFlash), "causal, it needs as many queries as keys");
}

TEST(AttentionChoice, WideHeadsAreForFlashUpTo256) {
  AttentionCase given = on_hopper(DType::kBFloat16, 256);
  EXPECT_EQ(taken(given), AttentionKernel::kFlash);
  given.width = 250;  // it pads
  EXPECT_EQ(taken(given), AttentionKernel::kFlash);
  given.width = 264;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
}

TEST(AttentionChoice, OlderGpusHaveNeitherCudnnNorFlash) {
  AttentionCase given = on_hopper(DType::kFloat16, 64);
  given.capability_major = 7;
  EXPECT_EQ(taken(given), AttentionKernel::kMemoryEfficient);
  EXPECT_EQ(reason(given, AttentionKernel::kFlash), "it needs Ampere or newer");
  given.dtype = DType::kBFloat16;
  EXPECT_EQ(taken(given), AttentionKernel::kMath);
  EXPECT_EQ(reason(given, AttentionKernel::kMemoryEfficient), "it has bfloat16 from Ampere on");
}

// One is taken, all others have their reason, and where heads are shared only kernels that know it keep them so.
TEST(AttentionChoice, EveryCaseTakesOneAndTellsTheOthersReasons) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto coin = [&] { return random() % 2 == 0; };
  for (int index = 0; index < 2000; ++index) {
    AttentionCase given;
    given.dtype = std::vector{DType::kFloat32, DType::kBFloat16, DType::kFloat16}[random() % 3];
    given.masked = coin();
    given.causal = coin();
    given.shared_heads = coin();
    if (coin()) given.width = 1 + static_cast<std::int64_t>(random() % 300);
    if (coin()) given.square = coin();
    if (coin()) given.one_key = coin();
    if (coin()) given.capability_major = 7 + static_cast<int>(random() % 6);
    given.cudnn_refused = coin();
    const auto candidates = choose_attention(given);
    int without_reason = 0;
    for (const AttentionCandidate& candidate : candidates) without_reason += candidate.why_not.empty() ? 1 : 0;
    ASSERT_EQ(without_reason, 1) << describe_attention(given);
    const AttentionKernel kernel = find_taken(candidates).kernel;
    ASSERT_EQ(find_taken(candidates).shares_heads,
              kernel == AttentionKernel::kCudnn || kernel == AttentionKernel::kFlash);
    ASSERT_FALSE(given.masked && kernel == AttentionKernel::kFlash) << describe_attention(given);
  }
}

TEST(AttentionChoice, IsToldWithTheReasonsAgainstTheOthers) {
  AttentionCase given = on_hopper(DType::kBFloat16, 64);
  given.masked = true;
  given.shared_heads = true;
  EXPECT_EQ(describe_attention(given),
            "cuDNN attention (bfloat16, mask, shared heads; not flash: it takes no mask; not memory-efficient: it is "
            "slower where those before it can; not math: it writes all scores to memory)");
  given.one_key.reset();
  EXPECT_THAT(describe_attention(given), ::testing::EndsWith("; sizes of a run may decide otherwise)"));
  given = on_hopper(DType::kBFloat16, 64);
  given.causal = true;
  given.square.reset();
  EXPECT_EQ(describe_attention(given),
            "flash attention (bfloat16, causal; not cuDNN: it is taken for masks alone; not memory-efficient: it is "
            "slower where those before it can; not math: it writes all scores to memory; sizes of a run may decide "
            "otherwise)");
}

}  // namespace
}  // namespace kpt::aten
