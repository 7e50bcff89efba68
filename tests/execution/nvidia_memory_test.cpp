// Memory of a GPU: counted, bounded, and running out while the host's does not.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "ir/text.h"
#include "kpt/device_figures.h"
#include "nvidia_runs.h"

namespace kpt::execution_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

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

constexpr const char* kMargin = "KPT_NVIDIA_MEMORY_MARGIN_BYTES";

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

// A model whose weight takes 4 GiB.
Result<std::unique_ptr<Executable>> load_large_weight(const PlacedDevice& placed) {
  GraphBuilder builder(5);
  const auto input = builder.input("input", DType::kFloat32, {1, kLarge});
  const auto weight = builder.weight("weight", DType::kFloat32, {1, 1});
  const auto sum =
      builder.node("aten.add.Tensor", {{"self", input}, {"other", weight}}, {{DType::kFloat32, {kLarge, kLarge}}});
  builder.output(sum[0]);
  builder.set_sizes(weight, {kLarge, kLarge});
  builder.model.weights.insert_or_assign("weight", filled({kLarge, kLarge}, 0));
  KPT_ASSIGN_OR_RETURN(auto program, placed.device->target().compile(builder.model.graph));
  Device* const devices[] = {placed.device};
  return placed.backend->load(std::move(program), builder.model.weights, devices);
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
    const std::uint64_t failures = *placed.device->memory().value().out_of_memory_count;
    const auto loaded = load_large_weight(placed);  // does not fit either
    EXPECT_EQ(loaded.status().code(), StatusCode::kOutOfMemory) << loaded.status().message();
    for (const char* part : {"needed_bytes=4294967296", "available_bytes=", "free_bytes=", "total_bytes=", "advice="}) {
      EXPECT_THAT(loaded.status().to_string(), HasSubstr(part));
    }
    EXPECT_EQ(*placed.device->memory().value().out_of_memory_count, failures + 1);
    // What fits still runs.
    const auto sums = run_once(small->executable(), small_inputs);
    for (const float element : sums[0].elements<float>()) EXPECT_EQ(element, 3.0F);
  }
  ASSERT_TRUE(run_large(large->executable(), outputs).ok());
  EXPECT_EQ(element_of(*placed.device, outputs[0], 5 * kLarge + 7), 3.0F);
}

