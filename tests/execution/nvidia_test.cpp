// What only a GPU has: runs that are captured, memory that runs out while the host's does not, results that stay there.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "benchmark/profile.h"
#include "ir/text.h"
#include "own_node_graph.h"
#include "passes/weight_values.h"

namespace kpt::execution_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

std::vector<Tensor> run_once(Executable& executable, const std::vector<Tensor>& inputs, bool stay = false) {
  RunContext context;
  context.outputs_on_device = stay;
  std::vector<Tensor> outputs;
  const Status status = executable.run(context, inputs, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return outputs;
}

// Memory of this process that no file backs.
std::uint64_t private_bytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word) {
    if (word == "RssAnon:") file >> kilobytes;
  }
  return kilobytes << 10U;
}

// left + right, broadcast: [rows, 1] and [1, columns] give [rows, columns].
ImportedModel make_sum(std::int64_t rows, std::int64_t columns) {
  GraphBuilder builder(1);
  const auto left = builder.input("left", DType::kFloat32, {rows, 1});
  const auto right = builder.input("right", DType::kFloat32, {1, columns});
  builder.output(
      builder.node("aten.add.Tensor", {{"self", left}, {"other", right}}, {{DType::kFloat32, {rows, columns}}})[0]);
  return std::move(builder.model);
}

Tensor filled(const std::vector<std::int64_t>& sizes, float value) {
  Tensor tensor = Tensor::empty(DType::kFloat32, sizes).value();
  for (float& element : tensor.elements<float>()) element = value;
  return tensor;
}

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

TEST(Nvidia, RowsThatMayLookNowhereAreZero) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    GraphBuilder builder(std::random_device{}());
    const std::vector<std::int64_t> sizes = {2, 4, 16, 64};
    const auto query = builder.input("query", dtype, sizes);
    const auto key = builder.input("key", dtype, sizes);
    const auto value = builder.input("value", dtype, sizes);
    const auto mask = builder.input("mask", DType::kBool, {2, 1, 16, 16});
    builder.output(builder.node(
        "kpt.attention.default",
        {{"query", query}, {"key", key}, {"value", value}, {"mask", mask}, {"scale", {0.125}}, {"causal", {false}}},
        {{dtype, {2, 16, 4, 64}}})[0]);
    std::vector<Tensor> inputs = builder.draw_inputs();
    for (std::size_t column = 0; column < 16; ++column) inputs[3].elements<std::uint8_t>()[5 * 16 + column] = 0;
    const auto model = load_here(std::move(builder.model));
    const std::vector<Tensor> outputs = run_once(model->executable(), inputs);
    const auto row_bytes = static_cast<std::size_t>(4 * 64) * element_bytes(dtype);
    const auto* row = static_cast<const std::uint8_t*>(outputs[0].data()) + 5 * row_bytes;
    for (std::size_t byte = 0; byte < row_bytes; ++byte) {
      const std::size_t width = element_bytes(dtype);
      const int bits = byte % width == width - 1 ? 0x7f : 0xff;  // the sign of zero is free
      ASSERT_EQ(row[byte] & bits, 0) << byte;
    }
  }
}

double bfloat(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
}

