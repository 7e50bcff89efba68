#include "kernels/cpu/arithmetic_peak.h"

#include <algorithm>
#include <ctime>
#include <map>

#include <gtest/gtest.h>

namespace kpt::kernels {
namespace {

// This thread's own processor time: other processes take none of it.
double seconds_now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double operations_per_second(const PeakLoop& loop) {
  double best = 0;
  for (int trial = 0; trial < 5; ++trial) {
    constexpr std::int64_t kRounds = 200000;
    const double begin = seconds_now();
    loop.run(kRounds);
    best = std::max(best, loop.operations * kRounds / (seconds_now() - begin));
  }
  return best;
}

TEST(ArithmeticPeak, OneLoopPerFormAndFloat32Always) {
  for (const CpuFeatures& features : {CpuFeatures{}, cpu_features()}) {
    std::map<LinearForm, int> count;
    for (const PeakLoop& loop : list_peak_loops(features)) {
      ++count[loop.form];
      EXPECT_GT(loop.operations, 0);
      loop.run(1);
    }
    EXPECT_EQ(count[LinearForm::kFloat32], 1);
    EXPECT_LE(count[LinearForm::kBfloat16], 1);
    EXPECT_LE(count[LinearForm::kInt8], 1);
    EXPECT_EQ(count[LinearForm::kWeightInt8], 0);
    EXPECT_EQ(count[LinearForm::kInt4], 0);
  }
  const auto plain = list_peak_loops({});
  ASSERT_EQ(plain.size(), 1U) << "without instructions there is float32 only";
  EXPECT_EQ(plain[0].instructions, "plain C++");
}

TEST(ArithmeticPeak, TilesComeBeforeVectors) {
  CpuFeatures features;
  features.avx2 = features.avx512 = features.avx512_vnni = features.avx512_bfloat16 = true;
  const auto instructions = [&](LinearForm form) {
    std::string_view name;
    for (const PeakLoop& loop : list_peak_loops(features)) name = loop.form == form ? loop.instructions : name;
    return name;
  };
#if defined(__x86_64__)
  EXPECT_EQ(instructions(LinearForm::kBfloat16), "VDPBF16PS zmm");
  EXPECT_EQ(instructions(LinearForm::kInt8), "VPDPBUSD zmm");
  features.amx_bfloat16 = features.amx_int8 = true;
  EXPECT_EQ(instructions(LinearForm::kBfloat16), "TDPBF16PS");
  EXPECT_EQ(instructions(LinearForm::kInt8), "TDPBSSD");
#else
  EXPECT_EQ(instructions(LinearForm::kBfloat16), "") << "of another processor";
#endif
}

// A loop that the compiler or a wrong encoding shortened would show figures of another order; on a busy machine a rate
// may be any fraction of the true one.
TEST(ArithmeticPeak, FiguresArePossible) {
  const auto loops = list_peak_loops(cpu_features());
  const double float32 = operations_per_second(loops.front());
  EXPECT_GT(float32, 1e8);
  EXPECT_LT(float32, 1e12) << "of one core";
  for (const PeakLoop& loop : loops) {
    const double rate = operations_per_second(loop);
    EXPECT_GT(rate, 1e8) << loop.instructions;
    EXPECT_LT(rate, 2e13) << loop.instructions << ", of one core";
  }
}

TEST(ArithmeticPeak, TimeGrowsWithTheRounds) {
  for (const PeakLoop& loop : list_peak_loops(cpu_features())) {
    double few = 1e9;
    double many = 1e9;
    for (int trial = 0; trial < 5; ++trial) {
      double begin = seconds_now();
      loop.run(50000);
      few = std::min(few, seconds_now() - begin);
      begin = seconds_now();
      loop.run(400000);
      many = std::min(many, seconds_now() - begin);
    }
    EXPECT_GT(many, 4 * few) << loop.instructions;
    EXPECT_LT(many, 16 * few) << loop.instructions;
  }
}

}  // namespace
}  // namespace kpt::kernels
