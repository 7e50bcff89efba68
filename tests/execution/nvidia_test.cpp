// What only a GPU has: runs that are captured, results that stay there. Its memory: nvidia_memory_test.cpp.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "api/model_loading.h"
#include "benchmark/profile.h"
#include "fp8_checkpoint.h"
#include "ir/text.h"
#include "nvidia_runs.h"
#include "own_node_graph.h"
#include "passes/weight_values.h"

namespace kpt::execution_test {
namespace {

using testing::HasSubstr;

TEST(Nvidia, CapturedRunsGiveTheBitsOfTheFirst) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = load_here(make_bert(seed));
  Executable& executable = model->executable();
  EXPECT_THAT(executable.describe_runs(), HasSubstr("0 captured"));
  const std::vector<Tensor> first = make_inputs(model->graph(), seed);
  const std::vector<Tensor> second = make_inputs(model->graph(), seed + 1);
  const std::vector<Tensor> plain_first = run_once(executable, first);
  const std::vector<Tensor> captured_second = run_once(executable, second);
  EXPECT_THAT(executable.describe_runs(), HasSubstr("1 captured"));
  const std::vector<Tensor> captured_first = run_once(executable, first);
  ASSERT_EQ(plain_first.size(), captured_first.size());
  for (std::size_t index = 0; index < plain_first.size(); ++index) {
    EXPECT_TRUE(same_bytes(plain_first[index], captured_first[index])) << index;
    EXPECT_FALSE(same_bytes(plain_first[index], captured_second[index])) << index;
  }
}

TEST(Nvidia, ResultsMayStayAndBeTakenAgain) {
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_sum(3, 5));
  const Tensor left = filled({3, 1}, 2);
  const Tensor right = filled({1, 5}, 4);
  for (int round = 0; round < 3; ++round) {
    const std::vector<Tensor> stayed = run_once(model->executable(), {left, right}, true);
    EXPECT_EQ(stayed[0].device(), "nvidia:0");
    const auto next = load_here(make_sum(3, 5));
    // The device's memory as an input, and one that was uploaded by hand.
    const Tensor uploaded = placed.device->upload(filled({1, 5}, 0.5F)).value();
    const Tensor column = Tensor::unchecked(stayed[0].buffer(), DType::kFloat32, {3, 1}, {5, 1}, 0);
    const std::vector<Tensor> sums = run_once(next->executable(), {column, uploaded});
    for (const float element : sums[0].elements<float>()) EXPECT_EQ(element, 6.5F);
    EXPECT_EQ(placed.device->download(stayed[0]).value().elements<float>()[14], 6.0F);
  }
}

// One query and many may go to different kernels.
class NvidiaMask : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {};

TEST_P(NvidiaMask, RowsThatMayLookNowhereAreZero) {
  const auto& [dtype, queries] = GetParam();
  GraphBuilder builder(std::random_device{}());
  const std::vector<std::int64_t> sizes = {2, 4, queries, 64};
  const auto query = builder.input("query", dtype, sizes);
  const auto key = builder.input("key", dtype, sizes);
  const auto value = builder.input("value", dtype, sizes);
  const auto mask = builder.input("mask", DType::kBool, {2, 1, queries, queries});
  builder.output(builder.node(
      "kpt.attention.default",
      {{"query", query}, {"key", key}, {"value", value}, {"mask", mask}, {"scale", {0.125}}, {"causal", {false}}},
      {{dtype, {2, queries, 4, 64}}})[0]);
  std::vector<Tensor> inputs = builder.draw_inputs();
  const auto keys = static_cast<std::size_t>(queries);
  const std::size_t last = keys - 1;
  for (std::size_t column = 0; column < keys; ++column) inputs[3].elements<std::uint8_t>()[last * keys + column] = 0;
  const auto model = load_here(std::move(builder.model));
  EXPECT_THAT(model->executable().plan().at(0).how, HasSubstr("not flash: it takes no mask"));
  const std::vector<Tensor> outputs = run_once(model->executable(), inputs);
  const auto row_bytes = static_cast<std::size_t>(4 * 64) * element_bytes(dtype);
  const auto* row = static_cast<const std::uint8_t*>(outputs[0].data()) + last * row_bytes;
  for (std::size_t byte = 0; byte < row_bytes; ++byte) {
    const std::size_t width = element_bytes(dtype);
    const int bits = byte % width == width - 1 ? 0x7f : 0xff;  // the sign of zero is free
    ASSERT_EQ(row[byte] & bits, 0) << byte;
  }
}

