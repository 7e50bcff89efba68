#include "engines/native/native_executable.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/native/host_machine.h"
#include "ir/text.h"

namespace kpt::native {
namespace {

using ::testing::HasSubstr;
using testing::HostMachine;

class NativeExecutableTest : public ::testing::TestWithParam<int> {
 protected:
  NativeExecutableTest() : machine_(GetParam()), seed_(std::random_device{}()), random_(seed_) {}
  void SetUp() override {
    trace_ = std::make_unique<::testing::ScopedTrace>(__FILE__, __LINE__, fmt::format("seed {}", seed_));
  }

  Tensor floats(const Dims& dims) {
    std::normal_distribution<float> normal;
    const Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
    for (float& value : tensor.elements<float>()) value = normal(random_);
    return tensor;
  }
  static Tensor integers(const Dims& dims, const std::vector<std::int64_t>& values) {
    return Tensor::from_bytes(DType::kInt64, dims, std::as_bytes(std::span(values))).value();
  }
  Result<std::unique_ptr<NativeExecutable>> load(const std::string& text, const Weights& weights = {}) {
    // The machine is the fixture's.
    const std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &machine_);
    return NativeExecutable::load(std::make_shared<const ir::Graph>(ir::read_graph(text).value()), weights, machine);
  }
  std::vector<Tensor> run(const std::string& text, const std::vector<Tensor>& inputs) {
    const auto executable = load(text);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    std::vector<Tensor> outputs;
    RunContext context;
    const Status status = (*executable)->run(context, inputs, outputs, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return outputs;
  }

  HostMachine machine_;
  unsigned seed_;
  std::mt19937 random_;
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

// Grouped queries, a causal limit and a mask that varies by query, against sums in double.
TEST_P(NativeExecutableTest, AttentionOfGroupedQueries) {
  const auto outputs_of = [this](const std::string& extra, const std::vector<Tensor>& inputs) {
    return run(fmt::format(R"(kpt_graph 1
values q, k, v, m, o
input q: float32[2, 4, 5, 6]
input k: float32[2, 2, 7, 6]
input v: float32[2, 2, 7, 3]
input m: float32[5, 7]
o: float32[2, 4, 5, 3]{{strides=[60, 3, 12, 1]}} = aten.scaled_dot_product_attention.default(query=%q, key=%k, value=%v, {}scale=0.5, enable_gqa=true)
output %o "output"
)",
                           extra),
               inputs);
  };
  const std::vector<Tensor> inputs = {floats({2, 4, 5, 6}), floats({2, 2, 7, 6}), floats({2, 2, 7, 3}), floats({5, 7})};
  for (const bool causal : {false, true}) {
    const auto outputs = outputs_of(causal ? "is_causal=true, " : "attn_mask=%m, ", inputs);
    ASSERT_EQ(outputs.size(), 1U);
    const auto at = [](const Tensor& t, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
      return static_cast<double>(
          t.elements<float>()[static_cast<std::size_t>(((a * t.dims()[1] + b) * t.dims()[2] + c) * t.dims()[3] + d)]);
    };
    for (std::int64_t row = 0; row < 2 * 4 * 5; ++row) {
      const std::int64_t b = row / 20, h = row / 5 % 4, s = row % 5;
      double scores[7];
      double total = 0;
      for (std::int64_t t = 0; t < 7; ++t) {
        double score = 0;
        for (std::int64_t d = 0; d < 6; ++d) score += at(inputs[0], b, h, s, d) * at(inputs[1], b, h / 2, t, d);
        score *= 0.5;
        if (!causal) score += static_cast<double>(inputs[3].elements<float>()[static_cast<std::size_t>(s * 7 + t)]);
        total += scores[t] = causal && t > s ? 0.0 : std::exp(score);
      }
      for (std::int64_t d = 0; d < 3; ++d) {
        double wanted = 0;
        for (std::int64_t t = 0; t < 7; ++t) wanted += scores[t] / total * at(inputs[2], b, h / 2, t, d);
        ASSERT_NEAR(at(outputs[0], b, h, s, d), wanted, 1e-5) << causal << ": " << row << ", " << d;
      }
    }
  }
}

TEST_P(NativeExecutableTest, ProductsOfBroadcastBatches) {
  const std::vector<Tensor> inputs = {floats({3, 1, 4, 5}), floats({2, 5, 6})};
  const auto outputs = run(R"(kpt_graph 1
values a, b, o
input a: float32[3, 1, 4, 5]
input b: float32[2, 5, 6]
o: float32[3, 2, 4, 6] = aten.matmul.default(self=%a, other=%b)
output %o "output"
)",
                           inputs);
  ASSERT_EQ(outputs.size(), 1U);
  const auto a = inputs[0].elements<float>();
  const auto b = inputs[1].elements<float>();
  for (std::size_t i = 0; i < 144; ++i) {
    const std::size_t first = i / 48, second = i / 24 % 2, row = i / 6 % 4, column = i % 6;
    double wanted = 0;
    for (std::size_t k = 0; k < 5; ++k) {
      wanted +=
          static_cast<double>(a[(first * 4 + row) * 5 + k]) * static_cast<double>(b[(second * 5 + k) * 6 + column]);
    }
    ASSERT_NEAR(static_cast<double>(outputs[0].elements<float>()[i]), wanted, 1e-5) << i;
  }
}

// Indices, a view that needs a copy, parts joined; for two sets of sizes by one executable.
TEST_P(NativeExecutableTest, IndicesViewsAndSymbols) {
  const auto executable = load(R"(kpt_graph 1
symbol s0 in 2..9
input x: float32[s0, 3, 4]
input i: int64[2, 1]
size: int(s0) = aten.sym_size.int(self=%x, dim=0)
range: int64[s0] = aten.arange.default(end=%size)
taken: float32[2, s0, 4] = aten.index.Tensor(self=%x, indices=[%range, %i])
turned: float32[4, 3, s0]{strides=[1, 4, 12]} = aten.permute.default(self=%x, dims=[2, 1, 0])
flat: float32[4, 3 * s0] = aten.reshape.default(self=%turned, shape=[4, -1])
part: float32[4, 2]{strides=[3 * s0, 1], offset=1} = aten.slice.Tensor(self=%flat, dim=1, start=1, end=3)
both: float32[4, 3 * s0 + 2] = aten.cat.default(tensors=[%flat, %part], dim=-1)
large: bool[4, 3 * s0 + 2] = aten.gt.Scalar(self=%both, other=0.25)
kept: float32[4, 3 * s0 + 2] = aten.where.ScalarOther(condition=%large, self=%both, other=-1.0)
output %taken "taken"
output %kept "kept"
output %size "size"
)");
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  for (const std::int64_t size : {5, 2, 5}) {
    const std::vector<Tensor> inputs = {floats({size, 3, 4}), integers({2, 1}, {-1, 1})};
    const auto x = inputs[0].elements<float>();
    std::vector<Tensor> outputs;
    RunContext context;
    const Status status = (*executable)->run(context, inputs, outputs, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(outputs.size(), 3U);
    EXPECT_EQ(outputs[2].elements<std::int64_t>()[0], size);
    for (std::int64_t n = 0; n < 2 * size * 4; ++n) {
      const std::int64_t row = n / 4 % size;
      const std::int64_t middle = n / 4 / size == 0 ? 2 : 1;
      ASSERT_EQ(outputs[0].elements<float>()[static_cast<std::size_t>(n)],
                x[static_cast<std::size_t>((row * 3 + middle) * 4 + n % 4)]);
    }
    const std::int64_t width = 3 * size + 2;
    for (std::int64_t n = 0; n < 4 * width; ++n) {
      const std::int64_t column = n % width < 3 * size ? n % width : n % width - 3 * size + 1;
      const float value = x[static_cast<std::size_t>((column % size * 3 + column / size) * 4 + n / width)];
      ASSERT_EQ(outputs[1].elements<float>()[static_cast<std::size_t>(n)], value > 0.25F ? value : -1.0F) << n;
    }
  }
}

constexpr const char* kLookup = R"(kpt_graph 1
parameter w: float32[5, 4] "w"
input i: int64[3]
rows: float32[3, 4] = aten.embedding.default(weight=%w, indices=%i)
o: float32[3, 4] = aten.relu.default(self=%rows)
output %o "output"
)";

TEST_P(NativeExecutableTest, AnIndexOutsideItsTableNamesTheNode) {
  const Tensor weight = floats({5, 4});
  const auto executable = load(kLookup, {{"w", weight}});
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  std::vector<Tensor> outputs;
  RunContext context;
  const std::vector<Tensor> bad = {integers({3}, {0, 5, 1})};
  const Status status = (*executable)->run(context, bad, outputs, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "node 'rows' (aten.embedding.default): an index is outside the axis that it chooses from");
  const std::vector<Tensor> good = {integers({3}, {0, 4, 1})};
  ASSERT_TRUE((*executable)->run(context, good, outputs, nullptr).ok());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(outputs[0].elements<float>()[4 + i], std::max(weight.elements<float>()[16 + i], 0.0F));
  }
}

