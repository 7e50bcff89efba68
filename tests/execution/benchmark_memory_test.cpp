// kpt bench's figures of a device's own memory, on a backend that counts its own.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "benchmark/model_benchmark.h"
#include "ir/text.h"
#include "test_backend.h"

namespace kpt::execution_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSum = R"(kpt_graph 1
symbol s0 in 1..4096
input x: float32[s0, 256]
y: float32[s0, 256] = aten.add.Tensor(self=%x, other=%x)
output %y "y"
)";

class BenchmarkMemory : public ::testing::Test {
 protected:
  // One point for each number of rows.
  std::vector<PointReport> measure_rows(const std::vector<std::int64_t>& rows, const TestMemory& memory,
                                        const TestOperators& operators = {}) {
    const std::unique_ptr<Backend> backend = make_test_backend(memory, operators);
    Device* const device = backend->devices().value().at(0);
    ImportedModel model;
    model.graph = ir::read_graph(kSum).value();
    const auto loaded = detail::LoadedModel::load(std::move(model), *backend, *device);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    ModelBenchmarkOptions options;
    options.measure.duration = std::chrono::duration<double>(0);
    options.measure.warmup = std::chrono::duration<double>(0);
    options.measure.least_samples = 3;
    options.device = device;
    std::vector<Sizes> points;
    for (const std::int64_t count : rows) points.push_back({{"s0", count}});
    auto reports = benchmark_points(*loaded, points, options, SystemFiles(), notes_);
    EXPECT_TRUE(reports.ok()) << reports.status().message();
    return reports.ok() ? std::move(*reports) : std::vector<PointReport>();
  }

  // Others are about the process, whose peak cannot begin anew on every system.
  std::vector<std::string> notes_of_the_device() const {
    std::vector<std::string> found;
    std::ranges::copy_if(notes_, std::back_inserter(found),
                         [](const std::string& note) { return note.find("the device's memory") != std::string::npos; });
    return found;
  }

  static constexpr std::uint64_t kRow = 256 * sizeof(float);
  std::vector<std::string> notes_;
};

TEST_F(BenchmarkMemory, EachPointHasThePeakOfItsOwnRuns) {
  const auto reports = measure_rows({2048, 1}, {.counted = true, .peak_resets = true});
  ASSERT_EQ(reports.size(), 2U);
  ASSERT_TRUE(reports[0].device_peak_bytes && reports[1].device_peak_bytes);
  EXPECT_GE(*reports[0].device_peak_bytes, 2048 * kRow);
  EXPECT_GE(*reports[1].device_peak_bytes, kRow);
  EXPECT_LT(*reports[1].device_peak_bytes, 2048 * kRow) << "the peak of the larger point stayed";
  EXPECT_THAT(notes_of_the_device(), IsEmpty());
}

TEST_F(BenchmarkMemory, APeakThatCannotBeginAnewIsToldOnceAsThatOfTheProcess) {
  const auto reports = measure_rows({2048, 1}, {.counted = true});
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_GE(*reports[1].device_peak_bytes, 2048 * kRow);
  EXPECT_THAT(notes_of_the_device(),
              ElementsAre(AllOf(HasSubstr("is that of the whole process: "), HasSubstr("test:0"))));
}

TEST_F(BenchmarkMemory, ADeviceThatDoesNotCountIsToldOnce) {
  const auto reports = measure_rows({4, 8}, {});
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_FALSE(reports[0].device_peak_bytes || reports[1].device_peak_bytes);
  EXPECT_THAT(notes_of_the_device(),
              ElementsAre(HasSubstr("no peak of the device's memory: the memory of test:0 is not counted")));
}

TEST_F(BenchmarkMemory, TheProcessorHasNoneOfItsOwn) {
  TestOperators host;
  host.device = "cpu";
  const auto reports = measure_rows({4}, {.counted = true, .peak_resets = true}, host);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_FALSE(reports[0].device_peak_bytes);
  EXPECT_THAT(notes_of_the_device(), IsEmpty());
}

}  // namespace
}  // namespace kpt::execution_test