INSTANTIATE_TEST_SUITE_P(Nvidia, NvidiaMask,
                         testing::Combine(testing::Values(DType::kFloat32, DType::kBFloat16),
                                          testing::Values(std::int64_t{1}, std::int64_t{16}, std::int64_t{80})));

double bfloat(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

// A number of three mantissa bits is off by a sixteenth at most, one of two by an eighth; products of the weight's own
// numbers are exact.
void expect_fp8_products(const std::string& target, double off) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << target << ", seed " << seed);
  std::mt19937_64 random(seed);
  for (const auto& [rows, outer, inner] : {std::array<std::int64_t, 3>{1, 16, 16}, {7, 48, 96}, {130, 32, 256}}) {
    GraphBuilder builder(seed);
    const auto input = builder.input("input", DType::kBFloat16, {rows, inner});
    const auto weight = builder.weight("weight", DType::kFloat8E4M3FN, {outer, inner});
    const auto scale = builder.weight("scale", DType::kFloat32, {outer});
    const auto bias = builder.weight("bias", DType::kFloat32, {outer});
    builder.output(builder.node(target,
                                {{"input", input},
                                 {"weight", weight},
                                 {"scale", scale},
                                 {"bias", bias},
                                 {"residual", {}},
                                 {"activation", {std::string("relu")}}},
                                {{DType::kBFloat16, {rows, outer}}})[0]);
    const Tensor codes = builder.model.weights.at("weight");
    for (std::uint8_t& code : codes.elements<std::uint8_t>()) code = static_cast<std::uint8_t>(random() % 0x70);
    const std::vector<double> weights = read_as_double(codes).value();
    const auto scales = builder.model.weights.at("scale").elements<float>();
    const auto biases = builder.model.weights.at("bias").elements<float>();
    const std::vector<Tensor> inputs = builder.draw_inputs();
    const auto model = load_here(std::move(builder.model));
    const std::vector<Tensor> outputs = run_once(model->executable(), inputs);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t n = 0; n < outer; ++n) {
        double sum = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          const double product =
              bfloat(inputs[0].elements<std::uint16_t>()[static_cast<std::size_t>(row * inner + k)]) *
              weights[static_cast<std::size_t>(n * inner + k)] *
              static_cast<double>(scales[static_cast<std::size_t>(n)]);
          sum += product;
          magnitude += std::abs(product);
        }
        sum += static_cast<double>(biases[static_cast<std::size_t>(n)]);
        const double wanted = std::max(sum, 0.0);
        const double found = bfloat(outputs[0].elements<std::uint16_t>()[static_cast<std::size_t>(row * outer + n)]);
        ASSERT_NEAR(found, wanted, off * magnitude + std::abs(sum) / 64 + 1e-3) << row << ", " << n;
      }
    }
  }
}

TEST(Nvidia, Fp8ProductsAreWhatTheyMean) {
  expect_fp8_products("kpt.linear_fp8.default", 0.07);
  expect_fp8_products("kpt.linear_fp8_e5m2.default", 0.14);
}

