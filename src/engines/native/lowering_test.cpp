// Rules that are more than a call of one kernel, against plain loops in double. Waves of 32 and 64.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/native/host_machine.h"
#include "engines/native/native_executable.h"
#include "ir/text.h"

namespace kpt::native {
namespace {

using testing::HostMachine;

class NativeLowering : public ::testing::TestWithParam<int> {
 protected:
  NativeLowering() : machine_(GetParam()), seed_(std::random_device{}()), random_(seed_) {}
  void SetUp() override {
    trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, fmt::format("seed {}", seed_));
  }
  Tensor floats(const Dims& dims, float least = -2, float most = 2) {
    std::uniform_real_distribution<float> uniform(least, most);
    const Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
    for (float& value : tensor.elements<float>()) value = uniform(random_);
    return tensor;
  }
  static Tensor whole(const Dims& dims, const std::vector<std::int64_t>& values) {
    return Tensor::from_bytes(DType::kInt64, dims, std::as_bytes(std::span(values))).value();
  }
  std::vector<Tensor> run(const std::string& text, const std::vector<Tensor>& inputs, const Weights& weights = {}) {
    const std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &machine_);
    const auto graph = std::make_shared<const ir::Graph>(ir::read_graph("kpt_graph 1\n" + text).value());
    const auto executable = NativeExecutable::load(graph, weights, machine);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    std::vector<Tensor> outputs;
    if (!executable.ok()) return outputs;
    RunContext context;
    const Status status = (*executable)->run(context, inputs, outputs, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return outputs;
  }
  std::string refusal(const std::string& text) {
    const std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &machine_);
    const auto graph = std::make_shared<const ir::Graph>(ir::read_graph("kpt_graph 1\n" + text).value());
    return std::string(NativeExecutable::load(graph, {}, machine).status().message());
  }

  HostMachine machine_;
  unsigned seed_;
  std::mt19937 random_;
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

TEST_P(NativeLowering, BatchNorm) {
  const Tensor x = floats({2, 3, 4, 5});
  const Weights weights = {{"m", floats({3})}, {"v", floats({3}, 0.1F, 2)}, {"w", floats({3})}, {"b", floats({3})}};
  const auto outputs = run(R"(buffer m: float32[3] "m"
buffer v: float32[3] "v"
parameter w: float32[3] "w"
parameter b: float32[3] "b"
input x: float32[2, 3, 4, 5]
y: float32[2, 3, 4, 5] = aten.batch_norm.default(input=%x, weight=%w, bias=%b, running_mean=%m, running_var=%v, training=false, momentum=0.1, eps=0.001, cudnn_enabled=true)
z: float32[2, 3, 4, 5] = aten.batch_norm.default(input=%x, weight=none, bias=none, running_mean=%m, running_var=%v, training=false, momentum=0.1, eps=0.001, cudnn_enabled=true)
n: float32[2, 3, 4, 5], e: float32[0], f: float32[0] = aten._native_batch_norm_legit_no_training.default(input=%x, weight=%w, bias=%b, running_mean=%m, running_var=%v, momentum=0.1, eps=0.001)
output %y "y"
output %z "z"
output %n "n"
output %e "e"
)",
                           {x}, weights);
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_EQ(outputs[3].dims(), Dims({0}));
  const auto at = [&](const char* name, std::size_t c) {
    return static_cast<double>(weights.at(name).elements<float>()[c]);
  };
  for (std::size_t i = 0; i < 120; ++i) {
    const std::size_t c = i / 20 % 3;
    const double normed = (x.elements<float>()[i] - at("m", c)) / std::sqrt(at("v", c) + 0.001);
    ASSERT_NEAR(outputs[0].elements<float>()[i], normed * at("w", c) + at("b", c), 1e-5) << i;
    ASSERT_NEAR(outputs[1].elements<float>()[i], normed, 1e-5) << i;
    ASSERT_EQ(outputs[2].elements<float>()[i], outputs[0].elements<float>()[i]) << i;
  }
}

