// Without a GPU: targets are there all the same, devices are a sentence.
#include "backends/nvidia/nvidia_backend.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::Not;

BackendContext empty_machine(const std::filesystem::path& root) {
  BackendContext context;
  context.detection.files = SystemFiles(root);
  context.detection.environment = Environment({});
  return context;
}

const Target* find_target(const Backend& backend, std::string_view name) {
  for (const Target* target : backend.targets()) {
    if (target->name() == name) return target;
  }
  return nullptr;
}

TEST(NvidiaBackend, TargetsAreThereWithoutAGpu) {
  const testing::TemporaryFolder folder;
  const auto backend = make_nvidia_backend(empty_machine(folder.path()));
  EXPECT_EQ(backend->name(), "nvidia");
  for (const char* name : {"nvidia:sm_75", "nvidia:sm_80", "nvidia:sm_89", "nvidia:sm_90", "nvidia:sm_100"}) {
    EXPECT_NE(find_target(*backend, name), nullptr) << name;
  }
  EXPECT_EQ(find_target(*backend, "nvidia:sm_60"), nullptr) << "libtorch has no code for Pascal any more";
  EXPECT_FALSE(has_nvidia_target(6, 0));
  EXPECT_FALSE(has_nvidia_target(7, 0));
  EXPECT_TRUE(has_nvidia_target(7, 5));
  EXPECT_TRUE(has_nvidia_target(9, 0));
  EXPECT_FALSE(has_nvidia_target(99, 0));
}

TEST(NvidiaBackend, PrecisionsFollowTheArchitecture) {
  const testing::TemporaryFolder folder;
  const auto backend = make_nvidia_backend(empty_machine(folder.path()));
  const Capabilities& turing = find_target(*backend, "nvidia:sm_75")->capabilities();
  const Capabilities& hopper = find_target(*backend, "nvidia:sm_90")->capabilities();
  EXPECT_THAT(turing.matrix_dtypes, Not(Contains(DType::kBFloat16)));
  EXPECT_THAT(hopper.matrix_dtypes, Contains(DType::kBFloat16));
  for (const auto& [name, has] : {std::pair{"nvidia:sm_80", false}, {"nvidia:sm_89", true}, {"nvidia:sm_90", true}}) {
    const auto& dtypes = find_target(*backend, name)->capabilities().matrix_dtypes;
    EXPECT_EQ(std::ranges::find(dtypes, DType::kFloat8E4M3FN) != dtypes.end(), has) << name;
  }
  for (const auto& [name, has] : {std::pair{"nvidia:sm_80", true}, {"nvidia:sm_90", true}, {"nvidia:sm_103", false}}) {
    const auto& dtypes = find_target(*backend, name)->capabilities().matrix_dtypes;
    EXPECT_EQ(std::ranges::find(dtypes, DType::kInt8) != dtypes.end(), has) << name;
  }
  EXPECT_TRUE(turing.own_operators.empty()) << "our kernels start at Ampere";
  const bool weights_alone =
      std::ranges::find(hopper.own_operators, "kpt.linear_weight_int8.default") != hopper.own_operators.end();
  EXPECT_EQ(hopper.weight_only_rows > 0, weights_alone) << "what no kernel runs must not be chosen";
  EXPECT_EQ(turing.weight_only_rows, 0);
  for (const std::string& target : hopper.own_operators) {
    const bool half = std::ranges::find(hopper.float16_operators, target) != hopper.float16_operators.end();
    EXPECT_EQ(half, !target.starts_with("kpt.linear_fp8")) << target;
  }
  EXPECT_EQ(hopper.float16_operators.empty(), hopper.own_operators.empty());
  EXPECT_TRUE(turing.float16_operators.empty());
  EXPECT_THAT(hopper.features, Contains("hopper"));
  EXPECT_TRUE(hopper.graph_capture && hopper.streams && !hopper.product_takes_residual);
  EXPECT_TRUE(hopper.attention_adds_masks);
}

TEST(NvidiaBackend, OptionsThatChangeResultsArePartOfCacheKeys) {
  const testing::TemporaryFolder folder;
  BackendContext context = empty_machine(folder.path());
  EXPECT_EQ(find_target(*make_nvidia_backend(context), "nvidia:sm_90")->arithmetic(), "");
  context.nvidia_policy.tf32 = true;
  EXPECT_EQ(find_target(*make_nvidia_backend(context), "nvidia:sm_90")->arithmetic(), "tf32");
}

TEST(NvidiaBackend, PassesHearWhatInputsOfFp8ProductsBecome) {
  const testing::TemporaryFolder folder;
  BackendContext context = empty_machine(folder.path());
  const auto before = find_target(*make_nvidia_backend(context), "nvidia:sm_90")->capabilities();
  EXPECT_EQ(before.fp8_inputs, Fp8Inputs::kE4M3);
  EXPECT_TRUE(before.fp8_row_scales);
  if (before.own_operators.empty()) GTEST_SKIP() << "this build has no kernels of ours for NVIDIA GPUs";
  context.nvidia_policy.fp8_inputs = Fp8Inputs::kByData;
  context.nvidia_policy.fp8_scaling = Fp8Scaling::kDelayed;
  const auto after = find_target(*make_nvidia_backend(context), "nvidia:sm_90")->capabilities();
  EXPECT_EQ(after.fp8_inputs, Fp8Inputs::kByData);
  EXPECT_FALSE(after.fp8_row_scales);
  EXPECT_THAT(after.own_operators, Contains("kpt.linear_fp8_e5m2.default"));
}

TEST(NvidiaBackend, WithoutADriverDevicesAreOneSentence) {
  const testing::TemporaryFolder folder;
  const auto backend = make_nvidia_backend(empty_machine(folder.path()));
  const auto devices = backend->devices();
  ASSERT_FALSE(devices.ok());
  // Where libtorch is missing too, that is the reason.
  EXPECT_FALSE(devices.status().message().empty());
  EXPECT_EQ(devices.status().message().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace kpt