// Numbers of the input are off by half of their row's scale at most; sums of int8 products are exact.
TEST(Nvidia, Int8ProductsAreWhatTheyMean) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const auto& [rows, outer, inner] :
       {std::array<std::int64_t, 3>{1, 16, 16}, {7, 48, 96}, {16, 8, 8}, {17, 24, 40}, {130, 32, 256}, {5, 10, 13}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      GraphBuilder builder(seed);
      const auto input = builder.input("input", dtype, {rows, inner});
      const auto added = builder.input("added", dtype, {rows, outer});
      const auto weight = builder.weight("weight", DType::kInt8, {outer, inner});
      const auto scale = builder.weight("scale", DType::kFloat32, {outer});
      const auto bias = builder.weight("bias", DType::kFloat32, {outer});
      builder.output(builder.node("kpt.linear_int8.default",
                                  {{"input", input},
                                   {"weight", weight},
                                   {"scale", scale},
                                   {"bias", bias},
                                   {"residual", added},
                                   {"activation", {std::string("relu")}}},
                                  {{dtype, {rows, outer}}})[0]);
      std::mt19937_64 random(seed);
      for (std::int8_t& code : builder.model.weights.at("weight").elements<std::int8_t>()) {
        code = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
      }
      const std::vector<double> weights = read_as_double(builder.model.weights.at("weight")).value();
      const std::vector<double> scales = read_as_double(builder.model.weights.at("scale")).value();
      const std::vector<double> biases = read_as_double(builder.model.weights.at("bias")).value();
      const std::vector<Tensor> inputs = builder.draw_inputs();
      const std::vector<double> numbers = read_as_double(inputs[0]).value();
      const std::vector<double> residuals = read_as_double(inputs[1]).value();
      const auto model = load_here(std::move(builder.model));
      for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
        const std::vector<double> found = read_as_double(run_once(model->executable(), inputs)[0]).value();
        for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
          const double* from = numbers.data() + row * static_cast<std::size_t>(inner);
          double greatest = 0;
          for (std::int64_t k = 0; k < inner; ++k) greatest = std::max(greatest, std::abs(from[k]));
          for (std::size_t n = 0; n < static_cast<std::size_t>(outer); ++n) {
            double sum = 0;
            double magnitude = 0;
            for (std::size_t k = 0; k < static_cast<std::size_t>(inner); ++k) {
              const double factor = weights[n * static_cast<std::size_t>(inner) + k] * scales[n];
              sum += from[k] * factor;
              magnitude += std::abs(factor);
            }
            const std::size_t place = row * static_cast<std::size_t>(outer) + n;
            const double wanted = std::max(sum + biases[n] + residuals[place], 0.0);
            ASSERT_NEAR(found[place], wanted, 0.51 * greatest / 127 * magnitude + std::abs(wanted) / 128 + 1e-4)
                << to_string(dtype) << ' ' << rows << 'x' << outer << 'x' << inner << ": " << row << ", " << n;
          }
        }
      }
    }
  }
}

TEST(Nvidia, ProductsAndConvolutionsTakeFloat16) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh"}) {
    std::vector<std::vector<double>> results;
    for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
      GraphBuilder builder(seed);
      const auto x = builder.input("x", dtype, {7, 48});
      const auto linear = builder.node("kpt.linear.default",
                                       {{"input", x},
                                        {"weight", builder.weight("w", dtype, {40, 48})},
                                        {"bias", builder.weight("b", dtype, {40})},
                                        {"residual", {}},
                                        {"activation", {activation}}},
                                       {{dtype, {7, 40}}});
      builder.output(linear[0]);
      const auto image = builder.input("image", dtype, {2, 8, 6, 6});
      const ir::Argument one = {ir::List{ir::ElementKind::kInt, {{std::int64_t{1}}, {std::int64_t{1}}}}};
      builder.output(builder.node("kpt.conv2d.default",
                                  {{"input", image},
                                   {"weight", builder.weight("filters", dtype, {16, 8, 3, 3})},
                                   {"bias", builder.weight("offset", dtype, {16})},
                                   {"residual", {}},
                                   {"stride", one},
                                   {"padding", one},
                                   {"dilation", one},
                                   {"groups", {std::int64_t{1}}},
                                   {"activation", {activation}}},
                                  {{dtype, {2, 16, 6, 6}}})[0]);
      const std::vector<Tensor> inputs = builder.draw_inputs();
      const auto model = load_here(std::move(builder.model));
      for (const Tensor& output : run_once(model->executable(), inputs)) {
        EXPECT_EQ(output.dtype(), dtype);
        results.push_back(read_as_double(output).value());
      }
    }
    for (std::size_t output = 0; output < 2; ++output) {
      for (std::size_t index = 0; index < results[output].size(); ++index) {
        ASSERT_NEAR(results[output][index], results[output + 2][index], 0.05) << activation << ": " << index;
      }
    }
  }
}

