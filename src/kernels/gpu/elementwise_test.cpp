#include "kernels/gpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "kernels/gpu/elementwise_kernels.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kBool, DType::kUInt8,
                            DType::kInt8,    DType::kInt16,   DType::kInt32,    DType::kInt64};

double read(DType dtype, const void* data, std::int64_t index) {
  const auto at = [&]<typename T>(T) { return static_cast<double>(static_cast<const T*>(data)[index]); };
  switch (dtype) {
    case DType::kFloat32: return at(float{});
    case DType::kBool:
    case DType::kUInt8: return at(std::uint8_t{});
    case DType::kInt8: return at(std::int8_t{});
    case DType::kInt16: return at(std::int16_t{});
    case DType::kInt32: return at(std::int32_t{});
    case DType::kInt64: return at(std::int64_t{});
    default: return decode(dtype, static_cast<const std::uint16_t*>(data)[index]);
  }
}

// An operand whose axes lie in a random order, broadcast here and there.
struct Operand {
  std::optional<Buffer> buffer;
  ElementInput input;

  double get(const std::vector<std::int64_t>& at) const {
    if (input.data == nullptr) return input.number;
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) place += at[axis] * input.strides[axis];
    return read(input.dtype, input.data, place);
  }
};

class Elementwise : public KernelTest {
 protected:
  std::vector<std::int64_t> draw_dims() {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(draw(0, 5)));
    for (std::int64_t& extent : dims) extent = pick<std::int64_t>({1, 2, 3, draw(1, 9)});
    return dims;
  }
  // Strides of a tensor whose axes lie in a random order with gaps; the number of elements it spans.
  std::int64_t draw_strides(const std::vector<std::int64_t>& dims, bool broadcast, std::vector<std::int64_t>& strides) {
    std::vector<std::size_t> order(dims.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (draw(0, 1) == 0) std::shuffle(order.begin(), order.end(), random_);
    strides.assign(dims.size(), 0);
    std::int64_t span = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      if (broadcast && draw(0, 3) == 0) continue;
      strides[order[i]] = span;
      span *= dims[order[i]] + (draw(0, 3) == 0 ? 1 : 0);
    }
    return span;
  }
  void draw_operand(const std::vector<std::int64_t>& dims, DType dtype, Operand& operand) {
    if (draw(0, 3) == 0) {
      operand.input.integer = draw(-3, 5);
      operand.input.number = static_cast<double>(operand.input.integer);
      return;
    }
    operand.input.dtype = dtype;
    const std::int64_t span = draw_strides(dims, true, operand.input.strides);
    operand.buffer.emplace(*device_, dtype, span);
    for (std::int64_t i = 0; i < span; ++i) write(*operand.buffer, dtype, i);
    operand.input.data = operand.buffer->data();
  }
  void write(Buffer& buffer, DType dtype, std::int64_t index) {
    const bool small = dtype == DType::kBool;
    const std::int64_t value = small ? draw(0, 1) : draw(dtype == DType::kUInt8 ? 0 : -6, 9);
    if (dtype == DType::kInt16) {
      static_cast<std::int16_t*>(buffer.data())[index] = static_cast<std::int16_t>(value);
    } else {
      buffer.set(index, static_cast<double>(value) * (is_floating(dtype) ? 0.25 : 1));
    }
  }
  void check_call(ElementwiseCall& call, const Operand& a, const Operand& b, const Operand& c,
                  const std::function<double(double, double, double)>& exact);
};

void Elementwise::check_call(ElementwiseCall& call, const Operand& a, const Operand& b, const Operand& c,
                             const std::function<double(double, double, double)>& exact) {
  call.a = a.input;
  call.b = b.input;
  call.c = c.input;
  const std::int64_t span = draw_strides(call.dims, false, call.output_strides);
  Buffer output(*device_, call.output_dtype, span);
  call.output = output.data();
  run(plan_elementwise(call, shape()));
  std::vector<std::int64_t> at(call.dims.size(), 0);
  std::int64_t count = 1;
  for (const std::int64_t extent : call.dims) count *= extent;
  for (std::int64_t item = 0; item < count; ++item) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) place += at[axis] * call.output_strides[axis];
    const double wanted = exact(a.get(at), b.get(at), c.get(at));
    const double got = read(call.output_dtype, output.data(), place);
    if (is_floating(call.output_dtype)) {
      ASSERT_TRUE(is_near(got, wanted, call.output_dtype, 2e-6 * (1 + std::abs(wanted)))) << item;
    } else {
      ASSERT_EQ(got, wanted) << item;
    }
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < call.dims[axis]) break;
      at[axis] = 0;
    }
  }
}

