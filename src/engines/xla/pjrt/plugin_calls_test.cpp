#include "engines/xla/pjrt/plugin_calls.h"

#include <chrono>
#include <future>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{60000};
constexpr std::chrono::milliseconds kShort{50};

TEST(PluginCalls, AnAnswerOrASentence) {
  CallThreads threads;
  const auto answer = call_within<std::string>(threads, kLong, "fake", "answer", Vendor::kNone,
                                               []() -> Result<std::string> { return std::string("yes"); });
  EXPECT_EQ(answer.value(), "yes");
  const auto failure =
      call_within<std::string>(threads, kLong, "fake", "answer", Vendor::kNone,
                               []() -> Result<std::string> { return Status(StatusCode::kOutOfMemory, "full"); });
  EXPECT_EQ(failure.status().code(), StatusCode::kOutOfMemory);
  std::promise<void> gate;
  const auto late = call_within<std::string>(threads, kShort, "fake", "answer", Vendor::kTpu,
                                             [opened = gate.get_future().share()]() -> Result<std::string> {
                                               opened.wait();
                                               return std::string("too late");
                                             });
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.status().vendor(), Vendor::kTpu);
  EXPECT_THAT(
      late.status().message(),
      AllOf(HasSubstr("PJRT plugin fake has not answered within 0.1 s when asked to answer"), HasSubstr("kpt doctor")));
  gate.set_value();
}

}  // namespace
}  // namespace kpt::pjrt