// Inputs and results of both types around a weight of bfloat16, as narrow_results makes them.
TEST(Nvidia, ProductsTakeAndGiveEitherType) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kOuter = 40;
  constexpr std::int64_t kInner = 72;
  for (const auto& [from, to] : {std::pair(DType::kFloat32, DType::kBFloat16), {DType::kBFloat16, DType::kFloat32}}) {
    for (const std::string activation : {"none", "relu", "gelu", "gelu_tanh"}) {
      SCOPED_TRACE(testing::Message() << to_string(from) << " to " << to_string(to) << ", " << activation);
      GraphBuilder builder(seed);
      const auto input = builder.input("input", from, {kRows, kInner});
      const auto weight = builder.weight("weight", DType::kBFloat16, {kOuter, kInner});
      const auto bias = builder.weight("bias", to, {kOuter});
      builder.output(builder.node(
          "kpt.linear.default",
          {{"input", input}, {"weight", weight}, {"bias", bias}, {"residual", {}}, {"activation", {activation}}},
          {{to, {kRows, kOuter}}})[0]);
      const std::vector<double> weights = read_as_double(builder.model.weights.at("weight")).value();
      const std::vector<double> biases = read_as_double(builder.model.weights.at("bias")).value();
      const std::vector<Tensor> inputs = builder.draw_inputs();
      const std::vector<double> given = read_as_double(inputs[0]).value();
      const auto model = load_here(std::move(builder.model));
      const std::vector<double> found = read_as_double(run_once(model->executable(), inputs)[0]).value();
      for (std::size_t at = 0; at < found.size(); ++at) {
        double sum = biases[at % kOuter];
        double magnitude = std::abs(sum);
        for (std::size_t k = 0; k < kInner; ++k) {
          const double product = given[at / kOuter * kInner + k] * weights[at % kOuter * kInner + k];
          sum += product;
          magnitude += std::abs(product);
        }
        double wanted = sum;
        if (activation == "relu") wanted = std::max(sum, 0.0);
        if (activation.starts_with("gelu")) wanted = 0.5 * sum * std::erfc(-sum / std::sqrt(2.0));
        const double slack = from == DType::kFloat32 ? magnitude / 256 : magnitude * 1e-5;  // the input is rounded
        const double curve = activation == "gelu_tanh" ? 1e-3 : 0;                          // the other GELU
        ASSERT_NEAR(found[at], wanted, slack + curve + (to == DType::kBFloat16 ? std::abs(wanted) / 128 : 0)) << at;
      }
    }
  }
}