struct Row {
  ElementOp op;
  double (*exact)(double, double, double);
};

TEST_P(Elementwise, ArithmeticOfAllTypesAndStrides) {
  const Row rows[] = {
      {ElementOp::kCopy, [](double a, double, double) { return a; }},
      {ElementOp::kAdd, [](double a, double b, double) { return a + 2 * b; }},
      {ElementOp::kSubtract, [](double a, double b, double) { return a - 2 * b; }},
      {ElementOp::kMultiply, [](double a, double b, double) { return a * b; }},
      {ElementOp::kMinimum, [](double a, double b, double) { return std::min(a, b); }},
      {ElementOp::kMaximum, [](double a, double b, double) { return std::max(a, b); }},
      {ElementOp::kSelect, [](double a, double b, double c) { return a != 0 ? b : c; }},
      {ElementOp::kMultiplyAdd, [](double a, double b, double c) { return a * b + c; }},
      {ElementOp::kNegate, [](double a, double, double) { return -a; }},
      {ElementOp::kMagnitude, [](double a, double, double) { return std::abs(a); }},
  };
  for (int round = 0; round < 120; ++round) {
    const Row& row = rows[draw(0, std::ssize(rows) - 1)];
    ElementwiseCall call;
    call.op = row.op;
    call.in_integers = draw(0, 1) == 0;
    call.dims = draw_dims();
    call.factor = 2;
    call.factor_integer = 2;
    call.output_dtype = call.in_integers ? pick({DType::kInt16, DType::kInt32, DType::kInt64})
                                         : pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    Operand a, b, c;
    for (Operand* operand : {&a, &b, &c}) draw_operand(call.dims, kTypes[draw(call.in_integers ? 3 : 0, 8)], *operand);
    SCOPED_TRACE(std::to_string(static_cast<int>(row.op)) + " to " + std::string(to_string(call.output_dtype)));
    check_call(call, a, b, c, row.exact);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Elementwise, ComparisonsAndLogicGiveBools) {
  const Row rows[] = {
      {ElementOp::kEqual, [](double a, double b, double) { return static_cast<double>(a == b); }},
      {ElementOp::kNotEqual, [](double a, double b, double) { return static_cast<double>(a != b); }},
      {ElementOp::kLess, [](double a, double b, double) { return static_cast<double>(a < b); }},
      {ElementOp::kLessEqual, [](double a, double b, double) { return static_cast<double>(a <= b); }},
      {ElementOp::kGreater, [](double a, double b, double) { return static_cast<double>(a > b); }},
      {ElementOp::kGreaterEqual, [](double a, double b, double) { return static_cast<double>(a >= b); }},
      {ElementOp::kLogicalAnd, [](double a, double b, double) { return static_cast<double>(a != 0 && b != 0); }},
      {ElementOp::kLogicalOr, [](double a, double b, double) { return static_cast<double>(a != 0 || b != 0); }},
      {ElementOp::kLogicalNot, [](double a, double, double) { return static_cast<double>(a == 0); }},
      {ElementOp::kCopy, [](double a, double, double) { return static_cast<double>(a != 0); }},
  };
  for (int round = 0; round < 60; ++round) {
    const Row& row = rows[draw(0, std::ssize(rows) - 1)];
    ElementwiseCall call;
    call.op = row.op;
    call.in_integers = draw(0, 1) == 0;
    call.dims = draw_dims();
    call.output_dtype = DType::kBool;
    Operand a, b, c;
    for (Operand* operand : {&a, &b}) draw_operand(call.dims, kTypes[draw(call.in_integers ? 3 : 0, 8)], *operand);
    SCOPED_TRACE(static_cast<int>(row.op));
    check_call(call, a, b, c, row.exact);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Elementwise, LogarithmsOfAllSizes) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0F,   -0.0F,  1.0F,      -1.0F,   infinity, std::numeric_limits<float>::quiet_NaN(),
                               1e-45F, 3e-39F, 1.17e-38F, 3.4e38F, 0.7071F,  0.70711F};
  while (values.size() < 500)
    values.push_back(std::ldexp(static_cast<float>(draw(1, 1 << 24)), static_cast<int>(draw(-149, 103))));
  Buffer input(*device_, DType::kFloat32, static_cast<std::int64_t>(values.size()));
  Buffer output(*device_, DType::kFloat32, input.count());
  std::ranges::copy(values, input.floats());
  ElementwiseCall call;
  call.op = ElementOp::kLogarithm;
  call.dims = {input.count()};
  call.a = {input.data(), DType::kFloat32, {1}, 0, 0};
  call.output = output.data();
  call.output_strides = {1};
  run(plan_elementwise(call, shape()));
  for (std::int64_t i = 0; i < input.count(); ++i) {
    const double wanted = std::log(static_cast<double>(values[static_cast<std::size_t>(i)]));
    const double given = output.get(i);
    if (std::isnan(wanted) || std::isinf(wanted)) {
      EXPECT_EQ(std::isnan(wanted), std::isnan(given)) << values[static_cast<std::size_t>(i)];
      EXPECT_TRUE(std::isnan(wanted) || given == wanted) << values[static_cast<std::size_t>(i)];
    } else {
      EXPECT_NEAR(given, wanted, 1.2e-7 * std::abs(wanted)) << values[static_cast<std::size_t>(i)];
    }
  }
}