// A number of three mantissa bits is off by a sixteenth at most; products of the weight's own numbers are exact.
TEST(Nvidia, Fp8ProductsAreWhatTheyMean) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const auto& [rows, outer, inner] : {std::array<std::int64_t, 3>{1, 16, 16}, {7, 48, 96}, {130, 32, 256}}) {
    GraphBuilder builder(seed);
    const auto input = builder.input("input", DType::kBFloat16, {rows, inner});
    const auto weight = builder.weight("weight", DType::kFloat8E4M3FN, {outer, inner});
    const auto scale = builder.weight("scale", DType::kFloat32, {outer});
    const auto bias = builder.weight("bias", DType::kFloat32, {outer});
    builder.output(builder.node("kpt.linear_fp8.default",
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
        ASSERT_NEAR(found, wanted, 0.07 * magnitude + std::abs(sum) / 64 + 1e-3) << row << ", " << n;
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

// Takes the device's memory until less than `left` bytes can be had.
std::vector<Tensor> fill(Device& device, std::uint64_t left) {
  std::vector<Tensor> blocks;
  for (std::uint64_t bytes = 8192 * kMiB; bytes >= left; bytes /= 2) {
    while (true) {
      auto block = device.allocate(DType::kUInt8, std::vector<std::int64_t>{static_cast<std::int64_t>(bytes)});
      if (!block.ok()) {
        EXPECT_EQ(block.status().code(), StatusCode::kOutOfMemory) << block.status().message();
        break;
      }
      blocks.push_back(std::move(block).value());
    }
  }
  return blocks;
}

// 32768 × 32768 numbers are 4 GiB.
constexpr std::int64_t kLarge = 32768;

float element_of(Device& device, const Tensor& tensor, std::int64_t place) {
  const Tensor one = Tensor::unchecked(tensor.buffer(), DType::kFloat32, {1}, {1}, place);
  return device.download(one).value().elements<float>()[0];
}

Status run_large(Executable& executable, std::vector<Tensor>& outputs) {
  RunContext context;
  context.outputs_on_device = true;
  const std::vector<Tensor> inputs = {filled({kLarge, 1}, 1), filled({1, kLarge}, 2)};
  return executable.run(context, inputs, outputs);
}

TEST(Nvidia, MemoryThatRunsOutIsATypedErrorAndTheNextRunIsRight) {
  PlacedDevice placed = find_device_under_test();
  const auto small = load_here(make_sum(3, 5));
  const auto large = load_here(make_sum(kLarge, kLarge));
  const std::vector<Tensor> small_inputs = {filled({3, 1}, 1), filled({1, 5}, 2)};
  for (int round = 0; round < 3; ++round) run_once(small->executable(), small_inputs);
  std::vector<Tensor> outputs;
  {
    const std::vector<Tensor> blocks = fill(*placed.device, 1024 * kMiB);
    ASSERT_FALSE(blocks.empty());
    const Status status = run_large(large->executable(), outputs);
    ASSERT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
    EXPECT_EQ(status.vendor(), Vendor::kNvidia);
    EXPECT_THAT(status.to_string(), HasSubstr("free_bytes="));
    // A model of 4 GiB does not fit either.
    GraphBuilder builder(5);
    const auto input = builder.input("input", DType::kFloat32, {1, kLarge});
    const auto weight = builder.weight("weight", DType::kFloat32, {1, 1});
    const auto sum =
        builder.node("aten.add.Tensor", {{"self", input}, {"other", weight}}, {{DType::kFloat32, {kLarge, kLarge}}});
    builder.output(sum[0]);
    builder.set_sizes(weight, {kLarge, kLarge});
    builder.model.weights.insert_or_assign("weight", filled({kLarge, kLarge}, 0));
    auto program = placed.device->target().compile(builder.model.graph);
    ASSERT_TRUE(program.ok()) << program.status().message();
    Device* const devices[] = {placed.device};
    const auto loaded = placed.backend->load(std::move(program).value(), builder.model.weights, devices);
    EXPECT_EQ(loaded.status().code(), StatusCode::kOutOfMemory) << loaded.status().message();
    // What fits still runs.
    const auto sums = run_once(small->executable(), small_inputs);
    for (const float element : sums[0].elements<float>()) EXPECT_EQ(element, 3.0F);
  }
  ASSERT_TRUE(run_large(large->executable(), outputs).ok());
  EXPECT_EQ(element_of(*placed.device, outputs[0], 5 * kLarge + 7), 3.0F);
}

// A captured run keeps its results' memory: given up, it is enough for one run without.
TEST(Nvidia, CapturedGraphsAreGivenUpWhenMemoryRunsOut) {
  PlacedDevice placed = find_device_under_test();
  const auto large = load_here(make_sum(kLarge, kLarge));
  std::vector<Tensor> outputs;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(run_large(large->executable(), outputs).ok());
  EXPECT_THAT(large->executable().describe_runs(), HasSubstr("1 captured"));
  outputs.clear();
  const std::vector<Tensor> blocks = fill(*placed.device, 1024 * kMiB);
  const Status status = run_large(large->executable(), outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(element_of(*placed.device, outputs[0], kLarge * kLarge - 1), 3.0F);
  EXPECT_THAT(large->executable().describe_runs(), HasSubstr("0 captured"));
}

// x + y over rows of kLarge numbers, 128 KiB each, however many rows there are.
ImportedModel make_row_sum() {
  ImportedModel imported;
  imported.graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..1048576
input x: float32[s0, 1]
input y: float32[1, 32768]
result: float32[s0, 32768] = aten.add.Tensor(self=%x, other=%y)
output %result "out"
)")
                       .value();
  return imported;
}

Status run_rows(Executable& executable, std::int64_t rows, std::vector<Tensor>& outputs) {
  RunContext context;
  context.outputs_on_device = true;
  const std::vector<Tensor> inputs = {filled({rows, 1}, static_cast<float>(rows)), filled({1, kLarge}, 2)};
  return executable.run(context, inputs, outputs);
}

TEST(Nvidia, ALargerBatchThatDoesNotFitLeavesTheSmallerOneRunning) {
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_row_sum());
  std::vector<Tensor> outputs;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(run_rows(model->executable(), 16, outputs).ok());
  const std::vector<Tensor> blocks = fill(*placed.device, 1024 * kMiB);
  std::vector<Tensor> large;
  const Status status = run_rows(model->executable(), kLarge, large);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
  for (int round = 0; round < 3; ++round) {
    const Status again = run_rows(model->executable(), 16, outputs);
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_EQ(element_of(*placed.device, outputs[0], 16 * kLarge - 1), 18.0F);
  }
}

// Leaves room for so many results of kRoomRows rows and little else.
constexpr std::int64_t kRoomRows = 8192;  // 1 GiB
std::vector<Tensor> fill_but(Device& device, int results) {
  std::vector<Tensor> room;
  for (int index = 0; index < results; ++index) {
    room.push_back(device.allocate(DType::kFloat32, std::vector<std::int64_t>{kRoomRows, kLarge}).value());
  }
  return fill(device, 64 * kMiB);
}

bool is_right(Device& device, const Tensor& output) {
  return element_of(device, output, kRoomRows * kLarge - 1) == static_cast<float>(kRoomRows) + 2;
}

// There is room for one result, not for the second one that a captured run keeps: it runs node by node, and is captured
// some runs after the memory came back.
TEST(Nvidia, MemoryThatRunsOutDuringCaptureIsTriedAgainLater) {
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_row_sum());
  std::vector<Tensor> outputs;
  const auto run = [&] {
    outputs.clear();
    const Status status = run_rows(model->executable(), kRoomRows, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(is_right(*placed.device, outputs[0]));
  };
  {
    // A captured run and what it gives: two results.
    const std::vector<Tensor> blocks = fill_but(*placed.device, 1);
    std::vector<Tensor> kept;
    ASSERT_TRUE(run_rows(model->executable(), kRoomRows, kept).ok());
    // With one result kept, capturing finds no memory, and then the run itself does not either.
    outputs.clear();
    const Status status = run_rows(model->executable(), kRoomRows, outputs);
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
    kept.clear();
    for (int round = 0; round < 3; ++round) run();
    EXPECT_THAT(model->executable().describe_runs(),
                HasSubstr("0 captured so far; node by node where capturing failed"));
    EXPECT_THAT(model->executable().describe_runs(), HasSubstr("memory ran out"));
  }
  for (int round = 0; round < 70; ++round) run();
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("1 captured"));
}

// A pool that lost its last graph cannot be captured into again.
TEST(Nvidia, ShapesAreCapturedAfterAllThatWereAreForgotten) {
  const auto model = load_here(make_row_sum());
  std::vector<Tensor> outputs;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(run_rows(model->executable(), 1, outputs).ok());
  for (std::int64_t rows = 2; rows <= 34; ++rows) ASSERT_TRUE(run_rows(model->executable(), rows, outputs).ok());
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("0 captured"));
  for (int round = 0; round < 2; ++round) {
    const Status status = run_rows(model->executable(), 34, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("1 captured"));
}

TEST(Nvidia, ThreadsThatTogetherNeedTooMuchEndInRightAnswersOrTypedErrors) {
  PlacedDevice placed = find_device_under_test();
  std::vector<std::shared_ptr<const detail::LoadedModel>> models;
  for (int index = 0; index < 4; ++index) models.push_back(load_here(make_row_sum()));
  std::atomic<int> right = 0;
  std::atomic<int> wrong = 0;
  {
    const std::vector<Tensor> blocks = fill_but(*placed.device, 3);
    std::vector<std::thread> threads;
    for (const auto& model : models) {
      threads.emplace_back([&, executable = &model->executable()] {
        for (int round = 0; round < 5; ++round) {
          std::vector<Tensor> outputs;
          const Status status = run_rows(*executable, kRoomRows, outputs);
          if (status.ok()) {
            ++(is_right(*placed.device, outputs[0]) ? right : wrong);
          } else if (status.code() != StatusCode::kOutOfMemory) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
  std::vector<Tensor> outputs;
  for (const auto& model : models) {
    const Status status = run_rows(model->executable(), kRoomRows, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(is_right(*placed.device, outputs[0]));
  }
}

TEST(Nvidia, CapturedRunsKeepTheirBoundOfBytes) {
  ASSERT_EQ(setenv("KPT_NVIDIA_GRAPH_MEMORY_BYTES", "300000000", 1), 0);
  const auto model = load_here(make_row_sum());
  ASSERT_EQ(unsetenv("KPT_NVIDIA_GRAPH_MEMORY_BYTES"), 0);
  PlacedDevice placed = find_device_under_test();
  std::vector<Tensor> outputs;
  const auto run = [&](std::int64_t rows) {
    for (int round = 0; round < 3; ++round) {
      const Status status = run_rows(model->executable(), rows, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(element_of(*placed.device, outputs[0], rows * kLarge - 1), static_cast<float>(rows) + 2);
    }
  };
  run(800);  // 105 MB
  run(1200);
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("2 captured"));
  run(1000);  // together they would keep 393 MB: all are given up, and this one waits
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("0 captured"));
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("shapes together would keep"));
  for (int round = 0; round < 22; ++round) run(1000);
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("1 captured"));
  run(4096);  // 537 MB: with the other too much, and so it waits
  for (int round = 0; round < 44; ++round) run(4096);
  EXPECT_THAT(model->executable().describe_runs(), HasSubstr("it would keep"));
  run(800);
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

TEST(Nvidia, RunsAndLoadsLeaveNoMemoryBehind) {
  PlacedDevice placed = find_device_under_test();
  const auto free_now = [&] {
    std::uint64_t bytes = 0;
    for (const Tensor& block : fill(*placed.device, 32 * kMiB)) bytes += block.bytes();
    return static_cast<double>(bytes) / static_cast<double>(kMiB);
  };
  const auto model = load_here(make_bert(9));
  const std::vector<Tensor> inputs = make_inputs(model->graph(), 9);
  const auto load_and_run = [&](int times) {
    for (int round = 0; round < times; ++round) {
      const auto other = load_here(make_bert(static_cast<std::uint64_t>(round)));
      for (int again = 0; again < 3; ++again) run_once(other->executable(), inputs);
    }
  };
  // libtorch has 32 streams in turn, and its matrix library keeps memory for each that was ever used.
  load_and_run(40);
  const double before = free_now();
  const std::uint64_t host_before = private_bytes();
  for (int round = 0; round < 10000; ++round) run_once(model->executable(), inputs);
  load_and_run(200);
  EXPECT_NEAR(free_now(), before, 96);
  EXPECT_LT(private_bytes(), host_before + 96 * kMiB);
}

}  // namespace
}  // namespace kpt::execution_test
