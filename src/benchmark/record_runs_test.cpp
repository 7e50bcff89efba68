#include "benchmark/record_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Listens as the test says.
class ListeningDevice final : public Device {
 public:
  explicit ListeningDevice(Status refusal = {}, bool after_work = false)
      : refusal_(std::move(refusal)), after_work_(after_work) {}

  Result<std::vector<Activity>> record(const std::function<Status()>& work) override {
    if (!refusal_.ok() && !after_work_) return refusal_;
    KPT_RETURN_IF_ERROR(work());
    if (!refusal_.ok()) return refusal_;
    return std::vector<Activity>{{Activity::Kind::kKernel, "gemm", 1, 2, 3, 4}};
  }

  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { std::abort(); }
  Result<Tensor> allocate(DType, std::span<const std::int64_t>) override { return Tensor(); }
  Result<Tensor> upload(const Tensor& host) override { return host; }
  Result<Tensor> download(const Tensor& tensor) override { return tensor; }

 private:
  DeviceInfo info_;
  Status refusal_;
  bool after_work_;
};

class RecordRuns : public ::testing::Test {
 protected:
  RunToRecord run() {
    return {[this]() -> Status {
              ++prepared_;
              return {};
            },
            [this](NodeObserver* observer) -> Status {
              if (++done_ == failing_run_) return {StatusCode::kUnsupported, "this run does not go"};
              if (observer == nullptr) return {};
              for (const std::size_t node : {0U, 1U}) {
                observer->begin_node(node);
                observer->end_node(node);
              }
              return {};
            }};
  }
  int prepared_ = 0;
  int done_ = 0;
  int failing_run_ = 0;
};

TEST_F(RecordRuns, BothWaysAndWhatTheDeviceDid) {
  ListeningDevice device;
  const auto recorded = record_runs(device, 3, run());
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->note, "");
  EXPECT_THAT(recorded->recording.runs, SizeIs(3));
  EXPECT_THAT(recorded->recording.observed_runs, SizeIs(3));
  EXPECT_THAT(recorded->recording.nodes, SizeIs(6));
  EXPECT_THAT(recorded->recording.activities, SizeIs(1));
  EXPECT_EQ(prepared_, 6);
}

TEST_F(RecordRuns, WhereNobodyListensTheRunsAreTimed) {
  ListeningDevice device({StatusCode::kUnsupported, "nobody listens"});
  const auto recorded = record_runs(device, 3, run());
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->note, "nobody listens");
  EXPECT_THAT(recorded->recording.runs, SizeIs(3));
  EXPECT_THAT(recorded->recording.nodes, IsEmpty());
  EXPECT_EQ(done_, 3);
}

TEST_F(RecordRuns, AListenerThatHeardNothingLeavesTheNodesTimed) {
  ListeningDevice device({StatusCode::kUnsupported, "the tracer told of no work"}, true);
  const auto recorded = record_runs(device, 3, run());
  ASSERT_TRUE(recorded.ok()) << recorded.status().to_string();
  EXPECT_EQ(recorded->note, "the tracer told of no work");
  EXPECT_THAT(recorded->recording.runs, SizeIs(3));
  EXPECT_THAT(recorded->recording.nodes, SizeIs(6));
  EXPECT_THAT(recorded->recording.activities, IsEmpty());
  EXPECT_EQ(done_, 6) << "nothing is run again";
}

TEST_F(RecordRuns, FailuresOfRunsAndOfOtherKindsAreFailures) {
  for (const int failing : {1, 2, 5}) {
    ListeningDevice device;
    done_ = 0;
    failing_run_ = failing;
    EXPECT_EQ(record_runs(device, 3, run()).status().message(), "this run does not go") << failing;
    EXPECT_EQ(done_, failing);
  }
  failing_run_ = 0;
  for (const bool after_work : {false, true}) {
    ListeningDevice device({StatusCode::kDeadlineExceeded, "the device hangs"}, after_work);
    EXPECT_EQ(record_runs(device, 3, run()).status().message(), "the device hangs");
  }
}

}  // namespace
}  // namespace kpt
