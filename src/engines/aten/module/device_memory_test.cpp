// What needs no GPU of it: which failures are shortages, that they are counted, and what they say.
#include "engines/aten/module/device_memory.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/module/device_calls.h"

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
      {StatusCode::kOutOfMemory, "node 'n' (aten.mm.default) failed: CUDA out of memory. Tried to allocate 1.50 MiB. "},
      kDevice);
  EXPECT_THAT(shortage.to_string(), HasSubstr("(needed_bytes=1572864, advice=run a smaller batch"));
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
  const Status other = describe_shortage({StatusCode::kVendorLibrary, "Tried to allocate 1.50 MiB"}, kDevice);
  EXPECT_THAT(other.to_string(), Not(HasSubstr("bytes=")));
  EXPECT_EQ(times_out_of_memory(kDevice), before + 1);
}

}  // namespace
}  // namespace kpt::aten