TEST_P(NativeExecutableTest, WeightsThatDoNotFitAreRefused) {
  EXPECT_EQ(load(kLookup).status().message(), "weight 'w' is missing");
  EXPECT_THAT(load(kLookup, {{"w", floats({4, 5})}}).status().message(), HasSubstr("is not what the graph takes"));
}

// Every launch told to fail in turn: the error names its node, and the next run is right with the same memory.
TEST_P(NativeExecutableTest, AfterALaunchThatFailedTheNextRunIsRight) {
  const Tensor weight = floats({5, 4});
  const auto executable = load(kLookup, {{"w", weight}});
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const std::vector<Tensor> inputs = {integers({3}, {2, 4, 1})};
  RunContext context;
  std::vector<Tensor> outputs;
  ASSERT_TRUE((*executable)->run(context, inputs, outputs, nullptr).ok());
  const std::size_t allocations = machine_.allocations;
  for (const char* node : {"'rows'", "'o'"}) {
    machine_.launches = 0;
    machine_.fail_launch = std::string_view(node) == "'o'" ? 2 : 1;
    const Status failed = (*executable)->run(context, inputs, outputs, nullptr);
    EXPECT_EQ(failed.code(), StatusCode::kKernelLaunch);
    EXPECT_THAT(failed.message(), HasSubstr(node));
    machine_.fail_launch = 0;
    ASSERT_TRUE((*executable)->run(context, inputs, outputs, nullptr).ok());
    EXPECT_EQ(outputs[0].elements<float>()[0], std::max(weight.elements<float>()[8], 0.0F));
  }
  EXPECT_EQ(machine_.allocations, allocations) << "a steady run takes no memory";
}

