// The runtime with a backend it has never heard of.
#include "test_backend.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/loaded_model.h"
#include "validation/model_run.h"

namespace kpt {
namespace {

ir::ValueId add_value(ir::Graph& graph, const std::string& name) {
  ir::Value value;
  value.name = name;
  value.tensor.dims = {3};
  value.tensor.strides = {1};
  return graph.add_value(std::move(value));
}

// output = x * w + x
ImportedModel make_model() {
  ImportedModel model;
  ir::Graph& graph = model.graph;
  const ir::ValueId w = add_value(graph, "w");
  const ir::ValueId x = add_value(graph, "x");
  const ir::ValueId product = add_value(graph, "product");
  const ir::ValueId sum = add_value(graph, "sum");
  graph.inputs = {{ir::InputKind::kParameter, w, "weight", true, {}}, {ir::InputKind::kUser, x, "x", true, {}}};
  ir::Node node;
  node.target = "aten.mul.Tensor";
  node.name = "product";
  node.arguments = {{"self", {x}}, {"other", {w}}};
  node.outputs = {{false, {product}}};
  graph.nodes.push_back(node);
  node.target = "aten.add.Tensor";
  node.name = "sum";
  node.arguments = {{"self", {product}}, {"other", {x}}};
  node.outputs = {{false, {sum}}};
  graph.nodes.push_back(node);
  graph.outputs = {{ir::OutputKind::kUser, {sum}, "output"}};
  const Tensor weight = Tensor::empty(DType::kFloat32, Dims{3}).value();
  weight.elements<float>()[0] = 10;
  weight.elements<float>()[1] = 20;
  weight.elements<float>()[2] = 30;
  model.weights.emplace("weight", weight);
  return model;
}

// What candidates are held against must not lose precision by options that the candidate has.
TEST(TestBackend, HearsWhichRunsAreAsTheModelIsWritten) {
  std::vector<bool> heard;
  execution_test::TestMemory memory;
  memory.as_written = &heard;
  const std::shared_ptr<Backend> backend = execution_test::make_test_backend(memory);
  const PlacedDevice placed{backend, backend->devices().value()[0]};
  ModelRun run = ModelRun::load(make_model(), placed).value();
  const std::vector<NamedTensor> inputs = {{"x", Tensor::empty(DType::kFloat32, Dims{3}).value()}};
  ASSERT_TRUE(run.run(inputs).ok());
  run.run_as_written();
  ASSERT_TRUE(run.run(inputs).ok());
  EXPECT_EQ(heard, (std::vector<bool>{false, true}));
}

TEST(TestBackend, ModelsRunThoughMemoryHasNoAddress) {
  const auto backend = execution_test::make_test_backend();
  Device& device = *backend->devices().value()[0];
  const auto model = detail::LoadedModel::load(make_model(), *backend, device);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->executable().device(), "test:0");
  Session session = detail::start_session(*model).value();
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (std::size_t index = 0; index < 3; ++index) x.elements<float>()[index] = static_cast<float>(index + 1);
  for (const Tensor& input : {x, device.upload(x).value()}) {
    const Tensor inputs[] = {input};
    std::vector<Tensor> outputs;
    ASSERT_TRUE(session.run(inputs, outputs).ok());
    EXPECT_EQ(outputs[0].data(), nullptr);
    const Tensor host = device.download(outputs[0]).value();
    EXPECT_THAT(std::vector<float>(host.elements<float>().begin(), host.elements<float>().end()),
                testing::ElementsAre(11, 42, 93));
  }
}

// total = total + x, kept from run to run.
ImportedModel make_counter() {
  ImportedModel model;
  ir::Graph& graph = model.graph;
  const ir::ValueId total = add_value(graph, "total");
  const ir::ValueId x = add_value(graph, "x");
  const ir::ValueId sum = add_value(graph, "sum");
  graph.inputs = {{ir::InputKind::kBuffer, total, "total", true, {}}, {ir::InputKind::kUser, x, "x", true, {}}};
  ir::Node node;
  node.target = "aten.add.Tensor";
  node.name = "sum";
  node.arguments = {{"self", {total}}, {"other", {x}}};
  node.outputs = {{false, {sum}}};
  graph.nodes.push_back(node);
  graph.outputs = {{ir::OutputKind::kUser, {sum}, "output"}, {ir::OutputKind::kBufferMutation, {sum}, "total"}};
  const Tensor stored = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (float& value : stored.elements<float>()) value = 100;
  model.weights.emplace("total", stored);
  return model;
}

TEST(TestBackend, WrittenBuffersBelongToTheSession) {
  const auto backend = execution_test::make_test_backend();
  Device& device = *backend->devices().value()[0];
  const auto model = detail::LoadedModel::load(make_counter(), *backend, device).value();
  const Tensor x = Tensor::empty(DType::kFloat32, Dims{3}).value();
  for (std::size_t index = 0; index < 3; ++index) x.elements<float>()[index] = static_cast<float>(index + 1);
  const auto run = [&](Session& session) {
    std::vector<Tensor> outputs;
    const Status status = session.run(std::span<const Tensor>(&x, 1), outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(outputs.size(), 1U) << "a write is no output";
    const Tensor host = device.download(outputs[0]).value();
    return std::vector<float>(host.elements<float>().begin(), host.elements<float>().end());
  };
  Session one = detail::start_session(model).value();
  Session other = detail::start_session(model).value();
  EXPECT_THAT(run(one), testing::ElementsAre(101, 102, 103));
  EXPECT_THAT(run(one), testing::ElementsAre(102, 104, 106));
  EXPECT_THAT(run(other), testing::ElementsAre(101, 102, 103));
  ASSERT_TRUE(one.reset().ok());
  EXPECT_THAT(run(one), testing::ElementsAre(101, 102, 103));
}

// output = x * weight + x over s0 rows of three.
ImportedModel make_row_model() {
  ImportedModel model = make_model();
  for (ir::Value& value : model.graph.values) {
    if (value.name == "w") continue;
    value.tensor.dims = {ir::Expr::symbol("s0"), 3};
    value.tensor.strides = {3, 1};
  }
  model.graph.symbols = {{"s0", 1, 100}};
  return model;
}

struct SplitRun {
  explicit SplitRun(std::int64_t room, bool split = true, ImportedModel imported = make_row_model(),
                    bool buckets = false, std::int64_t multiple = 1, StatusCode shortage = StatusCode::kOutOfMemory)
      : backend(execution_test::make_test_backend({room, &tried, buckets, multiple, nullptr, nullptr, shortage})),
        device(*backend->devices().value()[0]) {
    model = detail::LoadedModel::load(std::move(imported), *backend, device, nullptr, {split, true}).value();
  }
  Status run(std::int64_t rows) {
    Tensor x = Tensor::empty(DType::kFloat32, Dims{rows, 3}).value();
    for (std::size_t index = 0; index < x.elements<float>().size(); ++index) {
      x.elements<float>()[index] = static_cast<float>(index);
    }
    RunOptions options;
    options.report = &report;
    Session session = detail::start_session(model).value();
    return session.run(std::span<const Tensor>(&x, 1), outputs, options);
  }
  std::vector<std::int64_t> tried;  // rows of the runs that were begun
  std::unique_ptr<Backend> backend;
  Device& device;
  std::shared_ptr<const detail::LoadedModel> model;
  RunReport report;
  std::vector<Tensor> outputs;
};

TEST(SplitBatches, ABatchThatDoesNotFitRunsInPartsAndGivesTheSameRows) {
  SplitRun whole(100);
  ASSERT_TRUE(whole.run(7).ok());
  EXPECT_EQ(whole.report.parts, 1);
  const Tensor wanted = whole.device.download(whole.outputs[0]).value();
  SplitRun split(2);
  const Status status = split.run(7);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(split.tried, testing::ElementsAre(7, 4, 2, 2, 2, 1));
  EXPECT_EQ(split.report.parts, 4);
  EXPECT_EQ(split.report.part_rows, 2);
  ASSERT_EQ(split.outputs[0].dims(), wanted.dims());
  for (std::size_t index = 0; index < 21; ++index) {
    EXPECT_EQ(split.outputs[0].elements<float>()[index], wanted.elements<float>()[index]) << index;
  }
}

TEST(SplitBatches, OneRowThatDoesNotFitIsTheTypedError) {
  SplitRun split(0);
  EXPECT_EQ(split.run(4).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(split.tried, testing::ElementsAre(4, 2, 1));
}

TEST(SplitBatches, AShortageIsOneWhateverItIsCalled) {
  for (const StatusCode shortage : {StatusCode::kMemoryPool, StatusCode::kMemoryAllocation}) {
    SplitRun split(2, true, make_row_model(), false, 1, shortage);
    EXPECT_TRUE(split.run(7).ok()) << to_string(shortage);
    EXPECT_THAT(split.tried, testing::ElementsAre(7, 4, 2, 2, 2, 1));
    SplitRun none(0, true, make_row_model(), false, 1, shortage);
    EXPECT_EQ(none.run(4).code(), shortage);
  }
  SplitRun other(2, true, make_row_model(), false, 1, StatusCode::kDevice);
  EXPECT_EQ(other.run(7).code(), StatusCode::kDevice);
  EXPECT_THAT(other.tried, testing::ElementsAre(7)) << "another failure is no reason to try again";
}

TEST(SplitBatches, OffByDefaultAndWhereRowsAreNotIndependent) {
  SplitRun off(2, false);
  EXPECT_EQ(off.run(4).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(off.tried, testing::ElementsAre(4));
  ImportedModel fixed = make_row_model();
  for (ir::Value& value : fixed.graph.values) {
    if (value.name != "w") value.tensor.dims[0] = 4;
  }
  SplitRun whole_only(2, true, std::move(fixed));
  EXPECT_EQ(whole_only.run(4).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(whole_only.tried, testing::ElementsAre(4));
}

TEST(SplitBatches, PartsKeepToTheRangeOfTheSymbol) {
  ImportedModel model = make_row_model();
  model.graph.symbols = {{"s0", 2, 100}};
  SplitRun split(3, true, std::move(model));
  ASSERT_TRUE(split.run(5).ok());
  EXPECT_THAT(split.tried, testing::ElementsAre(5, 3, 2));
}

TEST(BatchBuckets, BatchesRunWithAFewSizesAndGiveTheSameRows) {
  SplitRun plain(100);
  SplitRun padded(100, false, make_row_model(), true);
  for (std::int64_t rows = 1; rows <= 11; ++rows) {
    ASSERT_TRUE(plain.run(rows).ok());
    ASSERT_TRUE(padded.run(rows).ok());
    const Tensor wanted = plain.device.download(plain.outputs[0]).value();
    const Tensor given = padded.device.download(padded.outputs[0]).value();
    ASSERT_EQ(given.dims(), wanted.dims());
    EXPECT_EQ(padded.report.padded_rows, padded.tried.back() - rows);
    for (std::size_t index = 0; index < wanted.elements<float>().size(); ++index) {
      EXPECT_EQ(given.elements<float>()[index], wanted.elements<float>()[index]) << rows << " rows, " << index;
    }
  }
  EXPECT_THAT(padded.tried, testing::ElementsAre(1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12));
  EXPECT_THAT(plain.tried, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)) << "sizes cost nothing there";
}

TEST(BatchBuckets, WhatDoesNotFitWithPaddingRunsWithout) {
  SplitRun tight(5, false, make_row_model(), true);
  ASSERT_TRUE(tight.run(5).ok());
  EXPECT_THAT(tight.tried, testing::ElementsAre(6, 5));
  EXPECT_EQ(tight.report.padded_rows, 0);
  SplitRun split(4, true, make_row_model(), true);
  ASSERT_TRUE(split.run(5).ok());
  EXPECT_THAT(split.tried, testing::ElementsAre(6, 5, 3, 2));
  EXPECT_EQ(split.report.parts, 2);
}

TEST(BatchBuckets, DevicesThatShareRowsGetAsManyEach) {
  SplitRun shared(100, false, make_row_model(), true, 3);
  ASSERT_TRUE(shared.run(15).ok());
  ASSERT_TRUE(shared.run(5).ok());
  EXPECT_THAT(shared.tried, testing::ElementsAre(18, 6)) << "16 cannot be shared by three";
  SplitRun split(6, true, make_row_model(), false, 3);
  ASSERT_TRUE(split.run(15).ok());
  EXPECT_THAT(split.tried, testing::ElementsAre(15, 9, 6, 6, 3));
  SplitRun uneven(4, true, make_row_model(), false, 3);
  EXPECT_EQ(uneven.run(5).code(), StatusCode::kInvalidArgument);
}

TEST(BatchBuckets, TheRangeOfTheSymbolAndTensorsOfTheDeviceAreLeftAsTheyAre) {
  ImportedModel model = make_row_model();
  model.graph.symbols = {{"s0", 1, 5}};
  SplitRun ranged(100, false, std::move(model), true);
  ASSERT_TRUE(ranged.run(5).ok());
  EXPECT_THAT(ranged.tried, testing::ElementsAre(5));
  SplitRun padded(100, false, make_row_model(), true);
  const Tensor x = padded.device.upload(Tensor::empty(DType::kFloat32, Dims{5, 3}).value()).value();
  Session session = detail::start_session(padded.model).value();
  ASSERT_TRUE(session.run(std::span<const Tensor>(&x, 1), padded.outputs).ok());
  EXPECT_THAT(padded.tried, testing::ElementsAre(5));
}

// Runs of x * weight + x over s0 rows of s1 positions of three.
struct LongRun {
  explicit LongRun(std::int64_t room, bool sequences, bool batches = false) {
    ImportedModel imported = make_model();
    for (ir::Value& value : imported.graph.values) {
      if (value.name != "w") value.tensor.dims = {ir::Expr::symbol("s0"), ir::Expr::symbol("s1"), 3};
    }
    imported.graph.symbols = {{"s0", 1, 100}, {"s1", 1, 2000}};
    execution_test::TestMemory memory;
    memory.rows = room;
    memory.tried = &rows;
    memory.sizes_cost = true;
    memory.strides = &strides;
    backend = execution_test::make_test_backend(memory);
    device = backend->devices().value()[0];
    model =
        detail::LoadedModel::load(std::move(imported), *backend, *device, nullptr, {true, batches, sequences}).value();
  }
  Tensor run(std::int64_t count, std::int64_t length) {
    const Tensor x = Tensor::empty(DType::kFloat32, Dims{count, length, 3}).value();
    for (std::size_t index = 0; index < x.elements<float>().size(); ++index) {
      x.elements<float>()[index] = static_cast<float>(index);
    }
    RunOptions options;
    options.report = &report;
    Session session = detail::start_session(model).value();
    std::vector<Tensor> outputs;
    const Status status = session.run(std::span<const Tensor>(&x, 1), outputs, options);
    EXPECT_TRUE(status.ok()) << status.message();
    return device->download(outputs.at(0)).value();
  }
  std::int64_t length() const { return strides.back()[0] / 3; }  // that the device saw
  std::vector<std::int64_t> rows;
  std::vector<Dims> strides;
  std::unique_ptr<Backend> backend;
  Device* device = nullptr;
  std::shared_ptr<const detail::LoadedModel> model;
  RunReport report;
};

TEST(SequenceBuckets, SequencesRunWithAFewLengthsAndGiveTheSamePositions) {
  LongRun plain(100, false);
  LongRun padded(100, true);
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 1; length <= 11; ++length) {
    const Tensor wanted = plain.run(2, length);
    const Tensor given = padded.run(2, length);
    ASSERT_EQ(given.dims(), wanted.dims());
    EXPECT_TRUE(std::ranges::equal(given.elements<float>(), wanted.elements<float>())) << length;
    EXPECT_EQ(plain.length(), length);
    EXPECT_EQ(padded.report.padded_positions, padded.length() - length);
    lengths.push_back(padded.length());
  }
  EXPECT_THAT(lengths, testing::ElementsAre(1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12));
  padded.run(1, 1025);
  EXPECT_EQ(padded.length(), 1025) << "long ones run as they are";
}

TEST(SequenceBuckets, BatchesArePaddedBesideAndSplitWithoutPadding) {
  LongRun both(100, true, true);
  const Tensor given = both.run(5, 7);
  EXPECT_EQ(given.dims(), (Dims{5, 7, 3}));
  EXPECT_EQ(both.rows.back(), 6);
  EXPECT_EQ(both.length(), 8);
  EXPECT_EQ(both.report.padded_rows, 1);
  EXPECT_EQ(both.report.padded_positions, 1);
  LongRun tight(3, true);
  tight.run(5, 7);
  EXPECT_THAT(tight.rows, testing::ElementsAre(5, 5, 3, 2)) << "with padding, without, and in parts";
  EXPECT_EQ(tight.length(), 7);
  EXPECT_EQ(tight.report.padded_positions, 0);
  EXPECT_EQ(tight.report.parts, 2);
}

TEST(TestBackend, WhatItCannotDoIsListedByTheRuntime) {
  ImportedModel model = make_model();
  model.graph.nodes[0].target = "aten.div.Tensor";
  const auto backend = execution_test::make_test_backend();
  const auto loaded = detail::LoadedModel::load(std::move(model), *backend, *backend->devices().value()[0]);
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(loaded.status().message(),
              testing::HasSubstr("1 of 2 nodes cannot run on test: 'product' aten.div.Tensor: the test backend adds"));
}

}  // namespace
}  // namespace kpt