TEST_P(Elementwise, FunctionsBitsAndRanges) {
  ElementwiseCall call;
  call.dims = {3, 7};
  Operand a, b, c;
  a.input.dtype = DType::kFloat32;
  a.input.strides = {1, 3};
  a.buffer.emplace(*device_, DType::kFloat32, 21);
  a.buffer->fill(random_);
  for (std::int64_t i = 0; i < 21; ++i) a.buffer->floats()[i] = std::abs(a.buffer->floats()[i]) + 0.01F;
  a.input.data = a.buffer->data();
  const Row rows[] = {
      {ElementOp::kExponential, [](double x, double, double) { return std::exp(x); }},
      {ElementOp::kLogarithm, [](double x, double, double) { return std::log(x); }},
      {ElementOp::kRoot, [](double x, double, double) { return std::sqrt(x); }},
      {ElementOp::kInverseRoot, [](double x, double, double) { return 1 / std::sqrt(x); }},
      {ElementOp::kSine, [](double x, double, double) { return std::sin(x); }},
      {ElementOp::kCosine, [](double x, double, double) { return std::cos(x); }},
      {ElementOp::kDivide, [](double x, double y, double) { return x / y; }},
      {ElementOp::kActivate, [](double x, double, double) { return std::tanh(x); }},
  };
  call.activation = Activation::kTanh;
  b.input.number = 3;
  for (const Row& row : rows) {
    call.op = row.op;
    check_call(call, a, b, c, row.exact);
  }
  call.op = ElementOp::kRange;
  call.factor = -2;
  call.factor_integer = -2;
  Operand start;
  start.input.number = 5;
  start.input.integer = 5;
  call.dims = {9};
  for (const bool integers : {false, true}) {
    call.in_integers = integers;
    call.output_dtype = integers ? DType::kInt64 : DType::kFloat32;
    call.a = start.input;
    call.b = call.c = {};
    call.output_strides = {1};
    Buffer output(*device_, call.output_dtype, 9);
    call.output = output.data();
    run(plan_elementwise(call, shape()));
    for (std::int64_t i = 0; i < 9; ++i)
      EXPECT_EQ(read(call.output_dtype, output.data(), i), 5.0 - 2.0 * static_cast<double>(i));
  }
  call.in_integers = true;
  Operand left, right;
  left.input.integer = 12, left.input.number = 12;
  right.input.integer = 10, right.input.number = 10;
  call.output_dtype = DType::kInt32;
  call.op = ElementOp::kBitAnd;
  check_call(call, left, right, c, [](double, double, double) { return 8.0; });
  call.op = ElementOp::kBitOr;
  check_call(call, left, right, c, [](double, double, double) { return 14.0; });
  call.op = ElementOp::kBitNot;
  check_call(call, left, right, c, [](double, double, double) { return -13.0; });
}