// Memory is just enough for two sets of weights and one arena: what one model keeps for its next run serves the other.
TEST_P(NativeExecutableTest, AModelLetsGoOfWhatAnotherNeeds) {
  const Tensor weights[] = {floats({5, 4}), floats({5, 4})};
  const std::unique_ptr<Executable> models[] = {load(kLookup, {{"w", weights[0]}}).value(),
                                                load(kLookup, {{"w", weights[1]}}).value()};
  const std::vector<Tensor> inputs = {integers({3}, {2, 4, 1})};
  const auto check = [&](int which) {
    RunContext context;
    std::vector<Tensor> outputs;
    const Status status = models[which]->run(context, inputs, outputs, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(outputs[0].elements<float>()[0], std::max(weights[which].elements<float>()[8], 0.0F));
  };
  check(0);
  machine_.limit_memory(*machine_.memory().reserved_bytes);
  for (const int which : {1, 0, 0, 1}) check(which);
  EXPECT_EQ(machine_.memory().out_of_memory_count, 0U);
  EXPECT_EQ(machine_.memory().retries, 3U);
  machine_.limit_memory(0);
  check(1);  // its arena is still there
  RunContext context;
  std::vector<Tensor> outputs;
  const Status status = models[0]->run(context, inputs, outputs, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.to_string(), HasSubstr("needed_bytes="));
  machine_.limit_memory(~std::size_t{0});
  check(0);
}

// Memory that a run without end uses is not given to the next one.
TEST_P(NativeExecutableTest, ARunWithoutEndKeepsItsMemory) {
  const auto executable = load(kLookup, {{"w", floats({5, 4})}});
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const std::vector<Tensor> inputs = {integers({3}, {2, 4, 1})};
  RunContext context;
  std::vector<Tensor> outputs;
  machine_.hangs = true;
  EXPECT_EQ((*executable)->run(context, inputs, outputs, nullptr).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(outputs.empty());
  const std::size_t allocations = machine_.allocations;
  EXPECT_EQ((*executable)->run(context, inputs, outputs, nullptr).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(machine_.allocations, allocations + 1) << "another frame";
  machine_.hangs = false;
  EXPECT_TRUE((*executable)->run(context, inputs, outputs, nullptr).ok());
  EXPECT_EQ(machine_.allocations, allocations + 1) << "a frame that came to rest";
}

TEST_P(NativeExecutableTest, LimitsAreLookedAtBetweenNodes) {
  const auto executable = load(kLookup, {{"w", floats({5, 4})}});
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const std::vector<Tensor> inputs = {integers({3}, {2, 4, 1})};
  std::vector<Tensor> outputs;
  RunContext late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_EQ((*executable)->run(late, inputs, outputs, nullptr).code(), StatusCode::kDeadlineExceeded);
  const std::atomic<bool> cancelled = true;
  RunContext stopped;
  stopped.cancelled = &cancelled;
  EXPECT_EQ((*executable)->run(stopped, inputs, outputs, nullptr).code(), StatusCode::kCancelled);
  EXPECT_EQ(machine_.launches, 0U);
}

struct ConvolutionCase {
  std::int64_t images, channels, filters, groups;
  std::int64_t size[2], kernel[2], stride[2], padding[2], dilation[2];
  bool bias;
};

// Against sums in double: windows that overlap or not, padding, gaps, groups of one and of several channels.
TEST_P(NativeExecutableTest, Convolutions) {
  const ConvolutionCase cases[] = {
      {1, 3, 5, 1, {8, 8}, {4, 4}, {4, 4}, {0, 0}, {1, 1}, true},   // patches
      {2, 4, 6, 1, {7, 9}, {3, 3}, {2, 1}, {1, 2}, {1, 1}, false},  // as in ResNet
      {2, 6, 6, 6, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true},   // one channel a group
      {2, 4, 6, 2, {7, 8}, {3, 2}, {1, 2}, {2, 0}, {2, 3}, true},
      {1, 2, 3, 1, {1, 6}, {1, 3}, {1, 1}, {0, 1}, {1, 1}, false},
  };
  for (const ConvolutionCase& one : cases) {
    std::int64_t out[2];
    for (int axis = 0; axis < 2; ++axis) {
      const std::int64_t window = one.dilation[axis] * (one.kernel[axis] - 1) + 1;
      out[axis] = (one.size[axis] + 2 * one.padding[axis] - window) / one.stride[axis] + 1;
    }
    const std::int64_t each = one.channels / one.groups;
    const Tensor x = floats({one.images, one.channels, one.size[0], one.size[1]});
    const Tensor w = floats({one.filters, each, one.kernel[0], one.kernel[1]});
    const Tensor b = floats({one.filters});
    const std::string text = fmt::format(
        R"(kpt_graph 1
input x: float32[{}, {}, {}, {}]
input w: float32[{}, {}, {}, {}]
input b: float32[{}]
o: float32[{}, {}, {}, {}] = aten.conv2d.default(input=%x, weight=%w, {}stride=[{}, {}], padding=[{}, {}], dilation=[{}, {}], groups={})
output %o "output"
)",
        one.images, one.channels, one.size[0], one.size[1], one.filters, each, one.kernel[0], one.kernel[1],
        one.filters, one.images, one.filters, out[0], out[1], one.bias ? "bias=%b, " : "", one.stride[0], one.stride[1],
        one.padding[0], one.padding[1], one.dilation[0], one.dilation[1], one.groups);
    SCOPED_TRACE(text);
    const auto outputs = run(text, {x, w, b});
    ASSERT_EQ(outputs.size(), 1U);
    std::size_t place = 0;
    for (std::int64_t n = 0; n < one.images; ++n) {
      for (std::int64_t f = 0; f < one.filters; ++f) {
        for (std::int64_t at = 0; at < out[0] * out[1]; ++at) {
          double sum = one.bias ? b.elements<float>()[static_cast<std::size_t>(f)] : 0.0;
          for (std::int64_t k = 0; k < each * one.kernel[0] * one.kernel[1]; ++k) {
            const std::int64_t c = k / (one.kernel[0] * one.kernel[1]);
            const std::int64_t row =
                at / out[1] * one.stride[0] - one.padding[0] + k / one.kernel[1] % one.kernel[0] * one.dilation[0];
            const std::int64_t column =
                at % out[1] * one.stride[1] - one.padding[1] + k % one.kernel[1] * one.dilation[1];
            if (row < 0 || row >= one.size[0] || column < 0 || column >= one.size[1]) continue;
            const std::int64_t channel = f / (one.filters / one.groups) * each + c;
            const std::int64_t from = ((n * one.channels + channel) * one.size[0] + row) * one.size[1] + column;
            sum += static_cast<double>(x.elements<float>()[static_cast<std::size_t>(from)]) *
                   w.elements<float>()[static_cast<std::size_t>(f * each * one.kernel[0] * one.kernel[1] + k)];
          }
          ASSERT_NEAR(outputs[0].elements<float>()[place++], sum, 2e-5);
        }
      }
    }
  }
}

TEST_P(NativeExecutableTest, ConvolutionsOverOneAxisAndThoseThatDoNotFit) {
  const Tensor x = floats({1, 2, 5});
  const Tensor w = floats({1, 2, 3});
  const auto outputs = run(R"(kpt_graph 1
input x: float32[1, 2, 5]
input w: float32[1, 2, 3]
o: float32[1, 1, 3] = aten.conv1d.default(input=%x, weight=%w)
output %o "output"
)",
                           {x, w});
  double sum = 0;
  for (std::size_t c = 0; c < 2; ++c) {
    for (std::size_t k = 0; k < 3; ++k) {
      sum += static_cast<double>(x.elements<float>()[c * 5 + 2 + k]) * w.elements<float>()[c * 3 + k];
    }
  }
  EXPECT_NEAR(outputs.at(0).elements<float>()[2], sum, 1e-5);
  for (const char* const call :
       {"float32[1, 1, 5] = aten.conv1d.default(input=%x, weight=%w)",
        "float32[1, 1, 3] = aten.conv1d.default(input=%x, weight=%w, groups=2)",
        "float32[1, 1, 3] = aten.conv1d.default(input=%x, weight=%w, stride=0)",
        "float32[1, 1, 3] = aten.convolution.default(input=%x, weight=%w, bias=none, stride=[1], padding=[0], "
        "dilation=[1], transposed=true, output_padding=[0], groups=1)"}) {
    SCOPED_TRACE(call);
    EXPECT_EQ(load(fmt::format("kpt_graph 1\ninput x: float32[1, 2, 5]\ninput w: float32[1, 2, 3]\no: {}\noutput %o "
                               "\"output\"\n",
                               call))
                  .status()
                  .code(),
              StatusCode::kUnsupported);
  }
}

TEST_P(NativeExecutableTest, RunningSums) {
  const Tensor x = floats({3, 37, 2});
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 10; ++i) numbers.push_back((std::int64_t{1} << 40U) + i * i);
  const auto outputs = run(R"(kpt_graph 1
input x: float32[3, 37, 2]
input n: int64[10]
o: float32[3, 37, 2] = aten.cumsum.default(self=%x, dim=1)
m: int64[10] = aten.cumsum.default(self=%n, dim=-1)
kept: bool[10] = aten.gt.Scalar(self=%n, other=0)
c: int64[10] = aten.cumsum.default(self=%kept, dim=0)
output %o "sums"
output %m "whole"
output %c "counts"
)",
                           {x, integers({10}, numbers)});
  ASSERT_EQ(outputs.size(), 3U);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 2; ++column) {
      double sum = 0;
      for (std::size_t at = 0; at < 37; ++at) {
        const std::size_t place = (row * 37 + at) * 2 + column;
        sum += x.elements<float>()[place];
        ASSERT_NEAR(outputs[0].elements<float>()[place], sum, 1e-5);
      }
    }
  }
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < 10; ++at) {
    sum += numbers[at];
    EXPECT_EQ(outputs[1].elements<std::int64_t>()[at], sum);
    EXPECT_EQ(outputs[2].elements<std::int64_t>()[at], static_cast<std::int64_t>(at) + 1);
  }
}