// A captured run keeps its results' memory: given up, it is enough for one run without.
TEST(Nvidia, CapturedGraphsAreGivenUpWhenMemoryRunsOut) {
  const Setting no_margin(kMargin, "0");
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

// What a model keeps for its captured runs is there for others: for a run, and for loading.
TEST(Nvidia, IdleModelsGiveTheirCapturedGraphsUpForOneThatLacksMemory) {
  const Setting no_margin(kMargin, "0");
  PlacedDevice placed = find_device_under_test();
  const auto asking = load_here(make_sum(kLarge, kLarge));
  std::vector<Tensor> outputs;
  for (const bool loads : {false, true}) {
    SCOPED_TRACE(loads ? "loading" : "a run");
    const auto idle = load_here(make_sum(kLarge, kLarge));
    for (int round = 0; round < 3; ++round) ASSERT_TRUE(run_large(idle->executable(), outputs).ok());
    EXPECT_THAT(idle->executable().describe_runs(), HasSubstr("1 captured"));
    outputs.clear();
    std::vector<Tensor> blocks = fill(*placed.device, 1024 * kMiB);
    EXPECT_THAT(idle->executable().describe_runs(), HasSubstr("1 captured")) << "tensors alone take no model's";
    if (loads) {
      const auto loaded = load_large_weight(placed);
      EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
    } else {
      const Status status = run_large(asking->executable(), outputs);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(element_of(*placed.device, outputs[0], kLarge + 1), 3.0F);
    }
    EXPECT_THAT(idle->executable().describe_runs(), HasSubstr("0 captured"));
    EXPECT_THAT(idle->executable().describe_runs(), HasSubstr("went to another model"));
    outputs.clear();
    blocks.clear();
    for (int round = 0; round < 3; ++round) {
      const Status status = run_large(idle->executable(), outputs);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(element_of(*placed.device, outputs[0], 3 * kLarge), 3.0F);
    }
  }
}

// Two models take turns at work while there is room for the captured run of one: every answer is right, or a typed
// error.
TEST(Nvidia, ModelsAtWorkKeepTheirGraphsAndStayRightWhileOthersLackMemory) {
  const Setting no_margin(kMargin, "0");
  PlacedDevice placed = find_device_under_test();
  std::vector<std::shared_ptr<const detail::LoadedModel>> models;
  for (int index = 0; index < 2; ++index) models.push_back(load_here(make_sum(kLarge, kLarge)));
  std::vector<Tensor> outputs;
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(run_large(models[0]->executable(), outputs).ok());
  outputs.clear();
  const std::vector<Tensor> blocks = fill(*placed.device, 1024 * kMiB);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const auto& model : models) {
    threads.emplace_back([&, executable = &model->executable()] {
      for (int round = 0; round < 10; ++round) {
        std::vector<Tensor> own;
        const Status status = run_large(*executable, own);
        if (status.ok() ? element_of(*placed.device, own[0], kLarge * kLarge - 1) != 3.0F
                        : status.code() != StatusCode::kOutOfMemory) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
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
  const Setting no_margin(kMargin, "0");
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

// Leaves room for so many results of kRoomRows rows, for what goes with them, and little else.
constexpr std::int64_t kRoomRows = 8192;  // 1 GiB
std::vector<Tensor> fill_but(Device& device, int results) {
  EXPECT_TRUE(device.empty_cache().ok());  // a part of a kept block would stay with its stream
  std::vector<Tensor> room;
  for (int index = 0; index < results; ++index) {
    room.push_back(device.allocate(DType::kFloat32, std::vector<std::int64_t>{kRoomRows, kLarge}).value());
  }
  room.push_back(device.allocate(DType::kUInt8, std::vector<std::int64_t>{128 * kMiB}).value());
  return fill(device, 64 * kMiB);
}

bool is_right(Device& device, const Tensor& output) {
  return element_of(device, output, kRoomRows * kLarge - 1) == static_cast<float>(kRoomRows) + 2;
}

// There is room for one result, not for the second one that a captured run keeps: it runs node by node, and is captured
// some runs after the memory came back.
TEST(Nvidia, MemoryThatRunsOutDuringCaptureIsTriedAgainLater) {
  const Setting no_margin(kMargin, "0");
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_row_sum());
  std::vector<Tensor> outputs;
  const auto run = [&] {
    outputs.clear();
    const Status status = run_rows(model->executable(), kRoomRows, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(is_right(*placed.device, outputs[0]));
  };
  ASSERT_TRUE(run_rows(model->executable(), 1, outputs).ok());  // the driver takes memory for kernels it meets first
  {
    // A captured run and what it gives: two results.
    const std::vector<Tensor> blocks = fill_but(*placed.device, 1);
    std::vector<Tensor> kept;
    const Status first = run_rows(model->executable(), kRoomRows, kept);
    ASSERT_TRUE(first.ok()) << first.to_string();
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
  const Setting no_margin(kMargin, "0");
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
  const auto model = [] {
    const Setting bound("KPT_NVIDIA_GRAPH_MEMORY_BYTES", "300000000");
    return load_here(make_row_sum());
  }();
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

TEST(Nvidia, MemoryIsCountedAsTensorsComeAndGo) {
  PlacedDevice placed = find_device_under_test();
  Device& device = *placed.device;
  ASSERT_TRUE(device.empty_cache().ok());
  const MemoryStatistics before = device.memory().value();
  EXPECT_GT(*before.total_bytes, *before.free_bytes);
  EXPECT_EQ(before.limit_bytes, std::nullopt);
  constexpr std::uint64_t kBlock = 256 * kMiB;
  const std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(kBlock)};
  {
    const Tensor block = device.allocate(DType::kUInt8, sizes).value();
    const MemoryStatistics during = device.memory().value();
    EXPECT_EQ(*during.allocated_bytes, *before.allocated_bytes + kBlock);
    EXPECT_GE(*during.reserved_bytes, *before.reserved_bytes + kBlock);
    EXPECT_LE(*during.free_bytes, *before.free_bytes - kBlock);
    EXPECT_GT(*during.allocations, *before.allocations);
  }
  const MemoryStatistics after = device.memory().value();
  EXPECT_EQ(*after.allocated_bytes, *before.allocated_bytes);
  EXPECT_GE(*after.peak_bytes, *before.allocated_bytes + kBlock);
  EXPECT_GE(*after.reserved_bytes, *before.reserved_bytes + kBlock) << "kept for later";
  ASSERT_TRUE(device.reset_peak_memory().ok());
  ASSERT_TRUE(device.empty_cache().ok());
  const MemoryStatistics end = device.memory().value();
  EXPECT_EQ(*end.peak_bytes, *end.allocated_bytes);
  EXPECT_LT(*end.reserved_bytes, *after.reserved_bytes);
  EXPECT_GT(*end.free_bytes, *after.free_bytes);
}

// What programs that only know include/kpt ask.
TEST(Nvidia, MemoryByTheDevicesNameIsThatOfTheProcess) {
  PlacedDevice placed = find_device_under_test();
  const std::string name = placed.device->info().name;
  ASSERT_TRUE(empty_device_memory_cache(name).ok());
  constexpr std::uint64_t kBlock = 256 * kMiB;
  const std::uint64_t before = *read_device_memory(name).value().allocated_bytes;
  {
    const Tensor block =
        placed.device->allocate(DType::kUInt8, std::vector<std::int64_t>{static_cast<std::int64_t>(kBlock)}).value();
    EXPECT_EQ(read_device_memory(name).value().allocated_bytes, before + kBlock);
  }
  const DeviceMemoryFigures after = read_device_memory(name).value();
  EXPECT_GE(after.peak_bytes, before + kBlock);
  EXPECT_LE(after.fragmentation, 1);
  ASSERT_TRUE(reset_device_memory_peak(name).ok());
  ASSERT_TRUE(empty_device_memory_cache(name).ok());
  const DeviceMemoryFigures end = read_device_memory(name).value();
  EXPECT_EQ(end.peak_bytes, end.allocated_bytes);
  EXPECT_LT(end.reserved_bytes, after.reserved_bytes);
  const DeviceLoad load = read_device_load(name).value();
  EXPECT_TRUE(load.memory_free_bytes.has_value());
}

TEST(Nvidia, ARunThatCannotFitIsRefusedBeforeItStarts) {
  PlacedDevice placed = find_device_under_test();
  const auto model = load_here(make_row_sum());
  std::vector<Tensor> outputs;
  ASSERT_TRUE(run_rows(model->executable(), 16, outputs).ok());
  outputs.clear();
  const MemoryStatistics before = placed.device->memory().value();
  ASSERT_TRUE(placed.device->reset_peak_memory().ok());
  // 1048576 rows of 128 KiB are 128 GiB of results, and there is less than that beside the filling.
  const std::vector<Tensor> blocks = fill(*placed.device, 8192 * kMiB);
  const std::uint64_t held = *placed.device->memory().value().allocated_bytes;
  const Status status = run_rows(model->executable(), 1048576, outputs);
  ASSERT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
  EXPECT_EQ(status.vendor(), Vendor::kNvidia);
  for (const char* part :
       {"needed_bytes=1374", "available_bytes=", "free_bytes=", "margin_bytes=33554432", "advice="}) {
    EXPECT_THAT(status.to_string(), HasSubstr(part));
  }
  const MemoryStatistics after = placed.device->memory().value();
  EXPECT_EQ(*after.peak_bytes, held) << "nothing was begun";
  EXPECT_GT(*after.out_of_memory_count, *before.out_of_memory_count);
  ASSERT_TRUE(run_rows(model->executable(), 16, outputs).ok());
}

TEST(Nvidia, AMarginIsLeft) {
  const auto model = [] {
    const Setting margin(kMargin, "1000000000000");  // more than any device has
    return load_here(make_row_sum());
  }();
  ASSERT_TRUE(find_device_under_test().device->empty_cache().ok());  // what is kept is taken without asking
  std::vector<Tensor> outputs;
  const Status status = run_rows(model->executable(), 1, outputs);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory) << status.message();
  EXPECT_THAT(status.to_string(), HasSubstr("margin_bytes=1000000000000"));
}

TEST(Nvidia, ABatchThatDoesNotFitRunsInParts) {
  PlacedDevice placed = find_device_under_test();
  ImportedModel imported;
  imported.graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..1048576
input x: float32[s0, 32768]
a: float32[s0, 32768] = aten.relu.default(self=%x)
b: float32[s0, 32768] = aten.add.Tensor(self=%a, other=1)
result: float32[s0, 1] = aten.sum.dim_IntList(self=%b, dim=[1], keepdim=true)
output %result "out"
)")
                       .value();
  const auto model =
      detail::LoadedModel::load(std::move(imported), *placed.backend, *placed.device, placed.backend, {.split = true})
          .value();
  // Input and two results of 8192 rows are 3 GiB; there is room for less.
  const std::vector<Tensor> blocks = fill_but(*placed.device, 1);
  Tensor input = Tensor::empty(DType::kFloat32, std::vector<std::int64_t>{kRoomRows, kLarge}).value();
  for (std::int64_t row = 0; row < kRoomRows; ++row) {
    float* const begin = input.elements<float>().data() + row * kLarge;
    std::fill(begin, begin + kLarge, 0.0F);
    *begin = static_cast<float>(row);
  }
  RunReport report;
  RunOptions options;
  options.report = &report;
  std::vector<Tensor> outputs;
  Session session = detail::start_session(model).value();
  const Status status = session.run(std::span<const Tensor>(&input, 1), outputs, options);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GT(report.parts, 1);
  EXPECT_LT(report.part_rows, kRoomRows);
  for (std::int64_t row = 0; row < kRoomRows; ++row) {
    ASSERT_EQ(outputs[0].elements<float>()[static_cast<std::size_t>(row)], static_cast<float>(row + kLarge)) << row;
  }
}

TEST(Nvidia, TheProcessTakesNoMoreThanItsPart) {
  PlacedDevice all = find_device_under_test();
  const std::uint64_t total = *all.device->memory().value().total_bytes;
  {
    const Setting part("KPT_NVIDIA_MEMORY_PERCENT", "25");
    PlacedDevice placed = find_device_under_test();
    ASSERT_TRUE(placed.device->empty_cache().ok());
    EXPECT_EQ(*placed.device->memory().value().limit_bytes, total / 100 * 25);
    const std::vector<Tensor> blocks = fill(*placed.device, 64 * kMiB);
    const MemoryStatistics memory = placed.device->memory().value();
    EXPECT_LE(*memory.reserved_bytes, total / 4);
    EXPECT_GT(*memory.reserved_bytes, total / 5);
    EXPECT_GT(*memory.free_bytes, total / 2) << "others may have it";
  }
  const Setting almost("KPT_NVIDIA_MEMORY_PERCENT", "99");  // it holds for the process: the tests after this one
  EXPECT_TRUE(find_device_under_test().device->empty_cache().ok());
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