// Angles of rotary positions: of all sizes, both signs, and near multiples of a quarter turn.
TEST_P(Elementwise, SinesOfLargeAngles) {
  constexpr std::int64_t kCount = 4096;
  Buffer input(*device_, DType::kFloat32, kCount);
  Buffer output(*device_, DType::kFloat32, kCount);
  std::uniform_real_distribution<double> size(-8, 24);
  for (std::int64_t i = 0; i < kCount; ++i) {
    double angle = std::exp2(size(random_)) * (i % 2 == 0 ? 1 : -1);
    if (i % 5 == 0) angle = std::round(angle) * 1.5707963267948966;
    input.floats()[i] = static_cast<float>(angle);
  }
  ElementwiseCall call;
  call.dims = {kCount};
  call.a.data = input.data();
  call.a.strides = {1};
  call.output = output.data();
  call.output_strides = {1};
  for (const ElementOp op : {ElementOp::kSine, ElementOp::kCosine}) {
    call.op = op;
    run(plan_elementwise(call, shape()));
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double angle = input.floats()[i];
      const double exact = op == ElementOp::kSine ? std::sin(angle) : std::cos(angle);
      ASSERT_NEAR(output.floats()[i], exact, 2e-7) << angle;
    }
  }
  const float odd[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (std::int64_t i = 0; i < 3; ++i) input.floats()[i] = odd[i];
  run(plan_elementwise(call, shape()));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(output.floats()[i]));
}

TEST_P(Elementwise, NanAndInfinityStay) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Buffer input(*device_, DType::kFloat32, 3);
  Buffer output(*device_, DType::kFloat32, 3);
  input.floats()[0] = nan;
  input.floats()[1] = -std::numeric_limits<float>::infinity();
  input.floats()[2] = 1;
  ElementwiseCall call;
  call.dims = {3};
  call.a.data = input.data();
  call.a.strides = {1};
  call.output = output.data();
  call.output_strides = {1};
  for (const ElementOp op : {ElementOp::kMaximum, ElementOp::kMinimum}) {
    call.op = op;
    run(plan_elementwise(call, shape()));
    EXPECT_TRUE(std::isnan(output.floats()[0]));
    std::swap(call.a, call.b);  // NaN as the second one
    run(plan_elementwise(call, shape()));
    EXPECT_TRUE(std::isnan(output.floats()[0]));
    std::swap(call.a, call.b);
  }
  call.op = ElementOp::kSelect;  // what is not chosen does not matter
  std::swap(call.a, call.b);
  call.a = {};
  call.c.number = 7;
  run(plan_elementwise(call, shape()));
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(output.get(i), 7.0);
}

TEST_P(Elementwise, EveryCodeOfFp8GoesOutAndComesBack) {
  Buffer codes(*device_, DType::kFloat8E4M3FN, 256);
  for (int code = 0; code < 256; ++code) {
    static_cast<std::uint8_t*>(codes.data())[code] = static_cast<std::uint8_t>(code);
  }
  for (const DType to : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Buffer numbers(*device_, to, 256);
    Buffer back(*device_, DType::kFloat8E4M3FN, 256);
    ElementwiseCall call;
    call.dims = {256};
    call.a.data = codes.data();
    call.a.dtype = DType::kFloat8E4M3FN;
    call.a.strides = {1};
    call.output = numbers.data();
    call.output_dtype = to;
    call.output_strides = {1};
    run(plan_elementwise(call, shape()));
    call.a.data = numbers.data();
    call.a.dtype = to;
    call.output = back.data();
    call.output_dtype = DType::kFloat8E4M3FN;
    run(plan_elementwise(call, shape()));
    for (std::uint32_t code = 0; code < 256; ++code) {
      const bool is_nan = (code & 0x7fU) == 0x7fU;
      const double wanted = decode(DType::kFloat8E4M3FN, code);
      const double got = numbers.get(code);
      ASSERT_TRUE(is_nan ? std::isnan(got) : got == wanted && std::signbit(got) == std::signbit(wanted)) << code;
      ASSERT_EQ(back.code(code), is_nan ? 0x7fU : code);
    }
  }
}

TEST_P(Elementwise, BadCallsAreRefused) {
  ElementwiseCall call;
  call.dims = {2};
  call.output_strides = {1};
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: the output must be given");
  call.output_dtype = DType::kFloat64;
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: no kernel for float64");
  call.output_dtype = DType::kFloat32;
  call.op = ElementOp::kBitAnd;
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: no such operation on numbers");
  call.in_integers = true;
  call.op = ElementOp::kDivide;
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: no such operation on integers");
  call.op = static_cast<ElementOp>(99);
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: no such operation");
  call = {};
  call.dims = {2, 2, 2, 2, 2, 2, 2};
  call.output_strides = {1, 2, 4, 8, 16, 32, 64};
  call.output = &call;
  EXPECT_EQ(plan_elementwise(call, shape()).status().message(), "elementwise: 7 axes that cannot be joined, at most 6");
  call.dims[3] = 0;
  EXPECT_TRUE(plan_elementwise(call, shape())->empty());
}

KPT_KERNEL_TESTS(Elementwise);

}  // namespace
}  // namespace kpt::gpu::testing