// Exported on a GPU, the file says more of the statistics that nobody reads.
TEST_P(NativeLowering, StatisticsOfABatchAreOnlyRefusedWhereTheyAreRead) {
  const std::string graph = R"(input m: float32[3]
input v: float32[3]
input x: float32[2, 3]
y: float32[2, 3], s: float32[3], t: float32[3] = aten._native_batch_norm_legit_no_training.default(input=%x, weight=none, bias=none, running_mean=%m, running_var=%v, momentum=0.1, eps=0.001)
output %y "y"
)";
  EXPECT_EQ(refusal(graph), "");
  EXPECT_THAT(refusal(graph + "output %s \"s\"\n"), ::testing::HasSubstr("it gives statistics of its input"));
}

TEST_P(NativeLowering, PoolsAndPads) {
  const Tensor x = floats({2, 3, 7, 6});
  const auto outputs = run(R"(input x: float32[2, 3, 7, 6]
p: float32[2, 3, 4, 3] = aten.max_pool2d.default(self=%x, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])
q: float32[2, 3, 3, 4] = aten.max_pool2d.default(self=%x, kernel_size=[3, 2], stride=[2, 1], dilation=[1, 2])
m: float32[2, 3, 1, 3] = aten.adaptive_avg_pool2d.default(self=%x, output_size=[1, 3])
w: float32[2, 3, 6, 9] = aten.pad.default(self=%x, pad=[1, 2, 0, -1], mode="constant", value=0.5)
r: float32[2, 3, 4, 3], places: int64[2, 3, 4, 3] = aten.max_pool2d_with_indices.default(self=%x, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])
output %p "p"
output %q "q"
output %m "m"
output %w "w"
output %r "r"
)",
                           {x});
  ASSERT_EQ(outputs.size(), 5U);
  for (std::size_t i = 0; i < 72; ++i) ASSERT_EQ(outputs[4].elements<float>()[i], outputs[0].elements<float>()[i]);
  const auto at = [&](std::int64_t plane, std::int64_t h, std::int64_t w, double outside) {
    if (h < 0 || h >= 7 || w < 0 || w >= 6) return outside;
    return static_cast<double>(x.elements<float>()[static_cast<std::size_t>((plane * 7 + h) * 6 + w)]);
  };
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const auto check = [&](std::size_t output, std::int64_t height, std::int64_t width, const auto& wanted) {
    for (std::int64_t i = 0; i < 6 * height * width; ++i) {
      const float given = outputs[output].elements<float>()[static_cast<std::size_t>(i)];
      ASSERT_NEAR(given, wanted(i / width / height, i / width % height, i % width), 1e-6) << output << " at " << i;
    }
  };
  check(0, 4, 3, [&](std::int64_t plane, std::int64_t h, std::int64_t w) {
    double most = kNone;
    for (std::int64_t k = 0; k < 9; ++k) most = std::max(most, at(plane, 2 * h - 1 + k / 3, 2 * w - 1 + k % 3, kNone));
    return most;
  });
  check(1, 3, 4, [&](std::int64_t plane, std::int64_t h, std::int64_t w) {
    double most = kNone;
    for (std::int64_t k = 0; k < 6; ++k) most = std::max(most, at(plane, 2 * h + k / 2, w + 2 * (k % 2), kNone));
    return most;
  });
  check(2, 1, 3, [&](std::int64_t plane, std::int64_t, std::int64_t w) {
    double sum = 0;
    for (std::int64_t k = 0; k < 14; ++k) sum += at(plane, k / 2, 2 * w + k % 2, 0);
    return sum / 14;
  });
  check(3, 6, 9, [&](std::int64_t plane, std::int64_t h, std::int64_t w) { return at(plane, h, w - 1, 0.5); });
  EXPECT_THAT(refusal("input x: float32[1, 1, 5, 5]\np: float32[1, 1, 3, 3] = aten.max_pool2d.default(self=%x, "
                      "kernel_size=[2, 2], stride=[2, 2], ceil_mode=true)\noutput %p \"p\"\n"),
              ::testing::HasSubstr("the file says float32[1, 1, 3, 3]"));
  EXPECT_THAT(refusal("input x: float32[1, 1, 5, 5]\np: float32[1, 1, 2, 2] = aten.adaptive_avg_pool2d.default("
                      "self=%x, output_size=[2, 2])\noutput %p \"p\"\n"),
              ::testing::HasSubstr("the parts are not of one size"));
}