// All launches are queued by then, and the device never comes to an end.
TEST_P(NativeExecutableTest, ACancellationIsHeardWhileTheDeviceWorks) {
  const auto executable = load(kLookup, {{"w", floats({5, 4})}});
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const std::vector<Tensor> inputs = {integers({3}, {2, 4, 1})};
  machine_.hangs = true;
  std::atomic<bool> cancelled = false;
  RunContext context;
  context.cancelled = &cancelled;
  std::thread canceller([&cancelled] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled = true;
  });
  std::vector<Tensor> outputs;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ((*executable)->run(context, inputs, outputs, nullptr).code(), StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  canceller.join();
  RunContext limited;  // somebody listens for both
  std::atomic<bool> never = false;
  limited.cancelled = &never;
  limited.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
  EXPECT_EQ((*executable)->run(limited, inputs, outputs, nullptr).code(), StatusCode::kDeadlineExceeded);
}

constexpr const char* kFreeRows = R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0, 4]
o: float32[s0, 4] = aten.mul.Tensor(self=%x, other=2)
output %o "output"
)";

// Kernels of a new shape may take minutes to compile.
TEST_P(NativeExecutableTest, OtherShapesRunWhileOneIsMade) {
  const auto executable = load(kFreeRows);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const auto run_rows = [&](std::int64_t rows) {
    RunContext context;
    std::vector<Tensor> outputs;
    return (*executable)->run(context, std::vector{floats({rows, 4})}, outputs, nullptr);
  };
  ASSERT_TRUE(run_rows(3).ok());
  const Tensor slow_input = floats({5, 4});
  std::promise<void> entered;
  std::promise<void> leave;
  std::future<void> left = leave.get_future();
  std::atomic<bool> first = true;
  std::atomic<bool> others_waited = false;
  machine_.before_load = [&] {
    if (!first.exchange(false)) return;
    entered.set_value();
    others_waited = left.wait_for(std::chrono::seconds(20)) == std::future_status::timeout;
  };
  std::thread slow([&] {
    RunContext context;
    std::vector<Tensor> outputs;
    EXPECT_TRUE((*executable)->run(context, std::vector{slow_input}, outputs, nullptr).ok());
  });
  entered.get_future().wait();
  EXPECT_TRUE(run_rows(3).ok()) << "one that is known";
  EXPECT_TRUE(run_rows(7).ok()) << "another new one";
  leave.set_value();
  slow.join();
  EXPECT_FALSE(others_waited);
}

