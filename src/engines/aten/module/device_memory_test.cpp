// What needs no GPU of it: which failures are shortages, that they are counted, and what they say.
#include "engines/aten/module/device_memory.h"

#include <atomic>
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/module/device_calls.h"
#include "engines/aten/module/kept_memory.h"

namespace kpt::aten {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr c10::DeviceIndex kDevice = 3;

template <typename Body>
CallOutcome call_that(const Body& body) {
  return memory_call(kDevice, body);
}

TEST(DeviceMemory, ALibraryThatFoundNoneForItselfRanOutOfMemoryToo) {
  const std::uint64_t before = times_out_of_memory(kDevice);
  const CallOutcome outcome =
      call_that([] { throw std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling it\nmore"); });
  EXPECT_EQ(outcome.code, CallCode::kOutOfMemory);
  EXPECT_STREQ(outcome.text, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling it");
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
}

TEST(DeviceMemory, LibtorchsOwnShortageIsCountedOnce) {
  const std::uint64_t before = times_out_of_memory(kDevice);
  const CallOutcome outcome = call_that(
      [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has"); });
  EXPECT_EQ(outcome.code, CallCode::kOutOfMemory);
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
}

TEST(DeviceMemory, OtherFailuresAreNoShortage) {
  const std::uint64_t before = times_out_of_memory(kDevice);
  EXPECT_EQ(call_that([] { throw std::runtime_error("an illegal memory access"); }).code, CallCode::kFailed);
  // There is no allocator here that could tell whether memory is short.
  EXPECT_EQ(call_that([] { throw std::runtime_error("CUDNN_STATUS_NOT_INITIALIZED"); }).code, CallCode::kFailed);
  EXPECT_EQ(call_that([] { throw CallFailure(CallCode::kNoDevice, "CUDA error: out of memory"); }).code,
            CallCode::kNoDevice);
  EXPECT_EQ(call_that([] {}).code, CallCode::kOk);
  EXPECT_EQ(times_out_of_memory(kDevice), before);
}

TEST(DeviceMemory, AShortageInARunSaysWhatWasNeededAndWhatToDo) {
  const std::uint64_t before = times_out_of_memory(kDevice);
  const Status shortage = describe_shortage(
      {StatusCode::kOutOfMemory, "node 'n' (aten.mm.default) failed: CUDA out of memory. Tried to allocate 1.50 MiB. ",
       Vendor::kNvidia},
      kDevice);
  EXPECT_THAT(shortage.to_string(), HasSubstr("(needed_bytes=1572864, advice=run a smaller batch"));
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
  const Status other = describe_shortage({StatusCode::kVendorLibrary, "Tried to allocate 1.50 MiB"}, kDevice);
  EXPECT_THAT(other.to_string(), Not(HasSubstr("bytes=")));
  const Status host = describe_shortage({StatusCode::kOutOfMemory, "the host's memory ran out"}, kDevice);
  EXPECT_EQ(host.to_string(), "the host's memory ran out");
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
}

TEST(DeviceMemory, AShortageOfTheHostIsNoneOfTheDevices) {
  const std::uint64_t before = times_out_of_memory(kDevice);
  EXPECT_EQ(call_that([] { throw std::bad_alloc(); }).code, CallCode::kOutOfHostMemory);
  const CallOutcome outcome = call_that([] {
    TORCH_CHECK(false, "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you");
  });
  EXPECT_EQ(outcome.code, CallCode::kOutOfHostMemory);
  EXPECT_EQ(times_out_of_memory(kDevice), before);
  EXPECT_THROW(attempt_with_kept_memory(kDevice, []() -> Result<int> { throw std::bad_alloc(); }), std::bad_alloc);
}

// A model that keeps some memory until it is asked.
class Keeper final : public MemoryKeeper {
 public:
  Keeper() { keepers_of(kDevice).add(*this); }
  ~Keeper() override { keepers_of(kDevice).remove(*this); }
  std::uint64_t kept_bytes() const noexcept override { return kept; }
  std::uint64_t give_up() noexcept override { return kept.exchange(0); }
  std::atomic<std::uint64_t> kept = 7;
};

TEST(DeviceMemory, WhatIdleModelsKeepIsGivenUpOnceForWhatLacksMemory) {
  int attempts = 0;
  const auto fail = [&]() -> Result<int> {
    ++attempts;
    return Status(StatusCode::kOutOfMemory, "too little", Vendor::kNvidia);
  };
  EXPECT_FALSE(attempt_with_kept_memory(kDevice, fail).ok());
  EXPECT_EQ(attempts, 1) << "nobody keeps anything";
  Keeper keeper;
  EXPECT_FALSE(attempt_with_kept_memory(kDevice, fail).ok());
  EXPECT_EQ(attempts, 3) << "tried once more";
  EXPECT_EQ(keeper.kept, 0U);
  keeper.kept = 7;
  attempts = 0;
  const auto fits_then = [&]() -> Result<int> {
    TORCH_CHECK_WITH(OutOfMemoryError, attempts++ > 0, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has");
    return 5;
  };
  const auto made = attempt_with_kept_memory(kDevice, fits_then);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made, 5);
  keeper.kept = 7;
  const auto wrong = [&]() -> Result<int> { return Status(StatusCode::kInvalidArgument, "not that"); };
  EXPECT_FALSE(attempt_with_kept_memory(kDevice, wrong).ok());
  EXPECT_EQ(keeper.kept, 7U) << "for other failures nothing is given up";
}

}  // namespace
}  // namespace kpt::aten