// Many at once, each with its own numbers, strided ones too; what was given is let go before the copies are over.
TEST(Nvidia, CopiesThatAreNotWaitedForAreRightWhenTheirEventIsDone) {
  PlacedDevice placed = find_device_under_test();
  Device& device = *placed.device;
  constexpr std::int64_t kRows = 3000;
  constexpr std::int64_t kColumns = 1001;
  const auto draw = [](int which) {
    Tensor tensor = Tensor::empty(DType::kFloat32, std::vector<std::int64_t>{kRows, kColumns}).value();
    const auto elements = tensor.elements<float>();
    for (std::size_t at = 0; at < elements.size(); ++at)
      elements[at] = static_cast<float>(at % 4093) + 5000.0F * static_cast<float>(which);
    return tensor;
  };
  constexpr int kCount = 12;
  std::vector<Event> events(kCount);
  std::vector<Tensor> there;
  for (int which = 0; which < kCount; ++which) {
    Tensor host = draw(which);
    if (which % 2 == 1) {  // turned: columns first
      host = Tensor::unchecked(host.buffer(), DType::kFloat32, {kColumns, kRows}, {1, kColumns}, 0);
    }
    auto copy = device.begin_upload(host, &events[static_cast<std::size_t>(which)]);
    ASSERT_TRUE(copy.ok()) << copy.status().to_string();
    there.push_back(std::move(copy).value());
  }
  std::vector<Event> back_events(kCount);
  std::vector<Tensor> back;
  for (int which = 0; which < kCount; ++which) {
    const auto place = static_cast<std::size_t>(which);
    ASSERT_TRUE(events[place].wait().ok());
    EXPECT_TRUE(events[place].done());
    Event copied;
    auto again = device.begin_copy(device, there[place], &copied);  // to itself
    ASSERT_TRUE(again.ok()) << again.status().to_string();
    there[place] = Tensor();
    ASSERT_TRUE(copied.wait().ok());
    EXPECT_EQ(again->device(), "nvidia:0");
    auto host = device.begin_download(*again, &back_events[place]);
    ASSERT_TRUE(host.ok()) << host.status().to_string();
    back.push_back(std::move(host).value());
  }
  for (int which = 0; which < kCount; ++which) {
    const auto place = static_cast<std::size_t>(which);
    ASSERT_TRUE(back_events[place].wait().ok());
    const Tensor wanted = draw(which);
    const Tensor dense = back[place].contiguous_copy().value();
    const auto found = dense.elements<float>();
    const bool turned = which % 2 == 1;
    for (std::int64_t row = 0; row < kRows; row += 7) {
      for (std::int64_t column = 0; column < kColumns; ++column) {
        const auto at = static_cast<std::size_t>(turned ? column * kRows + row : row * kColumns + column);
        ASSERT_EQ(found[at], wanted.elements<float>()[static_cast<std::size_t>(row * kColumns + column)])
            << which << ": " << row << ", " << column;
      }
    }
  }
}

// What comes back lies in pinned memory, and goes up again from there as it is. From the host, over the host.
TEST(Nvidia, ResultsInPinnedMemoryAndTensorsOfTheHostAreCopiedToo) {
  PlacedDevice placed = find_device_under_test();
  const Environment environment = Environment::from_process();
  const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
  const PlacedDevice cpu = find_runnable_device("cpu", context).value();
  Event event;
  const Tensor given = filled({1000, 77}, 3.5F);
  const auto up = placed.device->begin_copy(*cpu.device, given, &event);
  ASSERT_TRUE(up.ok()) << up.status().to_string();
  ASSERT_TRUE(event.wait().ok());
  EXPECT_EQ(up->device(), "nvidia:0");
  const auto down = cpu.device->begin_copy(*placed.device, *up, &event);
  ASSERT_TRUE(down.ok());
  ASSERT_TRUE(event.wait().ok());
  EXPECT_EQ(down->device(), "cpu");
  EXPECT_TRUE(same_bytes(*down, given));
  const auto pinned = placed.device->begin_download(*up, &event);
  ASSERT_TRUE(pinned.ok() && event.wait().ok());
  const auto again = placed.device->begin_upload(*pinned, &event);
  ASSERT_TRUE(again.ok() && event.wait().ok());
  EXPECT_TRUE(same_bytes(placed.device->download(*again).value(), given));
}