TEST_P(NativeExecutableTest, SizesThatNoInputHasAreRefusedWhenItIsLoaded) {
  const auto load_rows = [&](const std::string& rows) {
    return load("kpt_graph 1\nsymbol s0 in 1..64\ninput x: float32[" + rows + ", 4]\no: float32[" + rows +
                ", 4] = aten.mul.Tensor(self=%x, other=2)\noutput %o \"output\"\n");
  };
  EXPECT_TRUE(load_rows("s0 * 2").ok()) << "such a size shows s0";
  const Status status = load_rows("s0 * s0").status();
  EXPECT_EQ(status.code(), StatusCode::kModelPreparation) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("the size s0 of 'x' is no input's own"));
  EXPECT_TRUE(load(kFreeRows).ok());
}

TEST_P(NativeExecutableTest, SizesThatTheModelAssertsNotToHaveDoNotRun) {
  const auto executable = load(R"(kpt_graph 1
symbol s0 in 1..64
input x: float32[s0]
size: int(s0) = aten.sym_size.int(self=%x, dim=0)
eq: bool() = _operator.eq(a=%size, b=3)
no: bool() = torch.sym_not(a=%eq)
() = aten._assert_scalar.default(self=%no, assert_msg="s0 is not 3") name="assertion"
o: float32[s0] = aten.mul.Tensor(self=%x, other=2)
output %o "output"
)");
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  RunContext context;
  std::vector<Tensor> outputs;
  const Status refused = (*executable)->run(context, std::vector{floats({3})}, outputs, nullptr);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("'assertion': s0 is not 3"));
  const Tensor x = floats({4});
  ASSERT_TRUE((*executable)->run(context, std::vector{x}, outputs, nullptr).ok());
  EXPECT_EQ(outputs[0].elements<float>()[3], 2 * x.elements<float>()[3]);
}