TEST_P(NativeLowering, PlacesDifferencesLogarithmsAndBounds) {
  const Tensor x = floats({3, 5}, 0.01F, 9);
  const Tensor n = whole({2, 4}, {3, 9, 9, -1, 5, 5, 4, 7});
  const auto outputs = run(R"(input x: float32[3, 5]
input n: int64[2, 4]
a: int64[3] = aten.argmax.default(self=%x, dim=-1)
b: int64[] = aten.argmin.default(self=%x)
c: int64[2, 1] = aten.argmax.default(self=%n, dim=1, keepdim=true)
d: float32[3, 4] = aten.diff.default(self=%x)
p: int64[2, 1]{strides=[4, 1]} = aten.slice.Tensor(self=%n, dim=1, start=0, end=1)
e: int64[2, 4] = aten.diff.default(self=%n, n=1, dim=-1, prepend=%p)
l: float32[3, 5] = aten.log.default(self=%x)
h: float32[3, 5] = aten.hardtanh.default(self=%x, min_val=1.0, max_val=6.0)
output %a "a"
output %b "b"
output %c "c"
output %d "d"
output %e "e"
output %l "l"
output %h "h"
)",
                           {x, n});
  ASSERT_EQ(outputs.size(), 7U);
  const auto values = x.elements<float>();
  for (std::size_t row = 0; row < 3; ++row) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(5 * row);
    EXPECT_EQ(outputs[0].elements<std::int64_t>()[row], std::max_element(first, first + 5) - first);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(outputs[3].elements<float>()[4 * row + i], values[5 * row + i + 1] - values[5 * row + i]);
    }
  }
  EXPECT_EQ(outputs[1].elements<std::int64_t>()[0], std::min_element(values.begin(), values.end()) - values.begin());
  EXPECT_THAT(outputs[2].elements<std::int64_t>(), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(outputs[4].elements<std::int64_t>(), ::testing::ElementsAre(0, 6, 0, -10, 0, 0, -1, 3));
  for (std::size_t i = 0; i < 15; ++i) {
    const double exact = std::log(static_cast<double>(values[i]));
    EXPECT_NEAR(outputs[5].elements<float>()[i], exact, 1e-6 * std::abs(exact) + 1e-7);
    EXPECT_EQ(outputs[6].elements<float>()[i], std::min(std::max(values[i], 1.0F), 6.0F));
  }
}

// x[i, :, j] = v for i of [2, 1] and j of [3]: the indices stand apart, so v is [2, 3, 4].
TEST_P(NativeLowering, WritesByIndices) {
  const Tensor x = floats({5, 4, 6});
  const Tensor v = floats({2, 3, 4});
  const Tensor one = floats({});
  const auto outputs = run(R"(input x: float32[5, 4, 6]
input v: float32[2, 3, 4]
input one: float32[]
input i: int64[2, 1]
input j: int64[3]
y: float32[5, 4, 6] = aten.index_put.default(self=%x, indices=[%i, none, %j], values=%v)
z: float32[5, 4, 6] = aten.index_put.default(self=%x, indices=[none, none, %j], values=%one)
t: float32[4, 5, 6]{strides=[6, 24, 1]} = aten.transpose.int(self=%x, dim0=0, dim1=1)
k: float32[4, 5, 6]{strides=[6, 24, 1]} = aten.copy.default(self=%t, src=%one)
output %y "y"
output %z "z"
output %k "k"
)",
                           {x, v, one, whole({2, 1}, {-1, 0}), whole({3}, {2, 0, 5})});
  ASSERT_EQ(outputs.size(), 3U);
  std::vector<float> wanted(x.elements<float>().begin(), x.elements<float>().end());
  std::vector<float> filled = wanted;
  const std::size_t rows[] = {4, 0};
  const std::size_t columns[] = {2, 0, 5};
  for (std::size_t n = 0; n < 24; ++n) {
    wanted[(rows[n / 12] * 4 + n % 4) * 6 + columns[n / 4 % 3]] = v.elements<float>()[n];
  }
  for (std::size_t n = 0; n < 20; ++n) {
    for (const std::size_t column : columns) filled[6 * n + column] = one.elements<float>()[0];
  }
  EXPECT_THAT(outputs[0].elements<float>(), ::testing::ElementsAreArray(wanted));
  EXPECT_THAT(outputs[1].elements<float>(), ::testing::ElementsAreArray(filled));
  EXPECT_THAT(outputs[2].elements<float>(), ::testing::Each(one.elements<float>()[0]));
}