// Checkpoints with one operand in E5M2, by libtorch's product where it has one and widened elsewhere.
TEST(Nvidia, ScaledProductsTakeBothTypesOfFp8) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr std::int64_t kRows = 32;
  constexpr std::int64_t kInner = 64;
  constexpr std::int64_t kColumns = 48;
  for (const char* self : {"float8_e4m3fn", "float8_e5m2"}) {
    for (const char* mat2 : {"float8_e4m3fn", "float8_e5m2"}) {
      for (const bool rows : {false, true}) {
        SCOPED_TRACE(fmt::format("{} by {}, scales {}", self, mat2, rows ? "of rows and columns" : "of the whole"));
        const std::string scale_a = rows ? fmt::format("[{}, 1]", kRows) : "[]";
        const std::string scale_b = rows ? fmt::format("[1, {}]", kColumns) : "[]";
        ImportedModel model;
        model.graph =
            ir::read_graph(fmt::format("kpt_graph 1\nbuffer x: {0}[{3}, {4}]\nbuffer w: {1}[{5}, {4}]\n"
                                       "buffer a: float32{6}\nbuffer s: float32{7}\ninput y: float32[{3}, {5}]\n"
                                       "t: {1}[{4}, {5}]{{strides=[1, {4}]}} = aten.t.default(self=%w)\n"
                                       "mm: {2}[{3}, {5}] = aten._scaled_mm.default(self=%x, mat2=%t, scale_a=%a, "
                                       "scale_b=%s, bias=none, scale_result=none, out_dtype=dtype({2}), "
                                       "use_fast_accum=false)\n"
                                       "sum: float32[{3}, {5}] = aten.add.Tensor(self=%y, other=%mm)\n"
                                       "output %sum \"sum\"\n",
                                       self, mat2, "bfloat16", kRows, kInner, kColumns, scale_a, scale_b))
                .value();
        draw_fp8_weights(model, random());
        const auto x = read_as_double(model.weights.at("x")).value();
        const auto w = read_as_double(model.weights.at("w")).value();
        const auto a = read_as_double(model.weights.at("a")).value();
        const auto s = read_as_double(model.weights.at("s")).value();
        const auto loaded = load_here(model);
        const std::vector<Tensor> inputs = {filled({kRows, kColumns}, 0)};
        for (int round = 0; round < 3; ++round) {  // node by node, captured, replayed
          const std::vector<Tensor> outputs = run_once(loaded->executable(), inputs);
          const auto found = outputs[0].elements<float>();
          for (std::int64_t row = 0; row < kRows; ++row) {
            for (std::int64_t column = 0; column < kColumns; ++column) {
              double sum = 0;
              double size = 0;
              for (std::int64_t k = 0; k < kInner; ++k) {
                const double product =
                    x[static_cast<std::size_t>(row * kInner + k)] * w[static_cast<std::size_t>(column * kInner + k)] *
                    a[rows ? static_cast<std::size_t>(row) : 0] * s[rows ? static_cast<std::size_t>(column) : 0];
                sum += product;
                size += std::abs(product);
              }
              // Hopper's matrix units keep some 14 bits of a sum.
              ASSERT_NEAR(static_cast<double>(found[static_cast<std::size_t>(row * kColumns + column)]), sum,
                          0x1p-9 * size + 0x1p-8 * std::abs(sum))
                  << row << ", " << column << ", round " << round;
            }
          }
        }
      }
    }
  }
}