// The weights' memory and the host's are not given back while the device may still copy.
TEST_P(NativeExecutableTest, WeightsThatWereNotSeenToArriveStay) {
  const Tensor weight = floats({5, 4});
  machine_.hangs = true;
  EXPECT_EQ(load(kLookup, {{"w", weight}}).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(weight.buffer().use_count(), 2) << "kept for ever";
  machine_.hangs = false;
  EXPECT_TRUE(load(kLookup, {{"w", weight}}).ok());
  EXPECT_EQ(weight.buffer().use_count(), 2);
}

TEST_P(NativeExecutableTest, OutputsMayStayOnTheDeviceAndGoInAgain) {
  const auto executable = load(R"(kpt_graph 1
input x: float32[2, 3]
o: float32[2, 3] = aten.mul.Tensor(self=%x, other=2)
output %o "output"
)");
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const Tensor x = floats({2, 3});
  RunContext context;
  context.outputs_on_device = true;
  std::vector<Tensor> first;
  ASSERT_TRUE((*executable)->run(context, std::vector{x}, first, nullptr).ok());
  EXPECT_EQ(first[0].device(), "host:0");
  std::vector<Tensor> second;
  context.outputs_on_device = false;
  ASSERT_TRUE((*executable)->run(context, first, second, nullptr).ok());
  EXPECT_EQ(second[0].device(), "cpu");
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(second[0].elements<float>()[i], 4 * x.elements<float>()[i]);
}

// What the passes make of a float16 model, beside the same in float32.
TEST_P(NativeExecutableTest, OperatorsOfOursTakeFloat16) {
  std::string text = R"(kpt_graph 1
input x: float32[2, 4, 6, 8]
input t: float32[6, 8]
input w: float32[32, 32]
input b: float32[32]
xh: float16[2, 4, 6, 8] = aten.to.dtype(self=%x, dtype=dtype(float16))
th: float16[6, 8] = aten.to.dtype(self=%t, dtype=dtype(float16))
wh: float16[32, 32] = aten.to.dtype(self=%w, dtype=dtype(float16))
bh: float16[32] = aten.to.dtype(self=%b, dtype=dtype(float16))
turned: float16[2, 4, 6, 8] = kpt.rotary.default(input=%xh, cos=%th, sin=%th)
heads: float16[2, 6, 4, 8] = kpt.attention.default(query=%turned, key=%xh, value=%xh, mask=none, scale=0.3, causal=true)
flat: float16[2, 6, 32] = aten.view.default(self=%heads, size=[2, 6, 32])
product: float16[2, 6, 32] = kpt.linear.default(input=%flat, weight=%wh, bias=%bh, residual=%flat, activation="gelu")
normed: float16[2, 6, 32], sum: float16[2, 6, 32] = kpt.add_norm.default(input=%product, residual=%flat, weight=%bh, bias=none, epsilon=1e-05, kind="rms") name="norm"
gated: float16[2, 6, 16] = kpt.glu.default(input=%normed, activation="silu")
o: float32[2, 6, 16] = aten.to.dtype(self=%gated, dtype=dtype(float32))
s: float32[2, 6, 32] = aten.to.dtype(self=%sum, dtype=dtype(float32))
output %o "output"
output %s "sum"
)";
  const std::vector<Tensor> inputs = {floats({2, 4, 6, 8}), floats({6, 8}), floats({32, 32}), floats({32})};
  const auto half = run(text, inputs);
  for (std::size_t at = 0; (at = text.find("float16")) != std::string::npos;) text.replace(at, 7, "float32");
  const auto single = run(text, inputs);
  for (std::size_t output = 0; output < 2; ++output) {
    const auto found = half.at(output).elements<float>();
    const auto wanted = single.at(output).elements<float>();
    double apart = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto close = 0.03F + std::abs(wanted[i]) / 100;
      ASSERT_NEAR(found[i], wanted[i], close) << output << ": " << i;
      apart = std::max(apart, std::abs(static_cast<double>(found[i] - wanted[i])));
    }
    EXPECT_GT(apart, 1e-5) << "it was float32 all the same";
  }
}

INSTANTIATE_TEST_SUITE_P(Waves, NativeExecutableTest, ::testing::Values(32, 64));

}  // namespace
}  // namespace kpt::native