// Numbers for a tensor of integers come as fractions, and float32 would round them.
TEST_P(NativeLowering, NumbersAmongIntegersAreExact) {
  const std::vector<std::int32_t> narrow = {5, -7};
  const Tensor n = Tensor::from_bytes(DType::kInt32, Dims{2}, std::as_bytes(std::span(narrow))).value();
  const std::vector<std::uint8_t> truths = {0, 1, 0};
  const Tensor b = Tensor::from_bytes(DType::kBool, Dims{3}, std::as_bytes(std::span(truths))).value();
  const auto outputs = run(R"(input n: int32[2]
input w: int64[3]
input b: bool[3]
p: int32[4] = aten.pad.default(self=%n, pad=[1, 1], mode="constant", value=2147483647.0)
q: int64[4] = aten.pad.default(self=%w, pad=[0, 1], mode="constant", value=16777217.0)
h: int64[3] = aten.hardtanh.default(self=%w, min_val=-16777217.5, max_val=16777219.0)
m: bool[3] = aten.masked_fill.Scalar(self=%b, mask=%b, value=0.5)
output %p "p"
output %q "q"
output %h "h"
output %m "m"
)",
                           {n, whole({3}, {1, std::int64_t{1} << 40U, -(std::int64_t{1} << 40U)}), b});
  ASSERT_EQ(outputs.size(), 4U);
  EXPECT_THAT(outputs[0].elements<std::int32_t>(), ::testing::ElementsAre(2147483647, 5, -7, 2147483647));
  EXPECT_EQ(outputs[1].elements<std::int64_t>()[3], 16777217);
  EXPECT_THAT(outputs[2].elements<std::int64_t>(), ::testing::ElementsAre(1, 16777219, -16777217));
  EXPECT_THAT(outputs[3].elements<std::uint8_t>(), ::testing::ElementsAre(0, 1, 0));
}

TEST_P(NativeLowering, HardtanhHasBoundsOfItsOwn) {
  const Tensor x = floats({9});
  const auto outputs = run(R"(input x: float32[9]
h: float32[9] = aten.hardtanh.default(self=%x)
l: float32[9] = aten.hardtanh.default(self=%x, min_val=-0.5)
output %h "h"
output %l "l"
)",
                           {x});
  ASSERT_EQ(outputs.size(), 2U);
  for (std::size_t i = 0; i < 9; ++i) {
    const float value = x.elements<float>()[i];
    EXPECT_EQ(outputs[0].elements<float>()[i], std::min(std::max(value, -1.0F), 1.0F));
    EXPECT_EQ(outputs[1].elements<float>()[i], std::min(std::max(value, -0.5F), 1.0F));
  }
}

TEST_P(NativeLowering, ChainsInPlaceOnWhatNobodySees) {
  const Tensor x = floats({7});
  const auto outputs = run(R"(input x: float32[7]
a: float32[7] = aten.add.Tensor(self=%x, other=1)
b: float32[7] = aten.add_.Tensor(self=%a, other=%x)
c: float32[7] = aten.relu_.default(self=%b)
output %c "c"
)",
                           {x});
  ASSERT_EQ(outputs.size(), 1U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(outputs[0].elements<float>()[i], std::max(2 * x.elements<float>()[i] + 1, 0.0F), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Waves, NativeLowering, ::testing::Values(32, 64));

}  // namespace
}  // namespace kpt::native
