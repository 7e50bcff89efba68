#include "kernels/gpu/gpu_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/gpu/numbers.h"

namespace kpt::gpu::testing {
namespace {

struct Shape {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity, fnuz;
};

Shape shape_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return {5, 10, 15, true, false};
    case DType::kBFloat16: return {8, 7, 127, true, false};
    case DType::kFloat8E4M3FN: return {4, 3, 7, false, false};
    case DType::kFloat8E4M3FNUZ: return {4, 3, 8, false, true};
    case DType::kFloat8E5M2: return {5, 2, 15, true, false};
    default: return {5, 2, 16, false, true};
  }
}

template <typename T>
void store(void* place, T value) {
  std::memcpy(place, &value, sizeof value);
}

}  // namespace

double decode(DType dtype, std::uint32_t code) {
  if (dtype == DType::kFloat32) return static_cast<double>(float_of(code));
  if (dtype == DType::kInt8) return static_cast<std::int8_t>(code);
  if (dtype == DType::kInt32) return static_cast<std::int32_t>(code);
  const Shape s = shape_of(dtype);
  const auto fraction = static_cast<int>(code & ((1U << static_cast<unsigned>(s.mantissa_bits)) - 1U));
  const auto exponent = static_cast<int>((code >> static_cast<unsigned>(s.mantissa_bits)) &
                                         ((1U << static_cast<unsigned>(s.exponent_bits)) - 1U));
  const bool negative = (code >> static_cast<unsigned>(s.mantissa_bits + s.exponent_bits)) != 0;
  const int top = (1 << s.exponent_bits) - 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (s.fnuz && negative && fraction == 0 && exponent == 0) return nan;
  if (s.has_infinity && exponent == top) {
    if (fraction != 0) return nan;
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  if (dtype == DType::kFloat8E4M3FN && exponent == top && fraction == 7) return nan;
  const double one = std::ldexp(1.0, s.mantissa_bits);
  const double value =
      exponent == 0 ? std::ldexp(fraction / one, 1 - s.bias) : std::ldexp(1.0 + fraction / one, exponent - s.bias);
  return negative ? -value : value;
}

double rounding(DType dtype) {
  if (dtype == DType::kFloat32) return 1.2e-7;
  return std::ldexp(1.0, -shape_of(dtype).mantissa_bits - 1) * 1.001;
}

Buffer::Buffer(TestDevice& device, DType dtype, std::int64_t count, std::int64_t offset)
    : device_(device), dtype_(dtype), count_(count) {
  const std::size_t bytes = element_bytes(dtype) * static_cast<std::size_t>(count + offset);
  memory_ = device.allocate(bytes);
  data_ = static_cast<std::byte*>(memory_) + element_bytes(dtype) * static_cast<std::size_t>(offset);
  poison();
}

Buffer::~Buffer() { device_.release(memory_); }

std::uint32_t Buffer::code(std::int64_t index) const {
  std::uint32_t code = 0;
  const std::size_t bytes = element_bytes(dtype_);
  std::memcpy(&code, static_cast<const std::byte*>(data_) + bytes * static_cast<std::size_t>(index), bytes);
  return code;
}

double Buffer::get(std::int64_t index) const {
  if (dtype_ == DType::kInt64) return static_cast<double>(static_cast<const std::int64_t*>(data_)[index]);
  return decode(dtype_, code(index));
}

void Buffer::set(std::int64_t index, double value) {
  const auto number = static_cast<float>(value);
  void* place = static_cast<std::byte*>(data_) + element_bytes(dtype_) * static_cast<std::size_t>(index);
  switch (dtype_) {
    case DType::kFloat32: return store(place, number);
    case DType::kFloat16: return store(place, from_float<Half>(number));
    case DType::kBFloat16: return store(place, from_float<BFloat>(number));
    case DType::kFloat8E4M3FN: return store(place, from_float<E4M3>(number));
    case DType::kFloat8E4M3FNUZ: return store(place, from_float<E4M3Fnuz>(number));
    case DType::kFloat8E5M2: return store(place, from_float<E5M2>(number));
    case DType::kFloat8E5M2FNUZ: return store(place, from_float<E5M2Fnuz>(number));
    case DType::kInt32: return store(place, static_cast<std::int32_t>(value));
    case DType::kInt64: return store(place, static_cast<std::int64_t>(value));
    default: return store(place, static_cast<std::int8_t>(std::clamp(value, -128.0, 127.0)));
  }
}

Buffer& Buffer::fill(std::mt19937_64& random, double spread, double center) {
  std::normal_distribution<double> normal(center, spread);
  for (std::int64_t index = 0; index < count_; ++index) set(index, normal(random));
  return *this;
}

Buffer& Buffer::poison() {
  std::memset(data_, 0xff, element_bytes(dtype_) * static_cast<std::size_t>(count_));
  return *this;
}

void KernelTest::SetUp() {
  seed_ = (static_cast<std::uint64_t>(std::random_device{}()) << 20U) | 1U;
  trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, "seed " + std::to_string(seed_));
  random_.seed(seed_);
  std::string reason;
  device_ = open_device(GetParam(), seed_, &reason);
  if (device_ == nullptr) GTEST_SKIP() << reason;
}

void KernelTest::run(const Result<Plan>& plan) {
  const Status status = run_plan(device_->launcher(), plan, nullptr);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const Status ended = device_->synchronize();
  ASSERT_TRUE(ended.ok()) << ended.to_string();
}

std::int64_t KernelTest::draw_width() {
  return pick<std::int64_t>({draw(1, 40), draw(1, 300), 8 * draw(1, 40), 1024, 1032, 2048, 2056, draw(1000, 2500)});
}

::testing::AssertionResult is_near(double got, double wanted, DType dtype, double slack) {
  if (std::isnan(wanted) && std::isnan(got)) return ::testing::AssertionSuccess();
  if (got == wanted) return ::testing::AssertionSuccess();
  // Below its normal numbers a type has a fixed step.
  const double step = dtype == DType::kFloat16 ? 6e-8 : 0;
  const double allowed = std::abs(wanted) * rounding(dtype) + slack + step;
  if (std::abs(got - wanted) <= allowed) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "got " << got << ", wanted " << wanted << " ± " << allowed;
}

}  // namespace kpt::gpu::testing
