#include "kernels/gpu/host_block.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/gpu/host_launcher.h"
#include "kernels/gpu/kernel_sources.h"
#include "kernels/gpu/simt.h"

namespace kpt::gpu {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct SumArgs {
  const float* input;
  float* output;
  Int32 threads;
};

// Every lane writes the sum over the block.
template <int W>
void sum_kernel(const void* args, HostLane& host) {
  const auto& a = *static_cast<const SumArgs*>(args);
  Lane<W> lane(host);
  KPT_SHARED(lane, float, scratch, kMaxWaves);
  a.output[lane.thread()] = block_sum(lane, a.input[lane.thread()], scratch, a.threads);
}

TEST(HostBlock, BarriersAndShufflesAddUpABlock) {
  for (const int wave : {32, 64}) {
    for (const std::uint64_t seed : {0U, 7U}) {
      HostBlock block(seed);
      for (const int threads : {wave, 2 * wave, 512}) {
        std::vector<float> input(static_cast<std::size_t>(threads));
        std::iota(input.begin(), input.end(), 1.0F);
        std::vector<float> output(input.size());
        const SumArgs args{input.data(), output.data(), threads};
        const HostKernel kernel = wave == 64 ? sum_kernel<64> : sum_kernel<32>;
        const Status status = block.run("sum", kernel, &args, 0, threads, wave);
        ASSERT_TRUE(status.ok()) << status.to_string();
        const int whole = threads * (threads + 1) / 2;
        for (const float sum : output) ASSERT_EQ(sum, static_cast<float>(whole));
      }
    }
  }
}

// Half of a wave waits for the block, the other half for the wave.
void parted_kernel(const void* /*args*/, HostLane& host) {
  Lane<32> lane(host);
  if (lane.lane() < 16) {
    lane.barrier();
  } else {
    lane.shuffle_xor(1.0F, 1);
  }
}

void leaving_kernel(const void* /*args*/, HostLane& host) {
  Lane<32> lane(host);
  if (lane.thread() == 5) return;
  lane.barrier();
}

TEST(HostBlock, LanesThatWaitForEachOtherAreAnErrorAndTheNextRunIsFine) {
  HostBlock block;
  for (const HostKernel kernel : {parted_kernel, leaving_kernel}) {
    const Status status = block.run("parted", kernel, nullptr, 3, 64, 32);
    EXPECT_EQ(status.code(), StatusCode::kKernel);
    EXPECT_THAT(status.message(), HasSubstr("kernel parted, block 3: its lanes wait at different barriers"));
  }
  std::vector<float> input(64, 1.0F);
  std::vector<float> output(64);
  const SumArgs args{input.data(), output.data(), 64};
  ASSERT_TRUE(block.run("sum", sum_kernel<32>, &args, 0, 64, 32).ok());
  EXPECT_EQ(output[63], 64.0F);
}

// Reads its neighbour's place without a barrier in between.
void racing_kernel(const void* args, HostLane& host) {
  const auto& a = *static_cast<const SumArgs*>(args);
  Lane<32> lane(host);
  KPT_SHARED(lane, float, places, 64);
  places[lane.thread()] = a.input[lane.thread()];
  a.output[lane.thread()] = places[(lane.thread() + 1) % 64];
}

TEST(HostBlock, AMissingBarrierShowsInAnotherOrderOfLanes) {
  std::vector<float> input(64);
  std::iota(input.begin(), input.end(), 1.0F);
  std::vector<float> in_order(64);
  std::vector<float> shuffled(64);
  SumArgs args{input.data(), in_order.data(), 64};
  HostBlock plain;
  ASSERT_TRUE(plain.run("racing", racing_kernel, &args, 0, 64, 32).ok());
  EXPECT_NE(in_order[0], 2.0F);  // not yet written: NaN
  args.output = shuffled.data();
  HostBlock other(12345);
  ASSERT_TRUE(other.run("racing", racing_kernel, &args, 0, 64, 32).ok());
  EXPECT_NE(in_order, shuffled);
}

TEST(HostLauncher, RefusesWhatDoesNotFit) {
  HostLauncher launcher(64);
  Launch launch;
  launch.kernel = "norm_block4_f64";
  EXPECT_EQ(launcher.launch(launch, nullptr).code(), StatusCode::kNotFound);
  launch.kernel = "norm_block4_f32";
  launch.threads = 96;
  launch.arg_bytes = 8;
  EXPECT_EQ(launcher.launch(launch, nullptr).code(), StatusCode::kKernelLaunch);
}

TEST(KernelList, NamesAreUniqueAndEveryFamilyHasASource) {
  const auto& list = list_kernels();
  EXPECT_GT(list.size(), 90U);
  for (std::size_t index = 1; index < list.size(); ++index) EXPECT_LT(list[index - 1].name, list[index].name);
  for (const auto& [family, instructions] : kernel_families()) {
    EXPECT_THAT(hip_source(family), HasSubstr("KPT_HIP_KERNEL"));
    EXPECT_TRUE(std::ranges::any_of(list, [name = family](const KernelInfo& info) { return info.family == name; }))
        << family;
    const std::string path = "kernels/gpu/" + std::string(family) + "_kernels.h";
    EXPECT_TRUE(std::ranges::any_of(kernel_sources(), [&](const SourceFile& file) { return file.path == path; }));
  }
  EXPECT_EQ(hip_source("no_family"), "");
}

TEST(KernelList, WhatIsForNvidiaAloneHasNoSourceForAmd) {
  std::size_t count = 0;
  for (const KernelInfo& info : list_kernels()) {
    if (std::ranges::find(kernel_families(), info.family, &KernelFamily::name) != kernel_families().end()) continue;
    EXPECT_THAT(info.family, AnyOf("norm_backward_staged", "quantize_e5m2", "scaled_product"));
    ++count;
  }
  EXPECT_EQ(count, 18U);
  EXPECT_EQ(hip_source("norm_backward_staged"), "");
  EXPECT_EQ(hip_source("quantize_e5m2"), "");
  EXPECT_EQ(hip_source("scaled_product"), "");
}

}  // namespace
}  // namespace kpt::gpu
