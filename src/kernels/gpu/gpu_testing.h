// What the tests of kernels share: a device to run them on, buffers with exact ends, random shapes and tolerances.
//
// The same tests are compiled twice: for the host mapping (waves of 32 and 64, lanes in order and in random order) and,
// where nvcc is, for a GPU (its own waves of 32, and AMD's of 64 out of two of them).
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/gpu/launch.h"
#include "support/rounds.h"

namespace kpt::gpu::testing {

using kpt::testing::rounds;

// Memory that kernels and tests can both reach, and a launcher.
class TestDevice {
 public:
  TestDevice() = default;
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
  virtual ~TestDevice() = default;
  virtual Launcher& launcher() = 0;
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  // Returns when all launches have ended.
  virtual Status synchronize() = 0;
};

// "wave32", "wave64_shuffled", "cuda", "cuda_wave64": what the tests run on.
std::vector<std::string> device_names();
// Null with a reason when there is none of the kind here.
std::unique_ptr<TestDevice> open_device(const std::string& name, std::uint64_t seed, std::string* reason);

// The number of a code, by the definition of its type.
double decode(DType dtype, std::uint32_t code);
// The largest relative error of one rounding to the type.
double rounding(DType dtype);

// `count` elements, at `offset` elements from an address that is a multiple of 64; its end is the end of the memory.
class Buffer {
 public:
  Buffer(TestDevice& device, DType dtype, std::int64_t count, std::int64_t offset = 0);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  std::int64_t count() const { return count_; }
  DType type() const { return dtype_; }
  double get(std::int64_t index) const;
  std::uint32_t code(std::int64_t index) const;
  // Rounds to the type.
  void set(std::int64_t index, double value);
  // Normally distributed, times `spread`, plus `center`.
  Buffer& fill(std::mt19937_64& random, double spread = 1, double center = 0);
  // Bytes of ones: NaN, or a number that no result has by chance.
  Buffer& poison();

 private:
  TestDevice& device_;
  DType dtype_;
  std::int64_t count_;
  void* memory_;
  void* data_;
};

// A fixture with a device and a seed that every failure shows.
class KernelTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Matrix units with the device's waves; none on CUDA.
  static std::vector<MatrixUnit> units() {
    if (GetParam().starts_with("wave64")) return {MatrixUnit::kCdna2, MatrixUnit::kCdna3, MatrixUnit::kCdna4};
    if (GetParam().starts_with("wave32")) return {MatrixUnit::kRdna3, MatrixUnit::kRdna4};
    return {};
  }
  // The device with one of them.
  DeviceShape with(MatrixUnit unit) {
    DeviceShape result = shape();
    result.matrix = unit;
    return result;
  }
  void SetUp() override;
  // Runs a plan to its end; a failure of either fails the test.
  void run(const Result<Plan>& plan);
  DeviceShape shape() { return device_->launcher().shape(); }
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[draw(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  // Widths at and around the borders between kernels.
  std::int64_t draw_width();
  DType draw_type() { return pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16}); }

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_{seed_};  // seeded anew by SetUp()
  std::unique_ptr<TestDevice> device_;

 private:
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

// Whether a result is right: one rounding of its type, and `slack` (in units of the values' size) for float32 sums.
::testing::AssertionResult is_near(double got, double wanted, DType dtype, double slack);

inline std::string device_label(const ::testing::TestParamInfo<std::string>& parameter) { return parameter.param; }

#define KPT_KERNEL_TESTS(suite) INSTANTIATE_TEST_SUITE_P(Gpu, suite, ::testing::ValuesIn(device_names()), device_label)

}  // namespace kpt::gpu::testing