TEST(Nvidia, EightThreadsGiveTheBitsOfOne) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = load_here(make_bert(seed));
  std::vector<std::vector<Tensor>> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (std::uint64_t index = 0; index < 8; ++index) {
    inputs.push_back(make_inputs(model->graph(), seed + index));
    expected.push_back(run_once(model->executable(), inputs.back()));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 50; ++round) {
        const std::vector<Tensor> outputs = run_once(model->executable(), inputs[thread]);
        for (std::size_t index = 0; index < outputs.size(); ++index) {
          if (!same_bytes(outputs[index], expected[thread][index])) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Nvidia, RunsInFlightGiveTheBitsOfRunsThatAreWaitedFor) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto model = load_here(make_bert(seed));
  EXPECT_TRUE(model->queues_runs());
  Session session = detail::start_session(model).value();
  std::vector<std::vector<Tensor>> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (std::uint64_t index = 0; index < 8; ++index) {
    inputs.push_back(make_inputs(model->graph(), seed + index));
    expected.push_back(run_once(model->executable(), inputs.back()));
  }
  for (int round = 0; round < 20; ++round) {
    std::vector<Pending> pending;
    for (const std::vector<Tensor>& given : inputs) pending.push_back(session.run_async(given).value());
    if (round % 4 == 0) continue;  // nobody takes them
    for (std::size_t index = 0; index < pending.size(); ++index) {
      const auto outputs = pending[index].take_outputs();
      ASSERT_TRUE(outputs.ok()) << outputs.status().message();
      for (std::size_t output = 0; output < outputs->size(); ++output) {
        EXPECT_TRUE(same_bytes((*outputs)[output].tensor, expected[index][output])) << index;
      }
    }
  }
}

TEST(Nvidia, ManyShapesAreForgottenInTurn) {
  ImportedModel imported;
  imported.graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..256
input x: float32[s0, 8]
result: float32[s0, 8] = aten.relu.default(self=%x)
output %result "out"
)")
                       .value();
  const auto model = load_here(std::move(imported));
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t rows = 1; rows <= 100; ++rows) {
      for (int again = 0; again < 3; ++again) {
        const auto outputs = run_once(model->executable(), {filled({rows, 8}, static_cast<float>(rows))});
        ASSERT_EQ(outputs[0].dims()[0], rows);
        ASSERT_EQ(outputs[0].elements<float>()[static_cast<std::size_t>(rows * 8 - 1)], static_cast<float>(rows));
      }
    }
  }
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("32 captured"));
}

class PeriodRecorder final : public NodeObserver {
 public:
  explicit PeriodRecorder(Recording& recording) : recording_(recording) {}
  void begin_node(std::size_t node) override { recording_.nodes.push_back({node, {now(), 0}}); }
  void end_node(std::size_t) override { recording_.nodes.back().elapsed.end_ns = now(); }
  static std::int64_t now() {
    const auto since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  }

 private:
  Recording& recording_;
};

TEST(Nvidia, ARecordingTellsWhichKernelsRanForWhichNode) {
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_bert(3));
  const std::vector<Tensor> inputs = make_inputs(model->graph(), 3);
  for (int round = 0; round < 3; ++round) run_once(model->executable(), inputs);
  Recording recording;
  PeriodRecorder recorder(recording);
  auto recorded = placed.device->record([&]() -> Status {
    recording.runs.push_back({PeriodRecorder::now(), 0});
    run_once(model->executable(), inputs);
    recording.runs.back().end_ns = PeriodRecorder::now();
    recording.observed_runs.push_back({PeriodRecorder::now(), 0});
    RunContext context;
    context.observer = &recorder;
    std::vector<Tensor> outputs;
    KPT_RETURN_IF_ERROR(model->executable().run(context, inputs, outputs));
    recording.observed_runs.back().end_ns = PeriodRecorder::now();
    return {};
  });
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  recording.activities = std::move(recorded).value();
  const auto launches = std::ranges::count(recording.activities, "cudaGraphLaunch", &Activity::name);
  EXPECT_EQ(launches, 1) << "a captured run is one launch";
  EXPECT_GT(sum_kernels(recording).size(), 3U);
  const std::vector<double> on_device = sum_nodes(recording, model->graph().nodes.size(), true);
  for (std::size_t index = 0; index < on_device.size(); ++index) {
    if (!model->graph().nodes[index].target.starts_with("aten.linear")) continue;
    EXPECT_GT(on_device[index], 0) << model->graph().nodes[index].name;
  }
  const auto failed = placed.device->record([]() -> Status { return {StatusCode::kCancelled, "not today"}; });
  EXPECT_EQ(failed.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace kpt::execution_test
